"""A log that rotates in every way, and a copy of all its bytes that never does."""

import gzip
import os
import random
import shutil
import time
from collections import Counter, deque
from pathlib import Path
from typing import NamedTuple

KEPT = 5
"""Generations that stay when all of them were read, as logrotate's `rotate 5`."""

LEAST_SECONDS_APART = 0.02  # two rotations within one tick of the file system's clock have no order that anybody could tell


class Generation(NamedTuple):
    """A rotated file; the bytes of the source up to `end` are in it or in older ones."""

    path: Path
    end: int


class RotatingLog:
    """Appends to the log at `path`. Nothing is deleted that the reader is not known to have read (`seen`, in bytes)."""

    kinds: tuple[str, ...] = ("numbered", "dated", "copytruncate", "truncate_read", "delete_read")
    needs_catching_up = ("truncate_read", "delete_read")

    def __init__(self, folder: Path, name: str, dice: random.Random) -> None:
        folder.mkdir(parents=True)
        self.path = folder / f"{name}.log"
        self.dice = dice
        self.written = self.seen = self.lines = 0
        self.rotations: Counter[str] = Counter()
        self.generations: deque[Generation] = deque()
        """Newest first."""
        truth = folder.parent / "truth"
        truth.mkdir(exist_ok=True)
        self.truth = (truth / f"{name}.log").open("wb")
        self._pending = b""
        self._late: int | None = None
        self._begin()

    @property
    def caught_up(self) -> bool:
        return self.seen == self.written and not self._pending

    def write(self, lines: list[bytes]) -> None:
        """Append lines, the end of the last one perhaps only with the next call."""
        data = self._pending + b"".join(lines)
        self.truth.write(b"".join(lines))
        self.lines += len(lines)
        self._pending = b""
        if self.dice.random() < 0.3:
            cut = self.dice.randrange(max(0, len(data) - 200), len(data)) if data else 0
            data, self._pending = data[:cut], data[cut:]
        if data and self.dice.random() < 0.2:
            cut = self.dice.randrange(len(data))
            self._put(data[:cut])
            data = data[cut:]
        self._put(data)

    def complete(self) -> None:
        """Write the rest of a half line, and go on in the new file when a rename was not noticed yet."""
        rest, self._pending = self._pending, b""
        self._put(rest)
        self.reopen()

    def reopen(self) -> None:
        """Notice a rename: what was written since went to the renamed file."""
        if self._late is None:
            return
        old, self._late = self._late, None
        rest, self._pending = self._pending, b""
        os.write(old, rest)
        os.close(old)
        self.written += len(rest)
        self.generations[0] = self.generations[0]._replace(end=self.written)

    def rotate(self, kind: str, lines: list[bytes]) -> None:
        """Rotate now, between two lines, and write these at once."""
        self.complete()
        data = b"".join(lines)
        getattr(self, kind)()
        self._put(data)
        self.truth.write(data)
        self.lines += len(lines)
        self.rotations[kind] += 1
        self._drop_read()

    def close(self) -> None:
        self.complete()
        os.close(self.fd)
        self.truth.close()

    # -- the kinds -----------------------------------------------------------------------------------------------------

    def numbered(self) -> None:
        """log.1 becomes log.2 and the log log.1; one time in three the writer does not notice at once."""
        self._renamed(self._first_number())

    def dated(self) -> None:
        self._renamed(self._dated())

    def copytruncate(self) -> None:
        """The copy stays, so that nothing is lost that was not read yet."""
        copy = self._first_number() if self.dice.random() < 0.5 else self._dated()
        shutil.copyfile(self.path, copy)
        os.truncate(self.path, 0)
        self._generation(copy)

    def truncate_read(self) -> None:
        os.truncate(self.path, 0)

    def delete_read(self) -> None:
        self.path.unlink()
        os.close(self.fd)
        self._begin()

    def zip_one(self, *, unread: bool) -> bool:
        """Compress a rotated file, as logrotate and kubelet do: a read one, or any while there is no reader."""
        plain = [at for at, each in enumerate(self.generations) if each.path.suffix != ".gz" and (unread or self._is_read(at))]
        if not plain or self._late is not None:
            return False
        at = self.dice.choice(plain)
        old = self.generations[at]
        new = old.path.with_name(old.path.name + ".gz")
        status = old.path.stat()
        with old.path.open("rb") as source, gzip.open(new, "wb", compresslevel=1) as target:
            shutil.copyfileobj(source, target)
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
        old.path.unlink()
        self.generations[at] = Generation(new, old.end)
        self.rotations["gzip_unread" if not self._is_read(at) else "gzip_read"] += 1
        return True

    # -- files ---------------------------------------------------------------------------------------------------------

    def _put(self, data: bytes) -> None:
        if data:
            os.write(self.fd if self._late is None else self._late, data)
            self.written += len(data)

    def _begin(self) -> None:
        self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _renamed(self, name: Path) -> None:
        self.path.rename(name)
        self._generation(name)
        if self.dice.random() < 0.33:
            self._late = self.fd
        else:
            os.close(self.fd)
        self._begin()

    def _generation(self, path: Path) -> None:
        self.generations.appendleft(Generation(path, self.written))

    def _first_number(self) -> Path:
        """Make room at log.1."""
        for at in range(len(self.generations) - 1, -1, -1):
            path, end = self.generations[at]
            number, suffix = self._number(path)
            if number is not None:
                moved = self.path.with_name(f"{self.path.name}.{number + 1}{suffix}")
                path.rename(moved)
                self.generations[at] = Generation(moved, end)
        return self.path.with_name(f"{self.path.name}.1")

    def _number(self, path: Path) -> tuple[int | None, str]:
        number, dot, suffix = path.name.removeprefix(f"{self.path.name}.").partition(".")
        return (int(number) if number.isdecimal() else None), dot + suffix

    def _dated(self) -> Path:
        nanoseconds = time.time_ns()
        date = time.strftime("%Y%m%d-%H%M%S", time.gmtime(nanoseconds // 10**9))
        return self.path.with_name(f"{self.path.name}-{date}-{nanoseconds % 10**9:09d}")

    def _is_read(self, at: int) -> bool:
        """Whether all of a generation and of the next one was read: a late writer may have added to it since."""
        return at > 0 and self.seen >= self.generations[at - 1].end

    def _drop_read(self) -> None:
        while len(self.generations) > KEPT and self._is_read(len(self.generations) - 1):
            self.generations.pop().path.unlink()


class Kubelet(RotatingLog):
    """/var/log/containers/X.log is a link to the pod's 0.log, which the kubelet renames to 0.log.DATE and zips later."""

    kinds = ("kubelet",)

    def __init__(self, folder: Path, name: str, dice: random.Random) -> None:
        super().__init__(folder, name, dice)
        pod = folder / "pods"
        pod.mkdir()
        self.link, self.path = self.path, pod / "0.log"
        self.link.rename(self.path)
        self.link.symlink_to("pods/0.log")

    def kubelet(self) -> None:
        nanoseconds = time.time_ns()
        date = time.strftime("%Y%m%d-%H%M%S", time.gmtime(nanoseconds // 10**9))
        self._renamed(self.path.with_name(f"{self.path.name}.{date}-{nanoseconds % 10**9:09d}"))


class Swapped(RotatingLog):
    """The log is a symbolic link that is turned to a new file each time."""

    kinds = ("symlink",)

    def __init__(self, folder: Path, name: str, dice: random.Random) -> None:
        super().__init__(folder, name, dice)
        self.link, self._turn = self.path, 0
        self.path = self._target()
        self.link.rename(self.path)
        self.link.symlink_to(self.path.name)

    def symlink(self) -> None:
        self._generation(self.path)
        self._turn += 1
        self.path = self._target()
        os.close(self.fd)
        self._begin()
        new = self.link.with_name("next")
        new.symlink_to(self.path.name)
        new.rename(self.link)

    def _target(self) -> Path:
        return self.link.with_name(f"{self.link.name}.real.{self._turn}")


ROTATING = {"engine": RotatingLog, "zoo": RotatingLog, "cri": Kubelet, "records": Swapped}
