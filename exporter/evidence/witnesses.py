"""Starts and ends the witnesses that the configuration asks for, as sources come and go."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from exporter.config import SourceConfig
from exporter.counters import Digest, Sample
from exporter.evidence import cache_layout, cache_watch, engine_metrics, processes, rdma
from exporter.evidence.cache_watch import CacheWatch
from exporter.evidence.engine_metrics import EngineMetrics
from exporter.evidence.engine_side import Finding
from exporter.evidence.mailbox import Mailbox
from exporter.evidence.periodic import Periodic
from exporter.evidence.processes import CompilerScan
from exporter.evidence.rdma import RdmaReading, RdmaTotals
from exporter.state import Freezer, Thawer

RDMA_STATE = "(rdma)"
"""The name of the RDMA counters in the state file: no source has such a one."""

_STOP_SECONDS = 0.5


class Witnessing(Protocol):
    """A source as its witnesses see it."""

    mailbox: Mailbox

    @property
    def config(self) -> SourceConfig | None:
        """What the configuration says of it."""


class _Wanted(NamedTuple):
    kind: str
    source: str
    settings: tuple[str | None, ...]


class Witnesses:
    """All of them. A source of several containers has no engine, cache or process that it could call its own."""

    def __init__(self, found: Callable[[], None], fault: Callable[[Exception], None]) -> None:
        """`found` is called, from any thread, when a mailbox has something that is to be counted."""
        self._found, self._fault = found, fault
        self._sources: Mapping[str, Witnessing] = {}
        self._running: dict[_Wanted, Periodic] = {}
        self._started = False
        self._rdma_state: dict[str, Any] = {}
        self.rdma: RdmaTotals | None = None

    def follow(self, sources: Mapping[str, Witnessing], sysfs: str | None) -> None:
        """These are the sources now; `sysfs` is the root under which RDMA devices are looked for, None not to."""
        self._sources = sources
        configured = Counter(each.config and (each.config.name, each.config.paths) for each in sources.values())
        wanted: dict[_Wanted, Witnessing | None] = {}
        for name, source in sources.items():
            config = source.config
            alone = config is not None and configured[config.name, config.paths] == 1
            mine = list(_wanted(name, config)) if config and alone else []
            source.mailbox.asks_engine = any(each.kind == "engine" for each in mine)
            source.mailbox.seen_by = [each.kind for each in mine if each.kind in ("cache", "process")]
            wanted |= dict.fromkeys(mine, source)
        if sysfs:
            wanted[_Wanted("rdma", "", (sysfs,))] = None
        for each in self._running.keys() - wanted.keys():
            self._running.pop(each).stop()
        if not sysfs:
            self.rdma, self._rdma_state = None, {}
        for each, owner in wanted.items():
            if each not in self._running:
                self._running[each] = self._begin(each, owner.mailbox if owner else Mailbox())

    def start(self) -> None:
        """Begin to look."""
        self._started = True
        for each in self._running.values():
            each.start()

    def stop(self) -> None:
        """End all; those that hang end with the process."""
        if not self._started:
            return
        deadline = time.monotonic() + _STOP_SECONDS
        for each in self._running.values():
            each.stop()
        for each in self._running.values():
            each.join(max(0.0, deadline - time.monotonic()))

    def restore(self, state: dict[str, Any]) -> None:
        """What `frozen` gave before, if it gave something."""
        self._rdma_state = state

    def frozen(self) -> str | None:
        """The counters of this machine as JSON text; None without any."""
        return json.dumps(_state(self.rdma)) if self.rdma else None

    def samples(self) -> Iterator[Sample]:
        """Of this machine; those of an engine are among the samples of its source."""
        if self.rdma:
            yield from self.rdma.samples()

    def _begin(self, wanted: _Wanted, mailbox: Mailbox) -> Periodic:
        def publish(found: Finding) -> None:
            mailbox.put(found)
            self._found()

        thread = _BEGIN[wanted.kind](self, wanted, publish)
        if self._started:
            thread.start()
        return thread

    def _engine(self, wanted: _Wanted, publish: Callable[[Finding], None]) -> Periodic:
        url, token_file = wanted.settings
        engine = EngineMetrics(url or "", token_file)
        return Periodic(lambda: publish(engine.read()), self._fault, seconds=engine_metrics.POLL_SECONDS, close=engine.close)

    def _caches(self, wanted: _Wanted, publish: Callable[[Finding], None]) -> Periodic:
        watch = CacheWatch([each for each in wanted.settings if each], publish, lambda: thread.wake())  # noqa: PLW0108 - made below
        thread = Periodic(watch.look, self._fault, seconds=cache_watch.LOOK_SECONDS, least=cache_watch.LEAST_SECONDS, close=watch.close)
        return thread

    def _processes(self, wanted: _Wanted, publish: Callable[[Finding], None]) -> Periodic:
        scan = CompilerScan(wanted.settings[0] or "", publish)
        return Periodic(scan.look, self._fault, seconds=processes.LOOK_SECONDS)

    def _rdma(self, wanted: _Wanted, publish: Callable[[Finding], None]) -> Periodic:
        totals = RdmaTotals(wanted.settings[0] or "", self._tell_all)
        state = _state(self.rdma) if self.rdma else self._rdma_state
        try:
            Thawer().restore(totals, state)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self._fault(error)
            totals = RdmaTotals(totals.sysfs, self._tell_all)
        self.rdma = totals
        return Periodic(totals.look, self._fault, seconds=rdma.LOOK_SECONDS)

    def _tell_all(self, reading: RdmaReading) -> None:
        for source in self._sources.values():
            source.mailbox.put(reading)


_BEGIN = {"engine": Witnesses._engine, "cache": Witnesses._caches, "process": Witnesses._processes, "rdma": Witnesses._rdma}  # noqa: SLF001


def _state(totals: RdmaTotals) -> dict[str, Any]:
    with totals.lock:
        return Freezer(Digest()).state(totals)


def _wanted(name: str, config: SourceConfig) -> Iterator[_Wanted]:
    if config.engine_metrics_url:
        yield _Wanted("engine", name, (config.engine_metrics_url, config.engine_metrics_token_file))
    if roots := cache_layout.directories(config.jit_cache_home, config.jit_cache_dirs):
        yield _Wanted("cache", name, tuple(roots))
    if config.jit_proc_root:
        yield _Wanted("process", name, (config.jit_proc_root,))
