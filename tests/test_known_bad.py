"""The data file of combinations that hurt, and how a log shows them."""

import pytest

from exporter.known_bad import combinations, matches
from exporter.source import Source

RAY = (
    "(APIServer pid=1) INFO 07-14 03:12:07 [api_utils.py:273] non-default args: {'model': '/models/DeepSeek-V4-Flash', "
    "'distributed_executor_backend': '%s'}\n"
    "(EngineCore pid=318) INFO 07-14 03:12:15 [core.py:116] Initializing a V1 LLM engine (v0.26.0) with config: model='/models/DeepSeek-V4-Flash'\n"
)
HANDSHAKE = (
    "(Worker pid=2) ERROR 07-14 03:15:19 [w.py:920] NIXL transfer failure: handshake_failed | Context: {'failure_type': 'handshake_failed', "
    "'request_id': 'r', 'remote_host': '%s', 'remote_port': 5600}\n"
)


def _hazards(log: str) -> float:
    source = Source("x", year=2026)
    source.feed(log.encode())
    values = {(s.family, s.labels): s.value for s in source.samples(None)}
    assert values.get(("config_hazard_active", ("known_bad_combination",)), 0) == min(
        1, values[("config_hazards_total", ("known_bad_combination",))]
    )
    list(source.samples(None))
    return values[("config_hazards_total", ("known_bad_combination",))]


def test_entries_are_complete() -> None:
    """Each entry says what it does and how sure that is, and its id is its own."""
    entries = combinations()
    assert len({entry.id for entry in entries}) == len(entries)
    assert all(entry.effect.endswith(".") and entry.confidence for entry in entries)
    assert all(entry.address.startswith("https://") or not entry.address for entry in entries)


@pytest.mark.parametrize(("executor", "times"), [("ray", 1), ("mp", 0)])
def test_ray_with_deepseek_v4_is_known_bad(executor: str, times: int) -> None:
    """The executor is in the argument line, and one process counts once however often it is scraped."""
    assert _hazards(RAY % executor) == times


@pytest.mark.parametrize(("host", "times"), [("127.0.0.1", 1), ("localhost", 1), ("10.0.0.7", 0)])
def test_failed_handshake_with_loopback_is_known_bad(host: str, times: int) -> None:
    """A peer at loopback with which no handshake ever succeeded is a side channel that was not set."""
    assert _hazards((RAY % "mp") + HANDSHAKE % host) == times


def test_conditions_that_a_log_cannot_show_never_hold() -> None:
    """An entry without settings is for reading only."""
    readable = {entry.id for entry in combinations() if not entry.settings}
    assert readable
    assert not readable & set(matches("vllm", {"version": "0.26.0", "model": "DeepSeek-V4-Flash", "executor": "mp"}))
