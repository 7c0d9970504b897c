"""Follows the logs of all sources, saves what is known, and gives consistent snapshots to the scrapes."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from exporter.checkpoint import StateFile
from exporter.config import Config
from exporter.counters import Sample
from exporter.discovery import Target, discover, watch_roots
from exporter.exposition import Snapshot
from exporter.followed import FollowedSource
from exporter.source_names import STDIN
from exporter.tail import auto

POLL_SECONDS = 0.25
"""How often files are looked at where the kernel tells nothing."""

QUIET_POLL_SECONDS = 1.0
"""How often files are looked at without an event: not every file system tells of writes."""

FILES_A_LOOK = 500
"""So many files more and it is done a second later."""

DISCOVERY_SECONDS = 30.0
"""How often globs are expanded anew where the kernel tells of new files as well."""

DISCOVERY_POLL_SECONDS = 5.0
"""How often it is done where it does not."""

DISCOVERY_PAUSE_SECONDS = 1.0
"""How long it is left alone in any case: many pods may start at once."""

CHECKPOINT_SECONDS = 5.0
"""How often the state is saved where nobody scrapes, and brought to the disk."""

READ_BYTES = 512 * 1024
"""What the reader takes of a source before it is the next one's turn."""

SCRAPE_READ_BYTES = 1024 * 1024
"""What a scrape itself reads at the most, so that it shows what was written before it."""

MOST_OPEN = 500
"""Files that are held open; where there are more, each is closed until it changes."""

DRAIN_SECONDS = 1.0
"""How long an orderly end goes on reading."""

logger = logging.getLogger("inferlog.daemon")


