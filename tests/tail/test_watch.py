"""Waking, with real events; each wait has a deadline."""

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watchdog.observers.api import BaseObserver

from exporter.tail import EventWatcher, Follower, PollingWatcher, Watcher, auto

DEADLINE_SECONDS = 10.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log that is there."""
    path = tmp_path / "logs" / "engine.log"
    path.parent.mkdir()
    path.touch()
    return path


@pytest.fixture
def watch() -> Iterator[Callable[..., EventWatcher]]:
    """Start a watcher by events, and stop it after the test."""
    started: list[EventWatcher] = []

    def watch(*paths: Path) -> EventWatcher:
        watcher = EventWatcher(paths)
        started.append(watcher)
        watcher.start()
        return watcher

    yield watch
    for watcher in started:
        watcher.stop()


def woken(watcher: Watcher) -> bool:
    """Whether the watcher wakes before the deadline; then take what else comes of the same change."""
    result = watcher.wait(DEADLINE_SECONDS)
    settle(watcher)
    return result


def settle(watcher: Watcher) -> None:
    """Take what is still coming."""
    while watcher.wait(0.05):
        pass


def append(path: Path, data: bytes = b"x\n") -> None:
    """Write as an engine does."""
    with path.open("ab") as file:
        file.write(data)


def test_write_wakes(path: Path, watch: Callable[..., EventWatcher]) -> None:
    """A write to the log wakes, and there is quiet after it."""
    watcher = watch(path)
    settle(watcher)
    append(path)
    assert woken(watcher)
    assert not watcher.wait(0.05)


def test_rotation_wakes_in_time(path: Path, watch: Callable[..., EventWatcher]) -> None:
    """A rename and a create wake, and so does a chmod of the new file."""
    watcher = watch(path)
    path.rename(f"{path}.1")
    assert woken(watcher)
    path.touch()
    assert woken(watcher)
    path.chmod(0o600)
    assert woken(watcher)
    append(path)
    assert woken(watcher)
    append(Path(f"{path}.1"))
    assert woken(watcher)


def test_reading_does_not_wake(path: Path, watch: Callable[..., EventWatcher]) -> None:
    """What we do ourselves, opening and reading, is no change: else each read would cause the next."""
    append(path)
    watcher = watch(path)
    settle(watcher)
    follower = Follower(path)
    assert follower.read().data
    follower.close()
    assert not watcher.wait(0.1)


def test_other_files_in_the_directory_do_not_wake(path: Path, watch: Callable[..., EventWatcher]) -> None:
    """A shared directory may be busy with what is not ours."""
    watcher = watch(path)
    settle(watcher)
    for name in ("other.log", "engine.log.1.gz", "engine.logx"):
        append(path.with_name(name))
    assert not watcher.wait(0.1)
    append(path)
    assert woken(watcher)


def test_many_events_are_one_wake(path: Path, watch: Callable[..., EventWatcher]) -> None:
    """Wakes do not queue up."""
    watcher = watch(path)
    settle(watcher)
    for _ in range(10):
        watcher.wake()
    assert watcher.wait(0)
    assert not watcher.wait(0)


def test_directory_that_appears_later_is_watched(tmp_path: Path, watch: Callable[..., EventWatcher]) -> None:
    """A directory that comes later wakes, since the log may be in it already, and is watched from then on."""
    path = tmp_path / "later" / "engine.log"
    watcher = watch(path)
    assert not watcher.wait(0)
    path.parent.mkdir()
    assert woken(watcher)
    append(path)
    assert woken(watcher)


def test_directory_that_was_made_anew_is_watched(path: Path, watch: Callable[..., EventWatcher]) -> None:
    """Deleted and made again, or moved away and replaced: the directory at the path counts."""
    watcher = watch(path)
    path.unlink()
    path.parent.rmdir()
    assert woken(watcher)
    path.parent.mkdir()
    assert woken(watcher)
    append(path)
    assert woken(watcher)
    path.parent.rename(path.parent.with_name("old"))
    path.parent.mkdir()
    assert woken(watcher)
    append(path)
    assert woken(watcher)


def test_target_of_a_link_is_watched(path: Path, tmp_path: Path, watch: Callable[..., EventWatcher]) -> None:
    """A write to what the link leads to wakes, in its directory, and after the link was turned too."""
    link = tmp_path / "links" / "engine.log"
    link.parent.mkdir()
    link.symlink_to(path)
    watcher = watch(link)
    settle(watcher)
    append(path)
    assert woken(watcher)
    other = tmp_path / "other" / "1.log"
    other.parent.mkdir()
    os.symlink(other, tmp_path / "links" / "new")
    os.replace(tmp_path / "links" / "new", link)
    assert woken(watcher)
    append(other)
    assert woken(watcher)


def test_one_inotify_instance_however_many_logs(tmp_path: Path, watch: Callable[..., EventWatcher]) -> None:
    """128 instances are all that a user has by default, and others want some."""
    paths = [tmp_path / str(number) / "engine.log" for number in range(5)]
    for path in paths:
        path.parent.mkdir()
    before = _instances()
    watcher = watch(*paths)
    assert before + 1 == _instances()
    watcher.stop()
    assert before == _instances()


def _instances() -> int:
    return sum(os.readlink(entry) == "anon_inode:inotify" for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())


@pytest.mark.parametrize("kind", [EventWatcher, PollingWatcher])
def test_stop_wakes_the_waiter(path: Path, kind: type[EventWatcher] | type[PollingWatcher]) -> None:
    """Whoever waits when the process ends need not wait on."""
    watcher = kind([path])
    watcher.start()
    woken_at: list[float] = []
    waiter = threading.Thread(target=lambda: (watcher.wait(DEADLINE_SECONDS), woken_at.append(time.monotonic())))
    begin = time.monotonic()
    waiter.start()
    watcher.stop()
    waiter.join(DEADLINE_SECONDS)
    assert woken_at
    assert woken_at[0] - begin < DEADLINE_SECONDS / 2
    watcher.stop()


def test_polling_always_supposes_a_change(path: Path) -> None:
    """Without events each interval may have brought something."""
    watcher = PollingWatcher([path])
    watcher.start()
    assert watcher.wait(0.001)
    watcher.stop()


def test_auto_takes_events_where_it_can(path: Path) -> None:
    """Events where there is inotify."""
    watcher = auto([path])
    assert isinstance(watcher, EventWatcher)
    append(path)
    assert woken(watcher)
    watcher.stop()


def test_auto_polls_where_there_is_no_inotify(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No instance left: poll, and say so once."""

    def none_left() -> BaseObserver:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    with caplog.at_level(logging.WARNING):
        watcher = auto([path], observer=none_left)
    assert isinstance(watcher, PollingWatcher)
    assert ["WARNING"] == [record.levelname for record in caplog.records]
    watcher.stop()
