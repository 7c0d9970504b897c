"""The last hours of an engine as lanes of marks: where each goes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exporter.pages.lanes import BAD, GOOD, NEUTRAL, NOTE, Dot, Lane, Scale, Tick, Tone, worst_on_top

HOURS = 6
WIDTH, GUTTER, LANE_HEIGHT = 720, 96, 24
_SPAN_SECONDS = HOURS * 3600.0
_RIGHT = 24
_TICK_SECONDS = 3600
_GOOD_VERDICTS = {"proven"}
_CALM_VERDICTS = {"not_judged", "idle", "unproven"}

_LANES = {
    "life": {"engine_started", "container_started", "engine_ready", "engine_stopping", "warmup_failed"},
    "failures": {"engine_failure", "address_in_use", "uncaught_exception", "health_check_failed", "retracted"},
    "compiles": {"compiled", "compile_failed", "compiler_seen"},
    "KV transfer": {
        "kv_room_mixed_up", "kv_transfer_failure", "kv_room_failed", "kv_compatibility", "kv_peer_changed", "kv_params_refused", "kv_expired",
        "kv_late_read", "kv_recomputed", "kv_load_failed", "kv_load_skipped", "transport_error",
    },
    "verdict": {"verdict"},
    "hazards": {"hazard", "draft_mismatch"},
}  # fmt: skip
_TONES: dict[str, Tone] = {
    "engine_ready": GOOD, "engine_started": NEUTRAL, "container_started": NEUTRAL, "engine_stopping": NEUTRAL, "kv_peer_changed": NEUTRAL,
    "hazard": NOTE, "draft_mismatch": NOTE, "kv_expired": NOTE, "compiler_seen": NOTE, "transport_error": NOTE, "retracted": NOTE,
}  # fmt: skip


@dataclass(frozen=True)
class Timeline:
    """What is drawn of one engine."""

    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]


def timeline(events: Sequence[Mapping[str, Any]], now: float) -> Timeline | None:
    """Of events as the status has them; None when there was none in these hours. A replayed log's hours are those of its last line."""
    timed = [event for event in events if event["last_at"] is not None]
    if not timed:
        return None
    last = max(event["last_at"] for event in timed)
    end = now if 0 <= now - last <= _SPAN_SECONDS else last
    recent = [event for event in timed if event["last_at"] >= end - _SPAN_SECONDS]
    scale = Scale(GUTTER, WIDTH - _RIGHT, end - _SPAN_SECONDS, end)
    return Timeline(tuple(_lanes(recent, scale)), tuple(_ticks(scale)))


def _lanes(events: Sequence[Mapping[str, Any]], scale: Scale) -> Iterator[Lane]:
    for name, kinds in _LANES.items():
        if dots := worst_on_top(_dot(event, scale) for event in events if event["event"] in kinds):
            yield Lane(name, dots)


def _dot(event: Mapping[str, Any], scale: Scale) -> Dot:
    clock = time.strftime("%H:%M:%S", time.gmtime(event["last_at"]))
    times = f" ({event['count']:,} times)" if event["count"] > 1 else ""
    return Dot(scale.x(event["last_at"]), _tone(event), f"{words(event)}{times}, {clock}")


def _tone(event: Mapping[str, Any]) -> Tone:
    kind = event["event"]
    if kind == "verdict":
        return GOOD if event["verdict"] in _GOOD_VERDICTS else NEUTRAL if event["verdict"] in _CALM_VERDICTS else BAD
    if kind == "compiled":
        return BAD if event.get("phase") == "serving" else NEUTRAL
    if kind == "kv_compatibility":
        return GOOD if event.get("result") == "passed" else BAD
    return _TONES.get(kind, BAD)


def words(event: Mapping[str, Any]) -> str:
    """An event with what is known of it."""
    told = {key: value for key, value in event.items() if value and key not in ("event", "first_at", "last_at", "count")}
    more = [str(value) if key == event["event"] else f"{key}={value}" for key, value in told.items()]
    return " ".join([event["event"], *more])


def _ticks(scale: Scale) -> Iterator[Tick]:
    """Full hours."""
    at = scale.last - scale.last % _TICK_SECONDS
    while at > scale.first:
        yield Tick(scale.x(at), time.strftime("%H:%M", time.gmtime(at)))
        at -= _TICK_SECONDS
