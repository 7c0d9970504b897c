"""A file system in memory, which uses inode numbers again at once and fails when it is told to."""

import errno
import gzip
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from exporter.tail._files import Files

DEVICE = 7


class Inode:
    """A file without a name."""

    def __init__(self, number: int, mtime_ns: int) -> None:
        self.number = number
        self.data = bytearray()
        self.mtime_ns = mtime_ns
        self.links = 1
        self.opened = 0


class FakeFiles(Files):
    """Regular files and symbolic links in one directory; each change has a time of its own."""

    def __init__(self) -> None:
        self.names: dict[str, Inode | str] = {}
        self.error: int | None = None
        """What each call fails with for now."""
        self._calls_before_error = 0
        self._calls_before_change = 0
        self._change: Callable[[], None] | None = None
        self.bad: Inode | None = None
        """A file that can be opened and not read."""
        self._inodes: dict[int, Inode] = {}
        self._descriptors: dict[int, Inode] = {}
        self._now = 10**18

    # What the follower calls.

    def realpath(self, path: str) -> str:
        target = self.names.get(path)
        return os.path.join(os.path.dirname(path), target) if isinstance(target, str) else path

    def stat(self, path: str) -> os.stat_result:  # type: ignore[override]
        self._fail()
        return self._status(self._inode(path))

    def fstat(self, fd: int) -> os.stat_result:  # type: ignore[override]
        self._fail()
        return self._status(self._descriptors[fd])

    def open(self, path: str) -> int:
        self._fail()
        inode = self._inode(path)
        fd = next(number for number in range(3, 1000) if number not in self._descriptors)
        self._descriptors[fd] = inode
        inode.opened += 1
        return fd

    def pread(self, fd: int, length: int, offset: int) -> bytes:  # type: ignore[override]
        self._fail()
        if fd in self._descriptors and self._descriptors[fd] is self.bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if fd not in self._descriptors:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return bytes(self._descriptors[fd].data[offset : offset + length])

    def close(self, fd: int) -> None:  # type: ignore[override]
        inode = self._descriptors.pop(fd)
        inode.opened -= 1
        self._free(inode)

    def regular(self, directory: str, prefixes: Collection[str], wanted: Callable[[str], bool]) -> dict[str, os.stat_result]:
        self._fail()
        return {
            path: self._status(inode)
            for path, inode in self.names.items()
            if isinstance(inode, Inode)
            and os.path.dirname(path) == directory
            and os.path.basename(path).startswith(tuple(prefixes))
            and wanted(os.path.basename(path))
        }

    # What the writer and the rotation do.

    @contextmanager
    def failing(self, error: int, after: int = 0) -> Iterator[None]:
        """Let each call fail, but for the first ones."""
        self.error, self._calls_before_error = error, after
        yield
        self.error = None

    def before_call(self, number: int, change: Callable[[], None]) -> None:
        """Let something happen to the files just before a call of the follower, 0 for the next one."""
        self._calls_before_change, self._change = number, change

    def change_now(self) -> None:
        """What was to happen before a call that did not come."""
        change, self._change = self._change, None
        if change:
            change()

    @property
    def open_descriptors(self) -> int:
        """How many descriptors the follower has."""
        return len(self._descriptors)

    def exists(self, path: str) -> bool:
        """Whether there is a file or a link."""
        return path in self.names

    def create(self, path: str) -> Inode:
        """Open for appending, as a writer does; the inode stands for its descriptor."""
        path = self.realpath(path)
        found = self.names.get(path)
        if not isinstance(found, Inode):
            number = next(number for number in range(1, 10000) if number not in self._inodes)
            found = self.names[path] = self._inodes[number] = Inode(number, self._tick())
        return found

    def append(self, inode: Inode, data: bytes) -> None:
        """Write at the end."""
        inode.data += data
        inode.mtime_ns = self._tick()

    def truncate(self, path: str) -> None:
        """Cut to nothing."""
        inode = self._inode(path)
        inode.data.clear()
        inode.mtime_ns = self._tick()

    def rename(self, old: str, new: str) -> None:
        """Move, over what is there."""
        moved = self.names.pop(old)
        if new in self.names:
            self.unlink(new)
        self.names[new] = moved

    def unlink(self, path: str) -> None:
        """Take the name away."""
        inode = self.names.pop(path)
        if isinstance(inode, Inode):
            inode.links -= 1
            self._free(inode)

    def link(self, path: str, target: str) -> None:
        """A symbolic link, in place of the one before."""
        self.names[path] = target

    def copy(self, old: str, new: str) -> None:
        """As cp does."""
        data = bytes(self._inode(old).data)
        self.append(self.create(new), data)

    def pack(self, path: str) -> None:
        """As gzip does: another inode with the same time."""
        inode = self._inode(path)
        packed = self.create(f"{path}.gz")
        self.append(packed, gzip.compress(bytes(inode.data), mtime=0))
        packed.mtime_ns = inode.mtime_ns
        self.unlink(path)

    def set_clock(self, seconds: int) -> None:
        """As an administrator or NTP does, in either direction."""
        self._now += seconds * 10**9

    def _tick(self) -> int:
        self._now += 1000
        return self._now

    def _fail(self) -> None:
        self._calls_before_change -= 1
        if self._calls_before_change < 0:
            self.change_now()
        self._calls_before_error -= 1
        if self.error and self._calls_before_error < 0:
            raise OSError(self.error, os.strerror(self.error))

    def _inode(self, path: str) -> Inode:
        found = self.names.get(self.realpath(path))
        if not isinstance(found, Inode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def _free(self, inode: Inode) -> None:
        if not inode.links and not inode.opened:
            self._inodes.pop(inode.number, None)

    def _status(self, inode: Inode) -> os.stat_result:
        fields = (stat.S_IFREG | 0o644, inode.number, DEVICE, inode.links, 0, 0, len(inode.data), 0, 0, 0)
        return os.stat_result(fields, {"st_mtime_ns": inode.mtime_ns})
