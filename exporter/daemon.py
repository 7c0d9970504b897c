"""Follows the logs of all sources, saves what is known, and gives consistent snapshots to the scrapes."""

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from exporter.checkpoint import StateFile
from exporter.config import Config
from exporter.counters import Sample
from exporter.discovery import Target, discover, watch_roots
from exporter.evidence.witnesses import RDMA_STATE, Witnesses
from exporter.exposition import Snapshot, StoppingError
from exporter.faults import Faults
from exporter.followed import FORGET_SECONDS, FollowedSource
from exporter.source_names import STDIN
from exporter.status import Engines, View, unread
from exporter.tail import auto

POLL_SECONDS = 0.25
"""How often files are looked at where the kernel tells nothing."""

QUIET_POLL_SECONDS = 2.0
"""How often files are looked at without an event: not every file system tells of writes."""

FILES_A_LOOK = 500
"""With each time so many files it is done that much less often."""

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

STOP_SECONDS = 1.2
"""How long after a signal an orderly end goes on reading."""

FAULT_PAUSE_SECONDS = 1.0
"""How long a thread rests after a fault of ours."""

logger = logging.getLogger("inferlog.daemon")


_NO_STATE = (ValueError, TypeError, KeyError, AttributeError)
"""What restoring raises when a state is none."""


class _Away(NamedTuple):
    state: str
    since: float


