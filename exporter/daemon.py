"""Follows the logs of all sources in one thread and gives consistent snapshots to the scrapes."""

import logging
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from exporter.clock import EventClock
from exporter.config import STDIN, Config, SourceConfig
from exporter.counters import Sample
from exporter.exposition import SourceSnapshot
from exporter.source import Source
from exporter.tail import Chunk, EventWatcher, Follower, FollowerStats, StdinFollower, auto

POLL_SECONDS = 0.25
"""How often files are looked at where the kernel tells nothing."""

QUIET_POLL_SECONDS = 1.0
"""How often files are looked at without an event: not every file system tells of writes."""

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
        self.faults = 0

    def read(self, limit: int) -> bool:
        """Read up to `limit` bytes; whether there may be more. What was there before the first end of file is history."""
        busy = False
        for path, follower in self.followers.items():
            taken = 0
            while taken < limit:
                chunk = follower.read()
                if chunk.begins_file:
                    self.source.end_of_file(path)
                if not chunk.data:
                    break
                taken += len(chunk.data)
                self._take(path, chunk, follower.stats)
            busy = busy or taken >= limit
            if isinstance(follower, StdinFollower) and follower.eof:
                self.source.end_of_file(path)  # nothing will complete a last half line
        if not busy:
            self.live = True
        return busy

    def _take(self, path: str, chunk: Chunk, stats: FollowerStats) -> None:
        now = time.time()
        if self.live and stats.lag_bytes == 0:
            self.source.feed(chunk.data, now, path)
            self.source.learn_zone(now)
        else:
            self.source.feed(chunk.data, _written_at(path, now), path)

    def samples(self, now: float) -> Iterator[Sample]:
        """The engine's series and those about the files, summed over the files."""
        yield from self.source.samples(now)
        stats = [follower.stats for follower in self.followers.values()]
        yield Sample("source_up", (), all(each.up for each in stats))
        yield Sample("source_faults_total", (), self.faults)
        for family, total in _TOTALS.items():
            yield Sample(family, (), sum(getattr(each, total) for each in stats))

    def close(self) -> None:
        """Close all files."""
        for follower in self.followers.values():
            follower.close()


_TOTALS = {
    "source_lag_bytes": "lag_bytes",
    "source_read_bytes_total": "read_bytes",
    "source_rotations_total": "rotations",
    "source_truncations_total": "truncations",
    "source_lost_bytes_total": "lost_bytes",
}
assert all(hasattr(FollowerStats(), total) for total in _TOTALS.values())


class Daemon:
    """All sources. A thread reads them; `snapshot` may be called from any thread."""

    def __init__(self, config: Config) -> None:
        self.sources = [FollowedSource(each) for each in config.sources]
        stdin = any(STDIN in each.paths for each in config.sources)
        paths = [Path(path) for each in config.sources for path in each.paths if path != STDIN]
        self._watcher = auto(paths)
        self._poll_seconds = QUIET_POLL_SECONDS if isinstance(self._watcher, EventWatcher) and not stdin else POLL_SECONDS
        self._lock = threading.Lock()
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

    def _read_for_ever(self) -> None:
        while not self._stopping.is_set():
            busy = False
            for each in self.sources:
                with self._lock:
                    busy = _read_safely(each, SCRAPE_READ_BYTES // 2) or busy
            if not busy:
                if not self.ready:
                    logger.info("history read")
                    self._history_read.set()
                self._watcher.wait(self._poll_seconds)

    def snapshot(self) -> list[SourceSnapshot]:
        """All series at this moment, what was written until now included unless the reader is far behind."""
        now = time.time()
        snapshots = []
        for each in self.sources:
            with self._lock:
                _read_safely(each, SCRAPE_READ_BYTES)
                source = each.source
                snapshots.append(SourceSnapshot(source.name, source.runtime, source.labels, each.samples(now)))
        return snapshots


def _read_safely(source: FollowedSource, limit: int) -> bool:
    """Read a source; a fault of ours in it must not end the others. Its text is not told: it may quote the log."""
    try:
        return source.read(limit)
    except Exception as error:  # noqa: BLE001 - whatever it is, the daemon goes on
        frames = traceback.extract_tb(error.__traceback__)
        logger.error("source %s: %s in %s", source.source.name, type(error).__name__, frames[-1].name)  # noqa: TRY400
        source.faults += 1
        return False


def _written_at(path: str, default: float) -> float:
    """When the file was last written: no line of its history is younger."""
    try:
        return default if path == STDIN else Path(path).stat().st_mtime
    except OSError:
        return default


def zone_seconds(text: str) -> float:
    """`+08:00` in seconds east of UTC."""
    hours, _, minutes = text[1:].partition(":")
    seconds = int(hours) * 3600 + int(minutes or 0) * 60
    return float(-seconds if text[0] == "-" else seconds)
