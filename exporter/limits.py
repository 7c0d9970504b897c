"""How much of us anybody who can reach the port may take: connections, their time, the bytes of a request."""

import fcntl
import gc
import socket
import termios
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

MOST_CONNECTIONS = 128
"""Those of a few scrapers and of a person's browser, many times over."""

MOST_TLS_CONNECTIONS = 32
"""Each takes a third of a MiB."""

LONGEST_SECONDS = 10.0
"""How long a connection may take to ask, from its begin or its last answer, and to read what it is answered: a scrape's usual patience."""

IDLE_SECONDS = 65.0
"""How long one that has read its answer may stay: until the next scrape, which then needs no other TLS handshake."""

MOST_HEADER_BYTES = 16 * 1024
MOST_BODY_BYTES = 64 * 1024
"""No request needs a body."""

BACKLOG = 1024
"""Connections that the kernel keeps for us."""

ACCEPTED_IN_ONE_GO = 4
"""So few that what they say is looked at before as many come that they are cut."""

_LONGEST_PAUSE = 2.0
"""We look each second. A machine that lets nobody run for longer is no fault of those who are connected."""

_COLLECTED_AFTER = 32
"""A TLS handshake that fails leaves a cycle of a third of a MiB (Python 3.11.7), and our collector is set to be seldom."""

Peer = tuple[str, int]


class _Connection(socket.socket):
    """An accepted connection, which tells when it is closed."""

    def __init__(self, accepted: socket.socket, since: float, on_close: Callable[["_Connection"], None]) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self.peer: Peer = self.getpeername()[:2]
        self.since = since
        self.being_answered = self.was_answered = False
        self.waits = False
        """For us: what it asked for is not there yet."""
        self._on_close = on_close

    @property
    def rests(self) -> bool:
        """Whether it was answered, and has read all of that."""
        if not self.was_answered or self.being_answered:
            return False
        return not any(fcntl.ioctl(self.fileno(), termios.TIOCOUTQ, bytes(4)))  # of a socket: what its peer has not acknowledged

    def close(self) -> None:
        self._on_close(self)
        super().close()


class Listener(socket.socket):
    """A listening socket of which so many connections are open at the most, and none stands still for long.

    One too many is not refused: of the address that has most of them, that which waits for longest to be let in makes room.
    So who opens thousands displaces only his own, and a scrape gets through, from the same address too, as it is over in
    milliseconds. They are counted here, below TLS, for a handshake may be as slow as a request. What is cut is shut down:
    who reads or writes it sees that.
    """

    def __init__(
        self,
        listening: socket.socket,
        most: int,
        longest: float = LONGEST_SECONDS,
        idle: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(listening.family, listening.type, listening.proto, fileno=listening.detach())
        self._most, self._longest, self._idle = most, longest, idle
        self._clock, self._ran, self._looked = clock, 0.0, clock()
        self._open: dict[Peer, _Connection] = {}
        self._accepted = 0

    def listen(self, backlog: int = BACKLOG, /) -> None:
        # asyncio takes one number for this and for how many it accepts in one go.
        super().listen(BACKLOG)

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            accepted, address = super().accept()
            try:
                connection = _Connection(accepted, self._now(), self._forget)
            except OSError:  # gone again
                accepted.close()
                continue
            self._open[connection.peer] = connection
            if len(self._open) > self._most:
                self._make_room()
            self._accepted += 1
            if self._accepted % _COLLECTED_AFTER == 0:
                gc.collect()
            return connection, address

    def _make_room(self) -> None:
        held = Counter(each.peer[0] for each in self._open.values())
        waiting = (each for each in self._open.values() if not each.being_answered)
        self._cut(min(waiting, key=lambda each: (-held[each.peer[0]], each.since)))

    def answering(self, peer: Peer | None) -> None:
        """A request is complete and allowed: this one is not cut for another, nor while it waits for us."""
        if peer and (connection := self._open.get(peer)):
            connection.being_answered = connection.waits = True

    def begins_to_answer(self, peer: Peer | None) -> None:
        """Its answer is there, and it is to read that: the time begins anew."""
        if peer and (connection := self._open.get(peer)):
            connection.waits, connection.since = False, self._now()

    def answered(self, peer: Peer | None) -> None:
        """Its answer is on its way: the time begins anew."""
        if peer and (connection := self._open.get(peer)):
            connection.being_answered = connection.waits = False
            connection.was_answered, connection.since = True, self._now()

    def cut_the_slow(self) -> None:
        """Cut those that take too long; to be called each second."""
        now = self._now()
        for connection in [each for each in self._open.values() if now - each.since > self._longest and not each.waits]:
            if now - connection.since > self._idle or not connection.rests:
                self._cut(connection)

    def _now(self) -> float:
        """The seconds in which we ran."""
        now = self._clock()
        self._ran += min(now - self._looked, _LONGEST_PAUSE)
        self._looked = now
        return self._ran

    def _cut(self, connection: _Connection) -> None:
        self._forget(connection)
        with suppress(OSError):  # closed by its peer
            connection.shutdown(socket.SHUT_RDWR)

    def _forget(self, connection: _Connection) -> None:
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