class Daemon:
    """All sources. One thread reads them, another saves what is known; the other methods may be called from any thread."""

    def __init__(self, config: Config, state_file: StateFile | None = None) -> None:
        """`state_file` has what was known before, and takes what becomes known."""
        self._config = config
        self._state_file = state_file
        self._loaded_at, self._reload_failed = time.time(), False
        # Taken in this order. Who saves must have seen all that was exposed before, and takes turns with the reader at the sources.
        self._discovering, self._saving, self._next, self._reading = (threading.Lock() for _ in range(4))
        self.sources: Mapping[str, FollowedSource] = {}
        """Never changed, only replaced: who goes through it needs no lock."""
        self._away: dict[str, _Away] = {}
        """Sources that are not there: a volume may be late, a pod between two lives, a reload taken back."""
        self._discovered_at = time.monotonic()
        self._saved: dict[str, str] | None = None
        self._faults = Faults("(all)")
        self._found = threading.Event()
        """Whether a witness found something that is not saved."""
        self._witnesses = Witnesses(self._wake_for_found, self._faults.note)
        self._restore(state_file.load() if state_file else {})
        self._watcher = auto(*self._watched())
        self._stopping = threading.Event()
        self._deadline = math.inf
        self._history_read = threading.Event()
        if self.sources and all(each.live for each in self.sources.values()):
            self._history_read.set()
        self._threads = [
            threading.Thread(target=self._work, args=(work,), name=work.__name__.strip("_"), daemon=True)
            for work in (self._read, self._checkpoint)
        ]

    def _restore(self, states: Mapping[str, Any]) -> None:
        targets = discover(self._config.sources, self._config.log_roots)
        now = time.monotonic()
        self._witnesses.restore(states.get(RDMA_STATE, {}))
        self._away = {name: _Away(json.dumps(state), now) for name, state in states.items() if name != RDMA_STATE}
        try:
            self._follow(targets, as_configured=True)
        except _NO_STATE as error:
            if not self._state_file or not states:
                raise
            self._state_file.keep_aside(f"damaged ({type(error).__name__})")
            self._away = {}
            self._follow(targets, as_configured=True)

    @property
    def ready(self) -> bool:
        """Whether the history of all sources that were there at the start has been read."""
        return self._history_read.is_set() and not self._stopping.is_set()

    @property
    def healthy(self) -> bool:
        """Whether it does what it is there for."""
        return all(thread.is_alive() for thread in self._threads) or self._stopping.is_set()

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()
        self._witnesses.start()

    def begin_to_stop(self) -> None:
        """From now on nothing is answered, and `stop` has little time."""
        if not self._stopping.is_set():
            self._deadline = time.monotonic() + STOP_SECONDS
            self._stopping.set()

    def stop(self) -> None:
        """Read what is there, save it, end the threads and close all files."""
        self.begin_to_stop()
        self._watcher.wake()
        self._witnesses.stop()
        for thread in self._threads:
            thread.join()
        while self._read_all():
            pass
        self._save()
        if self._state_file:
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

    def _work(self, work: Callable[[], float]) -> None:
        """Do a thread's work again and again, each time after the pause that it asks for; a fault of ours must not end it."""
        pause = 0.0
        while not self._stopping.wait(pause):
            try:
                pause = work()
            except Exception as error:  # noqa: BLE001 - whatever it is, the daemon goes on
                self._faults.note(error)
                pause = FAULT_PAUSE_SECONDS

    def _read(self) -> float:
        """Read all that there is, then wait for more."""
        interval = DISCOVERY_POLL_SECONDS if self._watcher.polling else DISCOVERY_SECONDS
        since = time.monotonic() - self._discovered_at
        if since >= interval or (since >= DISCOVERY_PAUSE_SECONDS and self._watcher.new_entries()):
            self._discover()
        busy = self._read_all()
        if self._found.is_set():
            self._found.clear()
            self._save()  # what is not in a log cannot be read again
        if busy:
            return 0.0
        if not self._history_read.is_set():
            self._tell_history()
            self._save()  # before anybody can kill it: the files may be gone when it comes back
            self._history_read.set()
        self._watcher.wait(self._pause())
        return 0.0

    def _wake_for_found(self) -> None:
        self._found.set()
        self._watcher.wake()

    def _pause(self) -> float:
        """How long to wait for an event; many files are looked at less often without one."""
        if self._watcher.polling or any(STDIN in each.followers for each in self.sources.values()):
            return POLL_SECONDS
        return QUIET_POLL_SECONDS * max(1, sum(len(each.followers) for each in self.sources.values()) // FILES_A_LOOK)

    def _read_all(self) -> bool:
        """Give each source its turn; whether one has more to read."""
        busy = False
        for each in self.sources.values():
            if time.monotonic() >= self._deadline:
                return False
            with self._turn():
                busy = _read_safely(each, READ_BYTES) >= READ_BYTES or busy
        return busy

    def _checkpoint(self) -> float:
        """Save where nobody scrapes, and bring to the disk what was saved."""
        if self._state_file:
            self._save()
            self._state_file.sync()
        return CHECKPOINT_SECONDS

    # -- which sources there are ---------------------------------------------------------------------------------------

    def _discover(self, config: Config | None = None) -> None:
        """Take in what globs match now, and drop sources whose files are gone; with another configuration, put it in force."""
        with self._discovering:
            self._discovered_at = time.monotonic()
            wanted = config or self._config
            targets = discover(wanted.sources, wanted.log_roots)
            with self._turn():
                self._config = wanted
                self._follow(targets, as_configured=config is not None)
            self._watcher.watch(*self._watched())

    def _follow(self, targets: list[Target], *, as_configured: bool) -> None:
        """Follow these and no others; with `as_configured` new ones begin where the configuration says."""
        now = time.monotonic()
        self._away = {name: each for name, each in self._away.items() if now - each.since < FORGET_SECONDS}
        sources = dict(self.sources)
        wanted = {target.name: target for target in targets}
        for name, each in self.sources.items():
            if name not in wanted and (not any(map(each.configured_as, self._config.sources)) or each.is_gone(now)):
                if not each.is_gone(now) and (state := each.frozen()):
                    self._away[name] = _Away(state, now)
                sources.pop(name).close()
        for name, target in wanted.items():
            if name in sources:
                sources[name].follow(target, as_configured=as_configured)
            else:
                sources[name] = self._take(target, as_configured=as_configured)
        holds_files = sum(len(each.followers) for each in sources.values()) <= MOST_OPEN
        for each in sources.values():
            each.holds_files = holds_files
        self.sources = sources
        self._witnesses.follow(sources, self._config.rdma_sysfs_root)

    def _take(self, target: Target, *, as_configured: bool) -> FollowedSource:
        """A source that comes, or comes back."""
        away = self._away.get(target.name)
        try:
            source = FollowedSource(target, json.loads(away.state) if away else None, as_configured=as_configured)
        except _NO_STATE as error:
            if not self.sources:
                raise  # at the start, where the whole file is kept aside
            self._faults.note(error)
            source = FollowedSource(target, as_configured=as_configured)
        self._away.pop(target.name, None)
        return source

    def _watched(self) -> tuple[list[str], set[str]]:
        """The logs, and the directories in which new ones may appear."""
        return [path for each in self.sources.values() for path in each.followers if path != STDIN], watch_roots(self._config.sources)

    def _tell_history(self) -> None:
        logger.info("history read")
        for source in self._config.sources:
            if not any(each.configured_as(source) for each in self.sources.values()):
                logger.warning("source %s: no file matches %s yet", source.name, ", ".join(source.paths))
        with self._turn():
            missing = [
                (each.name, path)
                for each in self.sources.values()
                for path, follower in each.followers.items()
                if path != STDIN and not follower.stats.up
            ]
        for name, path in missing:
            logger.warning("source %s: no log that can be read at %s yet", name, path)

    def reload(self, config: Config) -> str:
        """Put another configuration of the sources in force, those that stay lose nothing; why it could not be done, if so."""
        try:
            self._discover(config)
        except Exception as error:  # noqa: BLE001 - the one in force is still good
            self._faults.note(error)
            return self.reload_failed("the logs cannot be looked for")
        self._loaded_at, self._reload_failed = time.time(), False
        logger.info("configuration reloaded, sources: %s", len(config.sources))
        return ""

    def reload_failed(self, reason: str) -> str:
        """The configuration in force stays; the reason once more."""
        self._reload_failed = True
        logger.error("configuration not reloaded: %s", reason)
        return reason

    # -- what is known -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """All series at this moment, what was written until now included unless the reader is far behind.

        They are in the state file before anybody sees them. Raises StoppingError.
        """
        with self._saving:
            now, budget, snapshots = time.time(), SCRAPE_READ_BYTES, []
            for each in self.sources.values():
                with self._turn():
                    if self._stopping.is_set():
                        raise StoppingError
                    budget -= _read_safely(each, budget)
                    if each.live:
                        snapshots += each.snapshots(now)
            self._write()
            return Snapshot(snapshots, list(self._own_samples()))

    def look(self, view: View) -> Engines:
        """What a view makes of each source at this moment, what was written until now included. Raises StoppingError.

        It may be ahead of the state file, as nothing of it is a counter that a restart must not take back.
        """
        now, budget, found = time.time(), SCRAPE_READ_BYTES, Engines()
        for each in self.sources.values():
            with self._turn():
                if self._stopping.is_set():
                    raise StoppingError
                budget -= _read_safely(each, budget)
                found += view(each.source, now) if each.live else [unread(each.source)]
        return found

    def _save(self) -> None:
        with self._saving:
            self._write()

    def _write(self) -> None:
        """Write the state if it is another than before, while nobody else does."""
        if not self._state_file:
            return
        states = {name: each.state for name, each in self._away.items()}
        for each in self.sources.values():
            with self._turn():
                state = each.frozen()
            if state is not None:
                states[each.name] = state
        if machine := self._witnesses.frozen():
            states[RDMA_STATE] = machine
        if (states != self._saved or self._state_file.is_missing()) and self._state_file.save(states):
            self._saved = states

    def _own_samples(self) -> Iterator[Sample]:
        if self._state_file:
            if self._state_file.saved_at is not None:
                yield Sample("checkpoint_timestamp_seconds", (), self._state_file.saved_at)
            yield Sample("checkpoint_failures_total", (), self._state_file.failures)
        yield from self._witnesses.samples()
        yield Sample("exporter_faults_total", (), self._faults.count)
        yield Sample("config_last_reload_successful", (), not self._reload_failed)
        yield Sample("config_last_reload_success_timestamp_seconds", (), self._loaded_at)


def _read_safely(followed: FollowedSource, limit: int) -> int:
    """Read a source; a fault of ours in it must not end the others."""
    try:
        return followed.read(limit)
    except Exception as error:  # noqa: BLE001 - whatever it is, the daemon goes on
        followed.source.faults.note(error)
        return 0
