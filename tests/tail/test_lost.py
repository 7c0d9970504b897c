"""Only what is nowhere any more is stated as lost: the size of new content in a truncated file is not that of the old."""

import json

import pytest

from exporter.tail import Follower

from .fake_files import FakeFiles

PATH = "/var/log/engine.log"
OLD = b"".join(b"%04d some words of the first log\n" % number for number in range(20))
NEW = b"".join(b"%04d other words of the next log\n" % number for number in range(22))


def drained(follower: Follower) -> bytes:
    """All that there is to read."""
    return b"".join(iter(lambda: follower.read().data, b""))


def restored(follower: Follower, files: FakeFiles) -> Follower:
    """What goes on after a kill."""
    state = json.loads(json.dumps(follower.state(0)))
    follower.close()
    return Follower(PATH, state=state, files=files)  # type: ignore[arg-type]


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("calls", range(8))
def test_truncated_and_longer_than_before_within_a_read(calls: int, killed: bool, copied: bool) -> None:
    """All of the old content was read, in the file or in a copy, when the look at the size sees the new one."""
    files = FakeFiles()
    writer = files.create(PATH)
    follower = Follower(PATH, files=files)  # type: ignore[arg-type]
    files.append(writer, OLD)
    read = drained(follower)

    def rotate() -> None:
        if copied:
            files.copy(PATH, f"{PATH}.1")
        files.truncate(PATH)
        files.append(writer, NEW)

    files.before_call(calls, rotate)
    read += follower.read().data
    files.change_now()
    if killed:
        follower = restored(follower, files)
    read += drained(follower)
    assert OLD + NEW == read
    assert (len(read), 0, 1) == (follower.stats.read_bytes, follower.stats.lost_bytes, follower.stats.truncations)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("length", [3, 700, 900])
def test_unread_bytes_are_lost_whatever_size_the_new_content_has(length: int, killed: bool) -> None:
    """What was seen and not read is stated when there is no copy, also when the new size was seen before the new content."""
    files = FakeFiles()
    writer = files.create(PATH)
    follower = Follower(PATH, chunk_bytes=300, files=files)  # type: ignore[arg-type]
    follower.read()
    files.append(writer, OLD)
    assert OLD[:300] == follower.read().data

    def rotate() -> None:
        files.truncate(PATH)
        files.append(writer, (NEW * 2)[:length])

    files.before_call(3, rotate)  # after the stat, fstat and pread of a read comes the look at the size
    assert OLD[300:600] == follower.read().data
    files.change_now()
    if killed:
        follower = restored(follower, files)
    assert (NEW * 2)[:length] == drained(follower)
    assert len(OLD) - 600 == follower.stats.lost_bytes


@pytest.mark.parametrize("more", [0, 44])
def test_unread_file_was_truncated_behind_its_copy(more: int) -> None:
    """Nothing of the log was read when it was truncated again; what it holds since then is known by its own beginning."""
    files = FakeFiles()
    writer = files.create(PATH)
    follower = Follower(PATH, chunk_bytes=300, files=files)  # type: ignore[arg-type]
    follower.read()
    text = read = b""
    for number in range(3):
        data = b"".join(b"%04d words of log %d\n" % (line, number) for line in range(20 + number)) + b"x" * more * number + b"\n"
        files.append(writer, data)
        text += data
        if number < 2:
            read += follower.read().data
            for at in range(number, 0, -1):
                files.rename(f"{PATH}.{at}", f"{PATH}.{at + 1}")
            files.copy(PATH, f"{PATH}.1")
            files.truncate(PATH)
    while True:
        chunk = follower.read()
        read += chunk.data
        if not chunk.data:
            break
        follower = restored(follower, files)
    assert text == read
    assert (len(text), 0) == (follower.stats.read_bytes, follower.stats.lost_bytes)
