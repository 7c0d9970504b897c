"""A gateway before the engines: what it decided, what it put into requests, and what failed. It is no engine and has no verdict."""

from collections.abc import Callable, Iterator
from typing import Any

from exporter.counters import Counters, Digest, RequestSet, Sample
from exporter.pd_evidence import QUIET_SECONDS
from exporter.verdict import LEAST_FAILED_REQUESTS, LEAST_FAILED_SHARE, STATUSES
from parsers import gateway_events as events
from parsers.header import Head
from parsers.rules import Series, registry

GATEWAYS = frozenset({"aibrix", "llm-d", "sglang_router", "vllm_proxy"})
"""Runtimes that are no engines."""

_SERVER_ERROR = 500
_STEP_SECONDS = 60.0


def series_of(runtime: str) -> list[Series]:
    """The counters that a gateway of this kind can raise: none of an engine's."""
    return [series for rule in registry() if rule.runtime == runtime for series in rule.emits]


class Share:
    """How many of the last five minutes' requests went as they should, in steps of a minute."""

    STATE = ("steps",)

    def __init__(self) -> None:
        self.steps: dict[float, tuple[float, float]] = {}
        """By the minute's beginning, requests that went well and others."""

    def add(self, time: float | None, *, good: bool) -> None:
        """One more."""
        now = time or 0.0
        step = now - now % _STEP_SECONDS
        well, ill = self.steps.get(step, (0.0, 0.0))
        self.steps[step] = (well + good, ill + (not good))
        if len(self.steps) > QUIET_SECONDS / _STEP_SECONDS + 1:
            del self.steps[min(self.steps)]

    def recent(self, now: float | None) -> tuple[float, float]:
        """Both numbers as of the log's time `now`, None for its end."""
        recent = [counts for step, counts in self.steps.items() if now is None or now - step <= QUIET_SECONDS]
        return sum(well for well, _ in recent), sum(ill for _, ill in recent)


def _status(well: float, ill: float) -> str:
    """Failed at the same share of requests as transfers do; unknown when none came lately."""
    if not well + ill:
        return "unknown"
    return "fail" if not well or (ill >= LEAST_FAILED_REQUESTS and ill >= LEAST_FAILED_SHARE * (well + ill)) else "pass"


class Gateway:
    """Takes the events of a gateway. Request ids stay inside as hashes."""

    STATE = ("pairs_only", "pairs", "elsewhere", "params", "failed", "undecided")

    def __init__(self, counters: Counters, digest: Digest) -> None:
        self._counters = counters
        self.pairs_only = False
        """Whether every request goes to a pair, so that an answer tells of one."""
        self.pairs, self.params = Share(), Share()
        self.elsewhere = Share()
        """Requests that went to no pair, by design or not."""
        self.failed = RequestSet(digest)
        self.undecided = RequestSet(digest)
        """Requests that came and that no strategy has decided about yet."""

    def handlers(self) -> dict[type[object], Callable[[Any, Head], None]]:
        """By the type of event."""
        return {
            events.GatewayAsked: self._asked,
            events.GatewayRouted: lambda event, head: self._routed(event.route, event.request, head),
            events.GatewayForwarded: self._forwarded,
            events.GatewayMode: self._mode,
            events.GatewayKvParams: self._kv_params,
            events.GatewayPrefilled: self._prefilled,
            events.GatewayFailed: self._failed,
            events.GatewayAnswered: self._answered,
        }

    def _asked(self, event: events.GatewayAsked, head: Head) -> None:
        if event.request is not None:
            self.undecided.is_new(event.request, head.time)

    def _routed(self, route: str, request: str | None, head: Head) -> None:
        if request is not None:
            self.undecided.take(request)
        self._counters.add("gateway_pd_routes_total", route)
        (self.pairs if route == "pd" else self.elsewhere).add(head.time, good=route == "pd")

    def _forwarded(self, event: events.GatewayForwarded, head: Head) -> None:
        """AIBrix does not ask the strategy when only one pod is ready: that one does both, whatever its role."""
        if event.request is not None and self.undecided.take(event.request):
            self._routed("combined", None, head)

    def _mode(self, event: events.GatewayMode, head: Head) -> None:
        self.pairs_only = event.pd

    def _kv_params(self, event: events.GatewayKvParams, head: Head) -> None:
        self._counters.add("gateway_kv_params_total", event.result)
        self.params.add(head.time, good=event.result == "injected")

    def _prefilled(self, event: events.GatewayPrefilled, head: Head) -> None:
        if event.decided:
            self._routed("pd", event.request, head)
        if event.seconds is not None:
            self._counters.add("gateway_prefills_total")
            self._counters.add("gateway_prefill_seconds_total", by=event.seconds)

    def _failed(self, event: events.GatewayFailed, head: Head) -> None:
        if event.request is not None and not self.failed.is_new(event.request, head.time):
            return
        self._counters.add("gateway_failures_total", event.reason)
        if not event.survived:
            self._counters.add("gateway_pd_routes_total", "failed")
            self.pairs.add(head.time, good=False)

    def _answered(self, event: events.GatewayAnswered, head: Head) -> None:
        self._counters.add("http_responses_total", f"{event.code // 100}xx")
        if event.code >= _SERVER_ERROR:
            if event.request is not None:  # else nothing tells whether its failure was counted
                self._failed(events.GatewayFailed("other", event.request), head)
        elif self.pairs_only and event.generates and event.code < 300:  # noqa: PLR2004 - a success
            self._routed("pd", event.request, head)

    def checks(self, now: float | None, *, mixed: bool = False) -> dict[str, str]:
        """The evidence about pairs that only a gateway has, at the log's time `now`; with `mixed` not all need go to a pair."""
        well, ill = self.pairs.recent(now)
        astray = 0.0 if mixed else self.elsewhere.recent(now)[1]
        return {"pair_selected": _status(well, ill + astray), "params_injected": _status(*self.params.recent(now))}

    def samples(self, now: float | None, *, mixed: bool) -> Iterator[Sample]:
        """What a gateway shows besides its counters."""
        for check, status in self.checks(now, mixed=mixed).items():
            for each in STATUSES:
                yield Sample("pd_evidence", (check, each), each == status)