class Daemon:
    """All sources. One thread reads them, another saves what is known; the other methods may be called from any thread."""

    def __init__(self, config: Config, state_file: StateFile | None = None) -> None:
        """`state_file` has what was known before, and takes what becomes known."""
        self._config = config
        self._state_file = state_file
        self._loaded_at, self._reload_failed = time.time(), False
        # Taken in this order: who saves must have seen all that was exposed before, and takes its turn at the sources as the reader does.
        self._saving, self._next, self._reading = threading.Lock(), threading.Lock(), threading.Lock()
        self.sources: dict[str, FollowedSource] = {}
        self._saved: dict[str, str] | None = None
        self._restore(state_file.load() if state_file else {})
        self._watcher = auto(*self._watched())
        self._stopping = threading.Event()
        self._history_read = threading.Event()
        if self.sources and all(each.live for each in self.sources.values()):
            self._history_read.set()
        self._threads = [
            threading.Thread(target=work, name=work.__name__.strip("_"), daemon=True) for work in (self._read, self._checkpoint)
        ]

    def _restore(self, states: Mapping[str, Any]) -> None:
        targets = discover(self._config.sources)
        try:
            self._follow(targets, states, as_configured=True)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if not self._state_file or not states:
                raise
            self._state_file.keep_aside(f"damaged ({type(error).__name__})")
            for each in self.sources.values():
                each.close()
            self.sources = {}
            self._follow(targets, {}, as_configured=True)

    @property
    def source_names(self) -> list[str]:
        """The sources that there are now."""
        return list(self.sources)

    @property
    def ready(self) -> bool:
        """Whether the history of all sources that were there at the start has been read."""
        return self._history_read.is_set()

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Read what is there, save it, end the threads and close all files."""
        self._stopping.set()
        self._watcher.wake()
        for thread in self._threads:
            thread.join()
        end = time.monotonic() + DRAIN_SECONDS
        while self._read_all() and time.monotonic() < end:
            pass
        if self._state_file:
            with self._saving:
                self._save()
            self._state_file.sync()
        self._watcher.stop()
        for each in self.sources.values():
            each.close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Have all sources to oneself. Who waits is next: a reader that is far behind must not keep a scrape out."""
        with self._next:
            self._reading.acquire()
        try:
            yield
        finally:
            self._reading.release()

    # -- the two threads -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        discovered = time.monotonic()
        while not self._stopping.is_set():
            since = time.monotonic() - discovered
            interval = DISCOVERY_POLL_SECONDS if self._watcher.polling else DISCOVERY_SECONDS
            if since >= interval or (since >= DISCOVERY_PAUSE_SECONDS and self._watcher.new_entries()):
                self._discover()
                discovered = time.monotonic()
            if self._read_all():
                continue
            if not self.ready:
                self._tell_history()
                self._history_read.set()
            self._watcher.wait(self._pause())

    def _pause(self) -> float:
        """How long to wait for an event; many files are looked at less often without one."""
        if self._watcher.polling or any(STDIN in each.followers for each in self.sources.values()):
            return POLL_SECONDS
        return QUIET_POLL_SECONDS * max(1, sum(len(each.followers) for each in self.sources.values()) // FILES_A_LOOK)

    def _read_all(self) -> bool:
        """Give each source its turn; whether one has more to read."""
        busy = False
        for each in list(self.sources.values()):
            with self._turn():
                busy = _read_safely(each, READ_BYTES) >= READ_BYTES or busy
        return busy

    def _checkpoint(self) -> None:
        while not self._stopping.wait(CHECKPOINT_SECONDS) and self._state_file:
            with self._saving:
                saved = self._save()
            if saved:
                self._state_file.sync()

    # -- which sources there are ---------------------------------------------------------------------------------------

    def _discover(self, *, as_configured: bool = False) -> None:
        """Take in what globs match now, and drop sources whose files are gone."""
        try:
            targets = discover(self._config.sources)
        except Exception:
            logger.exception("cannot look for logs")
            return
        with self._turn():
            self._follow(targets, {}, as_configured=as_configured)
        self._watcher.watch(*self._watched())

    def _follow(self, targets: list[Target], states: Mapping[str, Any], *, as_configured: bool = False) -> None:
        """Follow these and no others; with `as_configured` new ones begin where the configuration says."""
        now = time.monotonic()
        wanted = {target.name: target for target in targets}
        for name, each in list(self.sources.items()):
            if name not in wanted and (not any(map(each.configured_as, self._config.sources)) or each.is_gone(now)):
                each.close()
                del self.sources[name]
        for name, target in wanted.items():
            if name in self.sources:
                self.sources[name].follow(target)
            else:
                self.sources[name] = FollowedSource(target, states.get(name), as_configured=as_configured)
        holds_files = sum(len(each.followers) for each in self.sources.values()) <= MOST_OPEN
        for each in self.sources.values():
            each.holds_files = holds_files

    def _watched(self) -> tuple[list[str], set[str]]:
        """The logs, and the directories in which new ones may appear."""
        return [path for each in self.sources.values() for path in each.followers if path != STDIN], watch_roots(self._config.sources)

    def _tell_history(self) -> None:
        logger.info("history read")
        for source in self._config.sources:
            if not any(each.configured_as(source) for each in self.sources.values()):
                logger.warning("source %s: no file matches %s yet", source.name, ", ".join(source.paths))
        for each in self.sources.values():
            for path, follower in each.followers.items():
                if path != STDIN and not follower.stats.up:
                    logger.warning("source %s: no log that can be read at %s yet", each.name, path)

    def reload(self, config: Config) -> None:
        """Put another configuration of the sources in force: those that stay lose nothing."""
        with self._turn():
            self._config = config
        self._discover(as_configured=True)
        self._loaded_at, self._reload_failed = time.time(), False
        logger.info("configuration reloaded, sources: %s", len(config.sources))

    def reload_failed(self, reason: str) -> None:
        """The configuration in force stays."""
        self._reload_failed = True
        logger.error("configuration not reloaded: %s", reason)

    # -- what is known -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """All series at this moment, what was written until now included unless the reader is far behind.

        They are in the state file before anybody sees them.
        """
        with self._saving:
            now, budget, snapshots = time.time(), SCRAPE_READ_BYTES, []
            for each in list(self.sources.values()):
                with self._turn():
                    budget -= _read_safely(each, budget)
                    if each.live:
                        snapshots.append(each.snapshot(now))
            self._save()
            return Snapshot(snapshots, list(self._own_samples()))

    def _save(self) -> bool:
        """Write the state if it is another than before, holding `_saving`; whether it was written."""
        if not self._state_file:
            return False
        states: dict[str, str] = {}
        for each in list(self.sources.values()):
            with self._turn():
                state = each.frozen()
            if state is not None:
                states[each.name] = state
        if states == self._saved:
            return False
        saved = self._state_file.save(states)
        if saved:
            self._saved = states
        return saved

    def _own_samples(self) -> Iterator[Sample]:
        if self._state_file:
            if self._state_file.saved_at is not None:
                yield Sample("checkpoint_timestamp_seconds", (), self._state_file.saved_at)
            yield Sample("checkpoint_failures_total", (), self._state_file.failures)
        yield Sample("config_last_reload_successful", (), not self._reload_failed)
        yield Sample("config_last_reload_success_timestamp_seconds", (), self._loaded_at)


def _read_safely(followed: FollowedSource, limit: int) -> int:
    """Read a source; a fault of ours in it must not end the others."""
    try:
        return followed.read(limit)
    except Exception as error:  # noqa: BLE001 - whatever it is, the daemon goes on
        followed.source.faults.note(error)
        return 0
