"""Follow a stream that another process writes to us: a pipe, a terminal, a socket or a redirected file."""

from __future__ import annotations

import errno
import os
import select
import stat
import time

from exporter.tail.chunk import Chunk, FollowerStats


class StdinFollower:
    """Reads a descriptor, which stays open and as blocking as it was: others may share its flags."""

    def __init__(self, fd: int = 0, *, chunk_bytes: int = 256 * 1024) -> None:
        """Read from `fd`, standard input by default."""
        self.stats = FollowerStats(up=True)
        self.eof = False
        """No more will come: the writer closed it, or a redirected file is at its end, or it cannot be read."""
        self._fd = fd
        self._chunk_bytes = chunk_bytes
        # select.poll and not select.select, which fails on descriptors above 1023. A regular file is always ready.
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def read(self) -> Chunk:
        """The next bytes, at most `chunk_bytes`; none when there are none, or at the end; never blocks or raises."""
        if self.eof:
            return Chunk(b"", begins_file=False)
        try:
            # One reader, so what poll has seen is still there; without data, POLLHUP and POLLERR mean that read() is at
            # the end or fails, at once.
            data = os.read(self._fd, self._chunk_bytes) if self._poll.poll(0) else None
        except BlockingIOError:
            data = None
        except OSError as exc:
            # A terminal that hung up (EIO), or a descriptor that is closed (EBADF): neither comes back.
            self.stats.error = errno.errorcode.get(exc.errno or 0, str(exc))
            data = b""
        if data is None:
            return Chunk(b"", begins_file=False)
        if not data:
            self._end()
        self.stats.read_bytes += len(data)
        self._measure()
        return Chunk(data, begins_file=False, written=time.time() if data else 0.0)

    def fileno(self) -> int:
        """The descriptor, so that select() and poll() can wait on it."""
        return self._fd

    def close(self) -> None:
        """Read no more; the descriptor itself is the caller's."""
        self._end()

    def _end(self) -> None:
        self.eof = True
        self.stats.up = False

    def _measure(self) -> None:
        """Only a redirected file tells how much is left."""
        try:
            status = os.fstat(self._fd)
            if stat.S_ISREG(status.st_mode):
                self.stats.lag_bytes = max(0, status.st_size - os.lseek(self._fd, 0, os.SEEK_CUR))
        except OSError:
            self.stats.lag_bytes = 0
