"""Follows the logs of all sources in one thread and gives consistent snapshots to the scrapes."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from exporter.clock import EventClock
from exporter.config import Config, SourceConfig
from exporter.counters import Sample
from exporter.exposition import SourceSnapshot
from exporter.source import Source
from exporter.source_names import STDIN
from exporter.tail import Chunk, EventWatcher, Follower, FollowerStats, StdinFollower, auto

POLL_SECONDS = 0.25
"""How often files are looked at where the kernel tells nothing."""

QUIET_POLL_SECONDS = 1.0
"""How often files are looked at without an event: not every file system tells of writes."""

READ_BYTES = 512 * 1024
"""What the reader takes of a source before it is the next one's turn."""

SCRAPE_READ_BYTES = 1024 * 1024
"""What a scrape itself reads at the most, so that it shows what was written before it."""

logger = logging.getLogger("inferlog.daemon")


class FollowedSource:
    """One source of the configuration with the files that it follows."""

    def __init__(self, config: SourceConfig) -> None:
        zone = None if config.timezone is None else zone_seconds(config.timezone)
        today = time.gmtime()
        self.source = Source(
            config.name,
            year=today.tm_year,
            month=today.tm_mon,
            pd_role=config.pd_role,
            pd_expect=config.pd_expect,
            labels=config.labels,
            clock=EventClock(zone),
        )
        self.followers: dict[str, Follower | StdinFollower] = {
            path: StdinFollower() if path == STDIN else Follower(Path(path), start_at=config.start_at) for path in config.paths
        }
        self.live = False

    def read(self, limit: int) -> int:
        """Read up to about `limit` bytes; how many it were. What was there before the first end of file is history."""
        taken = 0
        for path, follower in self.followers.items():
            while taken < limit:
                chunk = follower.read()
                if chunk.begins_file:
                    self.source.end_of_file(path)
                if not chunk.data:
                    break
                taken += len(chunk.data)
                self._take(path, chunk, follower.stats)
            if isinstance(follower, StdinFollower) and follower.eof:
                self.source.end_of_file(path)  # nothing will complete a last half line
        self.live = self.live or taken < limit
        return taken

    def _take(self, path: str, chunk: Chunk, stats: FollowerStats) -> None:
        written = now = time.time()
        if not self.live or stats.lag_bytes:
            written = _written_at(path, now)
        self.source.feed(chunk.data, written, path)
        if not stats.lag_bytes:
            self.source.learn_zone(written)

    def samples(self, now: float) -> Iterator[Sample]:
        """The engine's series and those about the files."""
        yield from self.source.samples(now)
        yield from self.file_samples()

    def file_samples(self) -> Iterator[Sample]:
        """Series about the files, summed over them."""
        stats = [follower.stats for follower in self.followers.values()]
        yield Sample("source_up", (), all(each.up for each in stats))
        yield Sample("source_lag_bytes", (), sum(each.lag_bytes for each in stats))
        yield Sample("source_read_bytes_total", (), sum(each.read_bytes for each in stats))
        yield Sample("source_rotations_total", (), sum(each.rotations for each in stats))
        yield Sample("source_truncations_total", (), sum(each.truncations for each in stats))
        yield Sample("source_lost_bytes_total", (), sum(each.lost_bytes for each in stats))

    def close(self) -> None:
        """Close all files."""
        for follower in self.followers.values():
            follower.close()


class Daemon:
    """All sources. A thread reads them; `snapshot` may be called from any thread."""

    def __init__(self, config: Config) -> None:
        self.sources = [FollowedSource(each) for each in config.sources]
        stdin = any(STDIN in each.paths for each in config.sources)
        paths = [Path(path) for each in config.sources for path in each.paths if path != STDIN]
        self._watcher = auto(paths)
        self._poll_seconds = QUIET_POLL_SECONDS if isinstance(self._watcher, EventWatcher) and not stdin else POLL_SECONDS
        self._sources_lock, self._next = threading.Lock(), threading.Lock()
        self._stopping = threading.Event()
        self._history_read = threading.Event()
        self._thread = threading.Thread(target=self._read_for_ever, name="reader", daemon=True)

    @property
    def ready(self) -> bool:
        """Whether the history of all sources has been read."""
        return self._history_read.is_set()

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close all files."""
        self._stopping.set()
        self._watcher.wake()
        self._thread.join()
        self._watcher.stop()
        for each in self.sources:
            each.close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Have all sources to oneself. Who waits is next: a reader that is far behind must not keep a scrape out."""
        with self._next:
            self._sources_lock.acquire()
        try:
            yield
        finally:
            self._sources_lock.release()

    def _read_for_ever(self) -> None:
        while not self._stopping.is_set():
            busy = False
            for each in self.sources:
                with self._turn():
                    busy = _read_safely(each, READ_BYTES) >= READ_BYTES or busy
            if not busy:
                if not self.ready:
                    self._tell_history()
                    self._history_read.set()
                self._watcher.wait(self._poll_seconds)

    def _tell_history(self) -> None:
        logger.info("history read")
        for each in self.sources:
            for path, follower in each.followers.items():
                if path != STDIN and not follower.stats.up:
                    logger.warning("source %s: no log that can be read at %s yet", each.source.name, path)

    def snapshot(self) -> list[SourceSnapshot]:
        """All series at this moment, what was written until now included unless the reader is far behind."""
        now = time.time()
        snapshots, budget = [], SCRAPE_READ_BYTES
        for each in self.sources:
            with self._turn():
                budget -= _read_safely(each, budget)
                source = each.source
                snapshots.append(SourceSnapshot(source.name, source.runtime, source.labels, _samples_safely(each, now)))
        return snapshots


def _read_safely(followed: FollowedSource, limit: int) -> int:
    """Read a source; a fault of ours in it must not end the others."""
    try:
        return followed.read(limit)
    except Exception as error:  # noqa: BLE001 - whatever it is, the daemon goes on
        followed.source.faults.note(error)
        return 0


def _samples_safely(followed: FollowedSource, now: float) -> list[Sample]:
    """The samples of a source, reduced to those about the exporter itself when the others cannot be had."""
    try:
        return list(followed.samples(now))
    except Exception as error:  # noqa: BLE001 - the other sources must not go with it
        followed.source.faults.note(error)
        return [*followed.source.own_samples(), *followed.file_samples()]


def _written_at(path: str, default: float) -> float:
    """When the file was last written, which is when its last line was printed: no line of its history is younger."""
    try:
        return default if path == STDIN else Path(path).stat().st_mtime
    except OSError:
        return default


def zone_seconds(text: str) -> float:
    """`+08:00` in seconds east of UTC."""
    hours, _, minutes = text[1:].partition(":")
    seconds = int(hours) * 3600 + int(minutes or 0) * 60
    return float(-seconds if text[0] == "-" else seconds)
