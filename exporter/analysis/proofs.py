"""What in a log stands for an alert: functions that give the evidence for it, and none where there is no reason to speak."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from exporter.analysis import bypass
from exporter.analysis.marks import WORDS, Mark, Place
from exporter.analysis.report import Evidence, PlaceInLog
from exporter.analysis.watch import ANSWERED_5XX, VerdictPeriod, Watch
from exporter.counters import Sample
from exporter.families import FAMILIES

_STARTS, _START_WINDOW_SECONDS = 3, 3600.0
_GATEWAY_REQUESTS, _GATEWAY_SHARE = 2, 0.05
_POOL_SHRANK = 0.95
_POOL_FULL, _POOL_FULL_SECONDS = 0.95, 600.0
_HEADROOM_BYTES = 1024**3
_ACCEPTANCE_SHARE, _ACCEPTANCE_SECONDS = 0.5, 300.0


def in_log(place: Place) -> PlaceInLog:
    """A place as the report has it."""
    return PlaceInLog(time=place.time, line=place.line)


def _of(mark: Mark, text: str) -> Evidence:
    return Evidence(text=text, count=mark.count, first=in_log(mark.first), last=in_log(mark.last))


def _marks(watch: Watch, family: str, keep: Callable[[tuple[str, ...]], bool]) -> Iterator[tuple[str, Mark]]:
    for (name, labels), mark in watch.marks.items():
        if name == family and keep(labels):
            text = WORDS[family].text.format_map(dict(zip(FAMILIES[family].labels, labels, strict=True)))
            yield text or f"{family} {' '.join(labels)}", mark


def rose(family: str, *wanted: str, least: float = 1, but: Collection[str] = ()) -> Callable[[Watch], list[Evidence]]:
    """A counter rose, of those with one of these labels, or with none of the others."""

    def keep(labels: tuple[str, ...]) -> bool:
        return (not wanted or any(label in wanted for label in labels)) and not any(label in but for label in labels)

    def look(watch: Watch) -> list[Evidence]:
        rows = list(_marks(watch, family, keep))
        return [_of(mark, text) for text, mark in rows] if sum(mark.count for _, mark in rows) >= least else []

    return look


def verdict(name: str, but: Collection[VerdictPeriod] = ()) -> Callable[[Watch], list[Evidence]]:
    """A P/D verdict held, `but` for some times."""

    def look(watch: Watch) -> list[Evidence]:
        found = []
        for period, end in watch.verdict_periods():
            if period.verdict == name and period not in but:
                checks = f", failing: {', '.join(period.failing)}" if period.failing else ""
                found.append(Evidence(text=f"P/D verdict {name}{checks}", count=1, first=in_log(period.since), last=in_log(end)))
        return found

    return look


def recomputed(watch: Watch) -> list[Evidence]:
    """The verdict, or the engine's own word."""
    return verdict("recomputing")(watch) + rose("kv_recomputed_requests_total")(watch)


def bypassed(watch: Watch) -> list[Evidence]:
    """In hindsight, where nothing tells that KV must come for each prompt."""
    return [
        Evidence(
            text="prompts computed here and no KV fetched, though before it came for all", count=1, first=in_log(since), last=in_log(end)
        )
        for since, end in bypass.stretches(watch)
    ]


def partly_computed(watch: Watch) -> list[Evidence]:
    """KV came for some prompts and not for others, but where that is how a bypass began or ended."""
    return verdict("partial", but=bypass.turns(watch))(watch)


def with_answers(look: Callable[[Watch], list[Evidence]]) -> Callable[[Watch], list[Evidence]]:
    """What it finds, and what clients saw of it: the answers of class 5xx, unless they began before."""

    def both(watch: Watch) -> list[Evidence]:
        found, errors = look(watch), watch.errors
        if found and errors and errors.first.line >= min(each.first.line for each in found):
            found.append(_of(errors, ANSWERED_5XX))
        return found

    return both


def unexplained(*felt: Callable[[Watch], list[Evidence]]) -> Callable[[Watch], list[Evidence]]:
    """Answers of class 5xx that none of these has as what clients saw of it."""

    def look(watch: Watch) -> list[Evidence]:
        errors = watch.errors
        if not errors or any(each.text == ANSWERED_5XX for cause in felt for each in cause(watch)):
            return []
        fine = f"{watch.answered.count:,.0f}" if watch.answered else "none"
        return [_of(errors, f"{ANSWERED_5XX} ({fine} answered 2xx), and no line that is known says why")]

    return look


def failed_requests(watch: Watch) -> list[Evidence]:
    """Transfers failed, and so did requests: clients got errors."""
    failed = rose("kv_load_failed_requests_total")(watch)
    return verdict("transport_failing")(watch) + failed if failed else []


def failed_transfers(watch: Watch) -> list[Evidence]:
    """The same while clients got their answers."""
    return [] if failed_requests(watch) else verdict("transport_failing")(watch)


