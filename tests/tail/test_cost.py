"""What a look at a file costs that has not changed: a daemon takes one at each of a hundred whenever one of them grows."""

import os
from pathlib import Path

from exporter.tail import Follower
from exporter.tail._files import Files

CHUNK = 256 * 1024


class CountedFiles(Files):
    """The real file system, and what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.realpaths = 0
        self.room: list[int] = []

    def realpath(self, path: str) -> str:
        self.realpaths += 1
        return super().realpath(path)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        self.room.append(length)
        return os.pread(fd, length, offset)


def test_a_quiet_file_is_not_looked_for_and_gets_little_room(tmp_path: Path) -> None:
    """Where its path leads is asked again when another file is there; what came meanwhile is read in whole chunks."""
    log, files = tmp_path / "engine.log", CountedFiles()
    log.write_bytes(b"line\n")
    follower = Follower(log, chunk_bytes=CHUNK, files=files)
    assert follower.read().data == b"line\n"
    asked = files.realpaths
    files.room.clear()
    assert [follower.read().data for _ in range(100)] == [b""] * 100
    assert (files.realpaths, max(files.room) < CHUNK // 4) == (asked, True)
    with log.open("ab") as file:
        file.write(b"x" * 2 * CHUNK)
    assert [len(follower.read().data) for _ in range(3)] == [CHUNK, CHUNK, 0]
    log.rename(tmp_path / "engine.log.1")
    log.write_bytes(b"another\n")
    assert follower.read().data == b"another\n"
    assert files.realpaths > asked
    follower.close()
