"""Waking, with real events; each wait has a deadline."""

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers.inotify_c import WatchCallback, WatchDescriptor

from exporter.tail import EventWatcher, Follower, PollingWatcher, Watcher, auto
from exporter.tail._inotify import CalmInotify

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

    def watch(*paths: Path, **settings: Any) -> EventWatcher:
        watcher = EventWatcher(paths, **settings)
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

    def none_left() -> CalmInotify:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    with caplog.at_level(logging.WARNING):
        watcher = auto([path], inotify=none_left)
    assert isinstance(watcher, PollingWatcher)
    assert ["WARNING"] == [record.levelname for record in caplog.records]
    watcher.stop()
    assert watcher.polling


class TestWatch:
    def test_takes_the_place_of_what_was_watched(self, path: Path, tmp_path: Path, watch: Callable[..., EventWatcher]) -> None:
        """Other logs, in other directories, with the instance and the threads that are there."""
        watcher = watch(path)
        other = tmp_path / "other" / "b.log"
        other.parent.mkdir()
        other.touch()
        instances, threads = _instances(), threading.active_count()
        watcher.watch([other])
        settle(watcher)
        append(path)
        assert not watcher.wait(0.1)
        append(other)
        assert woken(watcher)
        watcher.watch([other, path.with_name("c.log")])
        settle(watcher)
        append(path)
        assert not watcher.wait(0.1)
        append(path.with_name("c.log"))
        assert woken(watcher)
        assert (instances, threads) == (_instances(), threading.active_count())

    def test_wakes_the_waiter(self, path: Path, watch: Callable[..., EventWatcher]) -> None:
        """A waiter in another thread takes the new logs at once; the same logs again change nothing."""
        watcher = watch(path)
        settle(watcher)
        watcher.watch([path])
        watcher.watch([str(path)], [])
        assert not watcher.wait(0.05)
        threading.Timer(0.05, watcher.watch, ([path, path.with_name("b.log")],)).start()
        begin = time.monotonic()
        assert watcher.wait(DEADLINE_SECONDS)
        assert time.monotonic() - begin < DEADLINE_SECONDS / 2

    def test_new_entries_of_directories_wake(self, path: Path, tmp_path: Path, watch: Callable[..., EventWatcher]) -> None:
        """A new pod is seen at once; a rotation of a log that is known, and a write, are no new entry."""
        watcher = watch(path, directories=[str(path.parent), str(tmp_path / "pods")])
        settle(watcher)
        assert watcher.new_entries()
        append(path)
        path.rename(f"{path}.1")
        path.touch()
        assert woken(watcher)
        assert not watcher.new_entries()
        (tmp_path / "pods").mkdir()
        assert woken(watcher)
        assert watcher.new_entries()
        assert not watcher.new_entries()
        (tmp_path / "pods" / "a").mkdir()
        assert woken(watcher)
        assert watcher.new_entries()
        path.with_name("new.log").touch()
        assert woken(watcher)
        assert watcher.new_entries()

    def test_a_directory_that_is_watched_already_gets_a_look(self, path: Path, watch: Callable[..., EventWatcher]) -> None:
        """What came into it since the caller looked was nobody's until now."""
        watcher = watch(path)
        settle(watcher)
        assert not watcher.new_entries()
        path.with_name("new.log").touch()
        watcher.watch([path], [str(path.parent)])
        assert woken(watcher)
        assert watcher.new_entries()

    def test_one_directory_by_two_paths(self, path: Path, tmp_path: Path, watch: Callable[..., EventWatcher]) -> None:
        """inotify gives one watch for a directory, whatever it is called."""
        alias = tmp_path / "alias"
        alias.symlink_to(path.parent)
        watcher = watch(path, alias / "b.log")
        settle(watcher)
        append(path)
        assert woken(watcher)
        append(path.with_name("b.log"))
        assert woken(watcher)
        watcher.watch([alias / "b.log"])
        settle(watcher)
        append(path)
        assert not watcher.wait(0.1)
        append(path.with_name("b.log"))
        assert woken(watcher)

    def test_a_directory_link_that_is_turned(self, tmp_path: Path, watch: Callable[..., EventWatcher]) -> None:
        """The next look finds that the path leads elsewhere."""
        old, new = tmp_path / "old", tmp_path / "new"
        old.mkdir()
        new.mkdir()
        link = tmp_path / "now"
        link.symlink_to(old)
        watcher = watch(link / "engine.log")
        settle(watcher)
        (tmp_path / "next").symlink_to(new)
        (tmp_path / "next").rename(link)
        assert woken(watcher)
        append(new / "engine.log")
        assert woken(watcher)

    def test_costs_nothing_while_nothing_changes(self, tmp_path: Path, watch: Callable[..., EventWatcher]) -> None:
        """Thousands of logs in one directory are one watch, and neither a look nor the same logs again cost much."""
        paths = [str(tmp_path / f"{number}.log") for number in range(5000)]
        watcher = watch(*paths)
        settle(watcher)
        begin = time.process_time()
        for _ in range(100):
            watcher._look()
            watcher.watch(paths)
        assert time.process_time() - begin < 0.3
        assert len(watcher._watched) == 1
        append(Path(paths[4321]))
        assert woken(watcher)


class FewWatches(CalmInotify):
    """A system with few watches."""

    left = 1

    def add(self, directory: str, callback: WatchCallback) -> WatchDescriptor:
        if not self.left:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        self.left -= 1
        return super().add(directory, callback)


@pytest.mark.parametrize("at_start", [True, False])
def test_polls_too_when_watches_run_out(path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, at_start: bool) -> None:
    """What is watched still wakes at once, each wait may have missed the rest, and one warning says so."""
    other = tmp_path / "other.log"
    inotify = FewWatches()
    with caplog.at_level(logging.WARNING):
        watcher = auto([path, other] if at_start else [path], inotify=lambda: inotify)
        assert isinstance(watcher, EventWatcher)
        assert watcher.polling is at_start
        watcher.watch([path, other])
        assert watcher.wait(0)
        for _ in range(3):
            assert watcher.wait(0.01)
            watcher._look()
    assert watcher.polling
    assert ["WARNING"] == [record.levelname for record in caplog.records]
    begin = time.monotonic()
    threading.Timer(0.05, append, (path,)).start()
    assert watcher.wait(DEADLINE_SECONDS)
    assert time.monotonic() - begin < DEADLINE_SECONDS / 2
    inotify.left = 1
    watcher._look()
    settle(watcher)
    assert not watcher.polling
    append(other)
    assert woken(watcher)
    watcher.stop()
