"""Which connections stay open."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from exporter.limits import Listener

from .conftest import wait_for


class Server:
    """A listener, its connections and their clients."""

    def __init__(
        self, stack: ExitStack, *, longest: float = 0.0, idle: float = 3600.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stack = stack
        self.listener = stack.enter_context(Listener(socket.create_server(("127.0.0.1", 0)), 8, longest, idle, clock))

    def connect(self, *, answered: bool) -> tuple[socket.socket, socket.socket]:
        """A client, and the daemon's end of its connection."""
        client = self._stack.enter_context(socket.create_connection(self.listener.getsockname()[:2], timeout=5))
        accepted, peer = self.listener.accept()
        self._stack.enter_context(accepted)
        if answered:
            self.listener.answered(peer)
        return client, accepted

    def cuts(self, client: socket.socket) -> bool:
        """Whether a look now leaves it shut down."""
        self.listener.cut_the_slow()
        client.setblocking(False)
        try:
            return client.recv(1) == b""
        except BlockingIOError:
            return False


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test opened."""
    with ExitStack() as stack:
        yield stack


def test_who_has_read_an_answer_may_rest(stack: ExitStack) -> None:
    """Prometheus asks again over the same connection, so that TLS costs one handshake; who never asked waits in vain."""
    server = Server(stack)
    (resting, accepted), (silent, _) = server.connect(answered=True), server.connect(answered=False)
    accepted.sendall(b"an answer")
    assert b"an answer" == resting.recv(100)
    wait_for(lambda: server.cuts(silent), "the one that never asked to be cut")
    assert not server.cuts(resting)

    server.listener.answering(resting.getsockname())
    assert not server.cuts(resting)  # it waits for us
    server.listener.begins_to_answer(resting.getsockname())
    wait_for(lambda: server.cuts(resting), "one that takes so long to read to be cut")


def test_a_machine_that_stands_still_cuts_nobody(stack: ExitStack) -> None:
    """A scrape got no answer because nobody had run for half a minute between its connection and its request."""
    now = [0.0]
    server = Server(stack, longest=10.0, clock=lambda: now[0])
    client, _ = server.connect(answered=False)
    for pause in (1.0, 30.0, 30.0, 4.9):  # counted as 1, 2, 2 and 2 seconds
        now[0] += pause
        assert not server.cuts(client)
    for _ in range(3):
        now[0] += 1.0
        assert not server.cuts(client)
    now[0] += 1.0
    assert server.cuts(client)


def test_nobody_rests_for_ever(stack: ExitStack) -> None:
    """Its place is wanted."""
    server = Server(stack, idle=0.0)
    resting, _ = server.connect(answered=True)
    wait_for(lambda: server.cuts(resting), "it to be cut")


def test_who_does_not_read_does_not_rest(stack: ExitStack) -> None:
    """The answer waits in memory."""
    server = Server(stack)
    _, accepted = server.connect(answered=True)
    accepted.settimeout(0.1)
    with pytest.raises(TimeoutError):
        accepted.sendall(bytes(1 << 26))
    server.listener.cut_the_slow()
    with pytest.raises(BrokenPipeError):
        accepted.sendall(b"more")
