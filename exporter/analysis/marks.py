"""Which counters make a mark on a timeline when they rise, and in which words."""

from dataclasses import dataclass
from typing import NamedTuple

from exporter.families import FAMILIES
from exporter.pages.lanes import BAD, NEUTRAL, NOTE, Tone


class Place(NamedTuple):
    """Where in a log something stands: seconds since the epoch, and the number of the line."""

    time: float | None
    line: int


@dataclass(slots=True)
class Mark:
    """How far a series rose, and where it did so first and last."""

    count: float
    first: Place
    last: Place

    def rise(self, by: float, place: Place) -> None:
        """Once more."""
        self.count, self.last = self.count + by, place


class Words(NamedTuple):
    """How a rise is told: its kind, its tone and its text with the labels of the family in braces."""

    kind: str
    tone: Tone
    text: str


START, READY, PHASE, JIT, TRANSFER, FAILURE, VERDICT, CONFIG, LOAD, GATEWAY, STOP = KINDS = (
    "start", "ready", "phase", "jit", "transfer", "failure", "verdict", "configuration", "load", "gateway", "stop",
)  # fmt: skip

WORDS: dict[str, Words] = {
    "engine_starts_total": Words(START, NEUTRAL, "an engine process starts"),
    "engine_failures_total": Words(FAILURE, BAD, "failure: {kind}"),
    "config_hazards_total": Words(CONFIG, NOTE, "hazard: {kind}"),
    "jit_events_total": Words(JIT, NOTE, "{backend} {event} while {phase}"),
    "jit_incidents_total": Words(JIT, NEUTRAL, ""),
    "jit_failures_total": Words(JIT, BAD, "{backend} compile failed"),
    "kv_transfer_failures_total": Words(TRANSFER, BAD, "KV transfer failed: {connector} {reason}"),
    "kv_transfer_empty_intervals_total": Words(TRANSFER, NOTE, "interval without a KV transfer: {connector}"),
    "kv_compatibility_checks_total": Words(TRANSFER, NEUTRAL, "compatibility check: {result}"),
    "kv_expired_requests_total": Words(TRANSFER, NOTE, "request expired before decode fetched it"),
    "kv_reads_after_expiry_total": Words(TRANSFER, BAD, "blocks read after they had expired"),
    "kv_recomputed_requests_total": Words(TRANSFER, BAD, "prompt computed again after a failed KV load"),
    "kv_load_failed_requests_total": Words(TRANSFER, BAD, "request failed: its KV could not be loaded"),
    "transport_errors_total": Words(TRANSFER, NOTE, "{library} reports an error"),
    "requests_retracted_total": Words(LOAD, NOTE, "requests retracted: the KV pool is full"),
    "requests_preempted_total": Words(LOAD, NOTE, "requests preempted"),
    "requests_truncated_total": Words(LOAD, NOTE, "request cut to what the engine accepts"),
    "health_check_failures_total": Words(FAILURE, BAD, "the engine did not answer its own health check"),
    "gateway_pd_routes_total": Words(GATEWAY, NEUTRAL, "routed: {route}"),
    "gateway_kv_params_total": Words(GATEWAY, NEUTRAL, "transfer parameters: {result}"),
    "gateway_failures_total": Words(GATEWAY, BAD, "request failed in the gateway: {reason}"),
}

_UNWORTHY = {
    ("jit_events_total", "startup"), ("kv_compatibility_checks_total", "passed"), ("gateway_pd_routes_total", "pd"),
    ("gateway_pd_routes_total", "combined"), ("gateway_kv_params_total", "injected"),
}  # fmt: skip
"""Counted, but no news."""

_TONES: dict[tuple[str, str], Tone] = {
    ("kv_compatibility_checks_total", "mismatch"): BAD,
    ("kv_compatibility_checks_total", "undecodable"): BAD,
    ("gateway_pd_routes_total", "failed"): BAD,
    ("gateway_kv_params_total", "missing"): BAD,
    ("jit_events_total", "serving"): BAD,
}


def told(family: str, labels: tuple[str, ...]) -> Words | None:
    """The words for one series, None for what makes no entry."""
    words = WORDS[family]
    if not words.text or any((family, label) in _UNWORTHY for label in labels):
        return None
    tone = next((_TONES[family, label] for label in labels if (family, label) in _TONES), words.tone)
    return Words(words.kind, tone, words.text.format_map(dict(zip(FAMILIES[family].labels, labels, strict=True))))
