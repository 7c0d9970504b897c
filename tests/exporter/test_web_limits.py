"""What somebody who can reach the port may take: connections, time, headers, bodies. Scrapes go on meanwhile."""

import resource
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import pytest

from exporter.limits import LONGEST_SECONDS, MOST_CONNECTIONS, MOST_TLS_CONNECTIONS

from .certificates import Authority, needs_tools
from .conftest import READY, Running, line, logo, wait_for

pytestmark = pytest.mark.slow

Start = Callable[..., Running]

HOSTILE = 10_000
ATTACKER = "127.0.0.2"
"""The address from which harm comes; scrapes come from another."""
MOST_GROWTH_KB = 32 * 1024
HALF_A_REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-A: "


@pytest.fixture
def daemon(run: Start, tmp_path: Path) -> Running:
    """A daemon of one small log."""
    (tmp_path / "engine.log").write_text(f"{logo()}\n{line('GPU KV cache size: 640 tokens')}\n{READY}\n")
    return run("--log", str(tmp_path / "engine.log")).wait_ready()


@pytest.fixture(autouse=True)
def _many_descriptors() -> Iterator[None]:
    """The client holds more than a process usually may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < HOSTILE + 500:
        pytest.skip("not enough descriptors for the client")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HOSTILE + 500), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Scraper:
    """Scrapes again and again, and remembers how it went."""

    def __init__(self, daemon: Running) -> None:
        self._daemon, self._ending = daemon, threading.Event()
        self.statuses: list[int] = []
        self._thread = threading.Thread(target=self._scrape)

    def _scrape(self) -> None:
        while not self._ending.wait(0.05):
            self.statuses.append(self._daemon.get()[0])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()


def rss_kb(daemon: Running) -> int:
    """Resident memory."""
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def descriptors(daemon: Running) -> int:
    """Open files and sockets."""
    return len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))


def connect(daemon: Running, stack: ExitStack, say: bytes = b"") -> socket.socket:
    """A connection that says something and no more."""
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", daemon.port), timeout=20, source_address=(ATTACKER, 0)))
    if say:
        with suppress(OSError):  # it may be cut by now
            connection.sendall(say)
    return connection


@pytest.mark.parametrize("say", [b"", HALF_A_REQUEST], ids=["silent", "half a request"])
def test_ten_thousand_connections_are_bounded(daemon: Running, say: bytes) -> None:
    """Who holds them displaces his own only: descriptors and memory stay, and every scrape is answered."""
    before, memory = descriptors(daemon), rss_kb(daemon)
    most = 0
    with Scraper(daemon) as scraper, ExitStack() as stack:
        for number in range(HOSTILE):
            connect(daemon, stack, say)
            if number % 500 == 0:
                most = max(most, descriptors(daemon))
        wait_for(lambda: len(scraper.statuses) > 20, "some scrapes")
        wait_for(lambda: descriptors(daemon) <= before + MOST_CONNECTIONS + 1, "those that were cut to be closed")
    assert set(scraper.statuses) == {200}
    assert most <= before + MOST_CONNECTIONS + 32
    assert rss_kb(daemon) < memory + MOST_GROWTH_KB


def test_slow_requests_end(daemon: Running) -> None:
    """A byte at a time keeps nobody in; meanwhile a scrape is answered."""
    with Scraper(daemon) as scraper, ExitStack() as stack:
        slow = [connect(daemon, stack, HALF_A_REQUEST) for _ in range(MOST_CONNECTIONS // 2)]

        def all_are_cut() -> bool:
            for each in list(slow):
                each.settimeout(0.001)
                try:
                    each.sendall(b"a")
                    if each.recv(1) == b"":
                        slow.remove(each)
                except TimeoutError:
                    pass
                except OSError:
                    slow.remove(each)
            return not slow

        wait_for(all_are_cut, "the slow ones to be cut", LONGEST_SECONDS + 10)
    assert set(scraper.statuses) == {200}


def is_accepted(connection: socket.socket) -> bool:
    """Whether the daemon has the other end: one that only the kernel knows has no inode."""
    (_, here), (_, there) = connection.getsockname(), connection.getpeername()
    rows = [row.split() for row in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return any(row[1].endswith(f":{there:04X}") and row[2].endswith(f":{here:04X}") and row[9] != "0" for row in rows)


def test_a_request_on_a_machine_that_stands_still_is_answered(daemon: Running) -> None:
    """Two engines beside us that spin on all cores did that: what was asked meanwhile was cut unread."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=10) as connection:
        wait_for(lambda: is_accepted(connection), "the connection")
        daemon.process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_for(lambda: time.monotonic() > stopped + LONGEST_SECONDS + 1, "more time to pass than a client has")
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_who_does_not_read_the_answer_is_cut(daemon: Running) -> None:
    """Answers wait in memory only so long."""
    before = descriptors(daemon)
    with ExitStack() as stack:
        for _ in range(16):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            connection.connect(("127.0.0.1", daemon.port))
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        wait_for(lambda: descriptors(daemon) > before, "the connections")
        wait_for(lambda: descriptors(daemon) <= before, "them to be cut", LONGEST_SECONDS + 20)
    assert 200 == daemon.get()[0]


