"""A follower that was killed goes on from its last state, whatever happened to the files meanwhile."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.tail import Follower

from .conftest import Life, Log, open_descriptors


def nothing(life: Life) -> None:
    """Not a byte came."""


def more(life: Life) -> None:
    """More lines came."""
    life.lines(5)


def renamed(life: Life) -> None:
    """Renamed, and a new file created."""
    life.lines(2)
    life.rotate()
    life.lines(2)


def renamed_and_not_created(life: Life) -> None:
    """Renamed; the new file is still to come."""
    life.lines(2)
    life.rename()
    life.lines(1)


def renamed_thrice(life: Life) -> None:
    """Numbers shifted down three times."""
    for _ in range(3):
        life.lines(2)
        life.rotate()
    life.lines(2)


def counted_up(life: Life) -> None:
    """Each generation takes the next number."""
    for number in range(9, 12):
        life.lines(2)
        life.tick()  # within one tick, only the numbers tell, and they may count down as well
        os.rename(life.path, f"{life.path}.{number}")
        life.reopen()
    life.lines(2)


def dated(life: Life) -> None:
    """Each generation takes a date."""
    for day in range(10, 13):
        life.lines(2)
        os.rename(life.path, f"{life.path}-202607{day}")
        life.reopen()
    life.lines(2)


def copied_and_truncated(life: Life) -> None:
    """copytruncate, with what was not read only in the copy."""
    life.lines(2)
    life.copy()
    life.truncate()
    life.lines(2)


def copied_and_truncated_twice(life: Life) -> None:
    """copytruncate, the second copy of what was never read."""
    copied_and_truncated(life)
    copied_and_truncated(life)


def copied_truncated_and_renamed(life: Life) -> None:
    """copytruncate, and a rotation of the other kind."""
    copied_and_truncated(life)
    life.rotate()
    life.lines(2)


def copied_and_not_yet_truncated(life: Life) -> None:
    """Killed between copy and truncate."""
    life.lines(2)
    life.copy()


def copied_truncated_and_grown(life: Life) -> None:
    """The file is longer than it was."""
    copied_and_truncated(life)
    life.lines(100)


def packed(life: Life) -> None:
    """The rotated file is compressed."""
    renamed(life)
    life.pack(".1")


def packed_with_a_date(life: Life) -> None:
    """The rotated file is compressed under a date."""
    life.lines(2)
    os.rename(life.path, f"{life.path}-20260731")
    life.reopen()
    life.lines(2)
    life.pack("-20260731")


def packed_generations(life: Life) -> None:
    """Several generations were written, rotated and compressed; the last one is not yet."""
    for _ in range(3):
        life.lines(3)
        life.rotate()
    life.pack(".3")
    life.pack(".2")
    life.lines(2)


def packed_and_inode_used_again(life: Life) -> None:
    """Compressed, and the inode of the original is that of the next log."""
    life.lines(2)
    life.close()
    inode = life.path.stat().st_ino
    os.rename(life.path, f"{life.path}.1")
    life.pack(".1")
    life.reopen()
    if life.path.stat().st_ino != inode:
        pytest.skip("this file system does not use inodes again at once")
    life.lines(30)


LOSSLESS = [
    nothing,
    more,
    renamed,
    renamed_and_not_created,
    renamed_thrice,
    counted_up,
    dated,
    copied_and_truncated,
    copied_and_truncated_twice,
    copied_truncated_and_renamed,
    copied_and_not_yet_truncated,
    copied_truncated_and_grown,
    packed,
    packed_with_a_date,
    packed_generations,
    packed_and_inode_used_again,
]


@pytest.mark.parametrize("before", ["all", "a part", "half a line", "an empty file"])
@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("down", LOSSLESS, ids=lambda each: each.__name__)
def test_each_line_is_read_once(life: Life, down: Callable[[Life], None], count: int, before: str) -> None:
    """As if the process had never died: of all, a part or nothing of the log was read when the state was saved."""
    life.write(b"")
    if before == "a part":
        life.follower = Follower(life.path, chunk_bytes=50)
        life.lines(count)
        life.drain(1)
    elif before == "an empty file":
        life.drain()
    else:
        life.lines(count)
        life.write(b"half a " if before == "half a line" else b"")
        life.drain()
    life.save()
    if before == "half a line":
        life.write(b"line\n")
    elif before == "an empty file":
        life.lines(count)
    life.drain()
    life.kill()
    down(life)
    descriptors = open_descriptors()
    life.restart()
    life.drain()
    assert life.text == life.read
    assert (len(life.text), 0) == (life.figures[0], life.figures[3])
    life.reopen()
    life.rotate()
    life.lines(1)
    life.drain()
    life.drain()
    assert life.text == life.read
    assert descriptors + 1 == open_descriptors()


def emptied_and_written(life: Life) -> None:
    """Truncated with no copy made, and written less than before."""
    life.truncate()
    life.lines(1, "new ")


def emptied_and_grown(life: Life) -> None:
    """Truncated with no copy made, and written further than before."""
    life.truncate()
    life.lines(100, "new ")


def deleted_and_made_anew(life: Life) -> None:
    """Deleted, and another file in its place, perhaps with its inode."""
    life.close()
    life.path.unlink()
    life.lines(4, "new ")


def replaced(life: Life) -> None:
    """Another file moved in its place."""
    other = Path(f"{life.path}.tmp")
    other.write_bytes(b"")
    os.replace(other, life.path)
    life.reopen()
    life.lines(4, "new ")


@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("down", [emptied_and_written, emptied_and_grown, deleted_and_made_anew, replaced], ids=lambda each: each.__name__)
def test_loss_is_stated(life: Life, down: Callable[[Life], None], count: int) -> None:
    """What was seen in a file and is nowhere any more is counted, and the new content is read from its beginning."""
    life.follower = Follower(life.path, chunk_bytes=60)
    life.lines(count)
    life.drain(1)
    life.save()
    unread = len(life.text) - life.read_when_saved
    life.kill()
    life.text = b""
    down(life)
    life.restart()
    life.read = b""
    life.drain()
    assert life.text == life.read
    assert [0] == life.begins
    read, rotations, truncations, lost = life.figures
    # The half line that was read before is given to nobody, but a counter must not fall.
    assert (60 + len(life.text), unread) == (read, lost)
    assert 1 == rotations + truncations


def test_log_that_is_gone_is_waited_for(life: Life) -> None:
    """A directory may not be mounted yet; when another file comes instead, the old one is lost."""
    life.follower = Follower(life.path, chunk_bytes=60)
    life.lines(40)
    life.drain(1)
    life.save()
    life.kill()
    away = life.path.parent.with_name("away")
    life.path.parent.rename(away)
    life.restart()
    life.drain()
    assert (False, "ENOENT", 0) == (life.follower.stats.up, life.follower.stats.error, life.follower.stats.lost_bytes)
    assert life.saved == life.follower.state(0)
    away.rename(life.path.parent)
    life.drain()
    assert life.text == life.read
    assert 0 == life.follower.stats.lost_bytes


@pytest.mark.parametrize(("count", "known"), [(40, True), (3, False)])
def test_log_on_another_host_is_known_by_its_content(life: Life, count: int, known: bool) -> None:
    """With 256 bytes read, device and inode do not matter; a few bytes may be those that each log begins with."""
    life.lines(count)
    life.drain()
    life.save()
    life.kill()
    life.close()
    away = life.path.with_name("copy")
    shutil.copy2(life.path, away)
    os.replace(away, life.path)
    life.lines(2)
    life.restart()
    seen = len(life.read)
    life.drain()
    assert life.text == (life.read if known else life.read[seen:])
    assert ([] if known else [seen]) == life.begins


def test_symlink_swap_while_down(life: Life) -> None:
    """The old target is read to its end, then the one between, then the new one."""
    link = life.path.with_name("link.log")
    link.symlink_to("engine.log.7")
    life.path = Path(f"{life.path}.7")
    life.follower = Follower(link)
    life.lines(30)
    life.drain()
    life.save()
    life.kill()
    for number in (8, 9):
        life.lines(2)
        life.path = life.path.with_suffix(f".{number}")
        life.reopen()
    life.lines(2)
    link.unlink()
    link.symlink_to(life.path.name)
    life.path = link
    life.restart()
    life.drain()
    assert life.text == life.read


def test_open_generations_and_the_late_file_are_restored(life: Life) -> None:
    """Killed in the middle of the oldest of several open files, or just after the old one was left."""
    life.follower = Follower(life.path, chunk_bytes=150)
    life.lines(20)
    life.drain(1)
    for _ in range(3):
        life.rotate()
        life.lines(20)
    for _ in range(1000):
        life.save()
        life.kill()
        life.restart(150)
        chunk = life.follower.read()
        life.read += chunk.data
        if len(life.read) == len(life.text):
            break
    assert life.text == life.read


def test_late_line_written_while_down(life: Life) -> None:
    """The file that was left last may get one more line."""
    life.lines(20)
    life.drain()
    os.rename(life.path, f"{life.path}.1")
    new = Log(life.path)
    new.write(b"new\n")
    life.drain(1)
    life.save()
    life.kill()
    life.write(b"late\n")
    life.restart()
    life.drain()
    assert life.read.endswith(b"new\nlate\n")
    life.drain()
    new.close()


def test_history_stays_history(life: Life) -> None:
    """Rotated files from before the first start are not read after a restart either, compressed or not."""
    for number in range(1, 40):
        Path(f"{life.path}.{number}").write_bytes(b"history %d\n" % number)
    life.lines(3)
    life.drain()
    life.save()
    life.kill()
    life.pack(".3")
    life.rotate()
    life.lines(1)
    life.restart()
    life.drain()
    assert life.text == life.read


def test_no_chunk_of_the_same_file_begins_a_file(life: Life) -> None:
    """A restart does not end a line; a rotation while down does."""
    life.write(b"one\nhalf ")
    life.drain()
    life.save()
    life.kill()
    life.restart()
    life.drain()
    assert [] == life.begins
    life.write(b"a line\n")
    life.drain()
    assert [] == life.begins
    life.save()
    life.kill()
    life.rotate()
    life.lines(1)
    life.restart()
    life.drain()
    assert [len(b"one\nhalf a line\n")] == life.begins