def restarts(watch: Watch) -> list[Evidence]:
    """Three starts within an hour."""
    starts = [each for each in watch.timeline.entries if each.kind == "start"]
    for at in range(len(starts)):
        within = [each for each in starts[at:] if (each.first.time or 0.0) - (starts[at].first.time or 0.0) <= _START_WINDOW_SECONDS]
        count = sum(each.count for each in within)
        if count >= _STARTS:
            first, last = in_log(within[0].first), in_log(within[-1].last)
            return [Evidence(text="engine processes started within an hour", count=count, first=first, last=last)]
    return []


def gateway_share(family: str, *bad: str, but: str = "") -> Callable[[Watch], list[Evidence]]:
    """More of a gateway's requests than an accident went wrong."""

    def look(watch: Watch) -> list[Evidence]:
        found = rose(family, *bad, least=_GATEWAY_REQUESTS)(watch)
        total = sum(mark.count for _, mark in _marks(watch, family, lambda labels: but not in labels))
        return found if found and sum(each.count for each in found) > _GATEWAY_SHARE * total else []

    return look


def compiled_in_service(watch: Watch) -> list[Evidence]:
    """Kernels compiled behind the warm-up."""
    if not rose("jit_incidents_total", "service")(watch):
        return []
    return rose("jit_events_total", "serving")(watch) or rose("jit_incidents_total", "service")(watch)


def compiled_in_warmup(watch: Watch) -> list[Evidence]:
    """Kernels compiled within it, and only there."""
    if compiled_in_service(watch) or not rose("jit_incidents_total", "warmup_grace")(watch):
        return []
    return rose("jit_events_total", "serving")(watch)


def _gauges(samples: Iterable[Sample]) -> Mapping[str, dict[tuple[str, ...], float]]:
    values: dict[str, dict[tuple[str, ...], float]] = {}
    for family, labels, value in samples:
        values.setdefault(family, {})[labels] = value
    return values


def _at_the_end(watch: Watch, text: str) -> list[Evidence]:
    place = in_log(watch.ended or Place(None, 0))
    return [Evidence(text=text, count=1, first=place, last=place)]


def little_memory(watch: Watch) -> list[Evidence]:
    """Device memory that was left at the start."""
    free = [v for (_, part), v in _gauges(watch.engine.capacity.samples()).get("engine_memory_bytes", {}).items() if part == "free"]
    return (
        _at_the_end(watch, f"{min(free) / 1024**3:.2f} GiB of device memory free after the start")
        if free and min(free) < _HEADROOM_BYTES
        else []
    )


def pool_shrank(watch: Watch) -> list[Evidence]:
    """The pool beside that of the process before."""
    gauges = _gauges(watch.engine.capacity.samples())
    now, before = gauges.get("kv_cache_size_tokens", {}), gauges.get("kv_cache_size_previous_tokens", {})
    smaller = [key for key in now.keys() & before.keys() if now[key] < _POOL_SHRANK * before[key]]
    return [each for key in smaller for each in _at_the_end(watch, f"pool {key[1]}: {before[key]:,.0f} tokens before, {now[key]:,.0f} now")]


def pool_full(watch: Watch) -> list[Evidence]:
    """Full for ten minutes while requests wait."""
    points = watch.plots.points()
    waits = {point.time: point.mean for point in points.get("requests_waiting", [])}
    full: list[float] = []
    for point in points.get("kv_cache_usage_ratio", []):
        full = [*full, point.time] if point.mean > _POOL_FULL and waits.get(point.time, 0.0) > 0 else []
        if full and full[-1] - full[0] >= _POOL_FULL_SECONDS:
            first, last = (PlaceInLog(time=each, line=0) for each in (full[0], full[-1]))
            return [Evidence(text="KV pool over 95 % while requests wait", count=1, first=first, last=last)]
    return []


def acceptance_fell(watch: Watch) -> list[Evidence]:
    """Less than half of what it was in the log's first half, for five minutes at its end."""
    points = watch.plots.points().get("spec_acceptance_ratio", [])
    baseline = sorted(point.mean for point in points[: max(6, len(points) // 2)])
    if len(points) < 12 or not baseline:  # noqa: PLR2004 - too few to speak of a past
        return []
    usual = baseline[len(baseline) // 2]
    late = [point for point in points if points[-1].time - point.time <= _ACCEPTANCE_SECONDS]
    now = sum(point.mean for point in late) / len(late)
    if late[-1].time - late[0].time < _ACCEPTANCE_SECONDS / 2 or now >= _ACCEPTANCE_SHARE * usual:
        return []
    first, last = (PlaceInLog(time=each.time, line=0) for each in (late[0], late[-1]))
    return [Evidence(text=f"acceptance {now:.0%}, it was {usual:.0%}", count=1, first=first, last=last)]


def over_tcp(watch: Watch) -> list[Evidence]:
    """UCX says that nothing better than TCP reaches the peer."""
    transports = {labels[0] for labels in _gauges(watch.engine.capacity.samples()).get("kv_transport_info", {})}
    slow = "tcp" in transports and transports <= {"tcp", "self", "sysv", "posix", "cma"}
    return _at_the_end(watch, f"transports: {', '.join(sorted(transports))}") if slow else []


def cannot_see(watch: Watch) -> list[Evidence]:
    """Settings that keep the engine from saying what matters."""
    return rose("config_hazards_total", "log_level_too_high", "stats_disabled", "kv_telemetry_missing")(watch)