def ask(daemon: Running, request: bytes) -> bytes:
    """What is answered to a request, up to the end of the connection or of what there is."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=10) as connection:
        with suppress(OSError):  # it may answer, and close, before it has all
            connection.sendall(request)
        answer = b""
        with suppress(OSError):
            while part := connection.recv(65536):
                answer += part
        return answer


def test_an_oversized_header_is_refused(daemon: Running) -> None:
    """Nothing of it is repeated, in the answer or in our log; many of them do not fill our log."""
    canary = b"CANARY7f3a"
    for _ in range(100):
        answer = ask(daemon, b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + canary * 20_000 + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ") or not answer
        assert canary not in answer
    answer = ask(daemon, b"GET /" + canary * 20_000 + b" HTTP/1.1\r\n\r\n")
    assert canary not in answer
    told = daemon.errors.read_text()
    assert canary.decode() not in told
    assert len(told.splitlines()) < 30
    assert 200 == daemon.get()[0]


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 1000000", b"Transfer-Encoding: chunked", b"Content-Length: 99999999999999999999"],
    ids=["long", "chunked", "huge"],
)
def test_a_body_is_refused(daemon: Running, framing: bytes) -> None:
    """No request needs one."""
    request = b"POST /-/reload HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n"
    assert ask(daemon, request).startswith(b"HTTP/1.1 413 ")
    memory = rss_kb(daemon)
    ask(daemon, request + b"A" * 64 * 1024 * 1024)
    assert rss_kb(daemon) < memory + MOST_GROWTH_KB
    assert 200 == daemon.get()[0]


@needs_tools
def test_handshakes_that_never_come_are_bounded(run: Start, tmp_path: Path) -> None:
    """With TLS a connection costs before its first request."""
    authority = Authority(tmp_path)
    authority.issue("localhost", tmp_path / "cert.pem", tmp_path / "key.pem")
    (tmp_path / "web.yml").write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}")
    (tmp_path / "engine.log").write_text(f"{logo()}\n")
    daemon = run("--log", str(tmp_path / "engine.log"), "--web.config.file", str(tmp_path / "web.yml"))
    wait_for(lambda: "history read" in daemon.errors.read_text(), "the daemon")
    before, memory = descriptors(daemon), rss_kb(daemon)
    context = ssl.create_default_context(cafile=str(authority.cert))
    with ExitStack() as stack:
        for number in range(HOSTILE // 5):
            connect(daemon, stack, b"\x16\x03\x01" if number % 2 else b"")
        with context.wrap_socket(connect(daemon, stack), server_hostname="localhost") as scrape:
            scrape.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert scrape.recv(100).startswith(b"HTTP/1.1 200")
        assert descriptors(daemon) <= before + 2 * MOST_TLS_CONNECTIONS
        wait_for(lambda: descriptors(daemon) <= before, "all to be cut", LONGEST_SECONDS + 20)
    assert rss_kb(daemon) < memory + MOST_GROWTH_KB
