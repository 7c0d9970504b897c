"""The logs that are measured: what `inferlog metrics` makes of them is what their generator says, to the last request."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import hostile
from bench.corpus import Corpus, engine_log, wrapped
from bench.throughput import PEER_SIGNALS, PROGRAMS
from bench.truth import Truth
from exporter.cli import main
from tests.conftest import tool

_BYTES = 2_000_000


def written(kind: str, folder: Path, size: int = _BYTES) -> Corpus:
    """A small log, and its truth."""
    name, wrap = kind.partition("-")[::2]
    blocks, truth = hostile.log(size) if name == "hostile" else engine_log(name, size, seed=7, starts=3)
    bare = Corpus(folder / "bare.log", truth)
    bare.path.write_bytes(b"".join(blocks))
    if not wrap:
        return bare
    (folder / "wrapped.log").write_bytes(b"".join(wrapped(bare, wrap)))
    return Corpus(folder / "wrapped.log", truth)


def exposition(log: Corpus) -> str:
    """What the command prints."""
    return CliRunner().invoke(main, ["metrics", str(log.path)], catch_exceptions=False).stdout


@pytest.mark.parametrize("kind", ["typical", "dense", "hostile", "typical-cri", "typical-docker", "dense-cri_in_parts", "dense-docker"])
def test_values_are_the_generators(kind: str, tmp_path: Path) -> None:
    """Counters, sums and gauges; bare and in each wrapping."""
    log = written(kind, tmp_path)
    assert log.truth.wrong(exposition(log)) == []


@pytest.mark.parametrize("kind", ["typical", "dense"])
def test_every_kind_of_record_is_in_a_log(kind: str, tmp_path: Path) -> None:
    """A truth of nothing but zeros would prove nothing."""
    values = written(kind, tmp_path).truth.values
    assert {selector for selector, value in values.items() if not value} <= {
        'jit_events_total{phase="startup"}',
        'requests_waiting{queue="deferred"}',
    }
    assert values["engine_starts_total"] >= 3
    assert 'prefix_cache_hit_ratio{cache="external"}' in values


def test_a_log_is_the_same_each_time() -> None:
    """Or a figure of today could not be compared with one of tomorrow."""
    assert b"".join(engine_log("dense", 300_000)[0]) == b"".join(engine_log("dense", 300_000)[0])
    assert b"".join(hostile.log(300_000)[0]) == b"".join(hostile.log(300_000)[0])


@pytest.mark.parametrize(
    "selector", ["kv_recomputed_requests_total", "kv_cache_size_tokens", 'http_responses_total{code="2xx"}', "log_lines_total"]
)
def test_a_value_that_is_off_by_one_is_told(selector: str, tmp_path: Path) -> None:
    """The check itself can fail."""
    log = written("dense", tmp_path, 300_000)
    printed = exposition(log)
    log.truth.values[selector] += 1
    assert [each.partition(": ")[0] for each in log.truth.wrong(printed)] == [selector]


def test_a_series_that_is_missing_is_told() -> None:
    """Nothing is not 0."""
    truth = Truth()
    truth.set("engine_ready", 1)
    assert truth.wrong("") == ["engine_ready: nothing instead of 1"]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", ["typical", "dense"])
def test_the_peer_reads_the_same_log_right(kind: str, program: str, tmp_path: Path) -> None:
    """A ratio to a program that counts wrongly would prove nothing."""
    mtail = tool("mtail", "mtail")
    log = written(kind, tmp_path)
    options = ("--one_shot", "--one_shot_format", "prometheus", "--address", "127.0.0.1", "--port", "0", "--log_dir", str(tmp_path))
    said = subprocess.run(
        [mtail, *options, "--progs", str(PROGRAMS[program]), "--logs", str(log.path)], capture_output=True, text=True, check=True
    ).stdout
    assert log.truth.wrong(said, "", PEER_SIGNALS) == []
    assert len(PEER_SIGNALS & log.truth.values.keys()) >= 15
