"""The state of a source goes into JSON and back at any byte of any log, and nothing is different afterwards."""

import json
import random
from typing import Any

import pytest

from exporter import saved
from exporter.checkpoint import SCHEMA
from exporter.counters import Counters, Digest, Folds, RequestSet
from exporter.exposition import exposition
from exporter.source import Source
from exporter.state import Freezer, Thawer
from parsers.resume import ResumableLog
from parsers.rules import Rule, registry
from tests.conftest import DATA
from tests.test_goldens import LOGS, YEAR
from tests.test_wrappings import BARE_LOGS
from tests.wrappings import Wrap, cri_in_parts, docker_in_parts, stern, wrapped

RESTARTS = 12
OPEN_COMPILE = (
    b"2026-07-14 03:16:00  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:137): TileLang begins to compile kernel `k` with `out_idx=None`\n"
)
FILE = ""


def restarted(source: Source) -> tuple[Source, int]:
    """The source in a new process, and how many bytes of its file it must read again."""
    freezer = Freezer(source.digest)
    log = source.file(FILE)
    text = json.dumps([freezer.state(source), freezer.state(log)])
    state, log_state = json.loads(text)
    again, thawer = Source(source.name, year=YEAR), Thawer()
    thawer.restore(again, state)
    thawer.restore(again.file(FILE), log_state)
    return again, log.unfinished


def read_with_restarts(data: bytes, seed: int) -> Source:
    """Read bytes in odd pieces with a restart after each."""
    source, chance = Source("golden", year=YEAR), random.Random(seed)
    at = 0
    for end in [*sorted(chance.randrange(len(data) + 1) for _ in range(RESTARTS)), len(data)]:
        source.feed(data[at:end])
        source, unfinished = restarted(source)
        at = end - unfinished
    source.feed(data[at:])
    source.end_of_file()
    return source


def read_at_once(data: bytes) -> Source:
    """Read bytes without a restart."""
    source = Source("golden", year=YEAR)
    source.feed(data)
    source.end_of_file()
    return source


def told(source: Source) -> str:
    """All that a source shows."""
    return exposition(saved.snapshots(source))


def counted(source: Source) -> list[str]:
    """The counters that it shows."""
    return [line for line in told(source).splitlines() if "_total{" in line]


@pytest.mark.parametrize("name", LOGS)
def test_a_restart_at_any_byte_changes_nothing(name: str) -> None:
    """Half lines, open tracebacks, unfinished compiles, folds: all go on."""
    data = (DATA / f"{name}.log").read_bytes()
    assert told(read_at_once(data)) == told(read_with_restarts(data, seed=len(name)))


@pytest.mark.parametrize("wrap", [docker_in_parts, cri_in_parts, stern])
@pytest.mark.parametrize("name", BARE_LOGS[::4])
def test_a_restart_in_a_wrapped_log_changes_nothing(name: str, wrap: Wrap) -> None:
    """A runtime delivers a long line in parts, and a viewer names the container."""
    data = b"".join(wrapped((DATA / f"{name}.log").read_bytes(), wrap, YEAR))
    assert told(read_at_once(data)) == told(read_with_restarts(data, seed=len(name)))


def test_lines_between_the_parts_of_another_count_once() -> None:
    """Standard error speaks while a long line of standard output is not complete."""
    begin = b"2026-07-14T03:12:07.123456789Z stdout P INFO 07-14 03:14:20 [core.py:1] Graph captu\n"
    other = b"2026-07-14T03:12:07.123456789Z stderr F WARNING 07-14 03:14:20 [core.py:1] what nobody knows\n"
    later = other.replace(b"14:20", b"14:21")
    end = b"2026-07-14T03:12:07.123456789Z stdout F ring finished in 3 secs, took 0.5 GiB\n"
    source = Source("golden", year=YEAR)
    source.feed(begin + other + later[:40])
    source, unfinished = restarted(source)
    assert unfinished == len(begin + other) + 40
    source.feed((begin + other)[:20])  # and once more while it reads again
    source, unfinished = restarted(source)
    assert unfinished == 20
    source.feed(begin + other + later + end)

    series = {(each.family, *each.labels): each.value for each in source.samples(None)}
    assert series["startup_seconds", "graph_capture"] == 3
    assert series["unrecognised_lines_total", "WARNING"] == 2


def test_a_quote_goes_on_after_a_restart() -> None:
    """What a user wrote is no exception of the engine, wherever the reader was killed."""
    head = "(APIServer pid=1) WARNING 07-14 03:12:07 [hf.py:927] "
    lines = ("Chat template rejected the request: x", "Traceback (most recent call last):", "torch.OutOfMemoryError: CUDA out of memory. y")
    data = "\r\n".join(head + line for line in lines).encode() + b"\n"
    for seed in range(20):
        series = series_of(read_with_restarts(data, seed))
        assert series["engine_failures_total", "gpu_oom"] == series["unrecognised_lines_total", "WARNING"] == 0


def test_a_part_without_end_is_given_up() -> None:
    """A forged first part must not make every start read the whole file again."""
    log = ResumableLog(YEAR)
    log.feed(b"2026-07-14T03:12:07.123456789Z stdout P INFO\n")
    assert log.unfinished
    log.feed(b"INFO 07-14 03:14:20 [core.py:1] nothing\n" * 50_000)
    assert (log.unfinished, log.replay) == (0, 0)


# What a component has beside its state: its configuration, what a line needs only while it is read, and memory of what
# was read that only saves time.
NOT_STATE = {
    "Source": {"name", "labels", "_pair", "_warmup_grace", "_written", "_files", "engines", "patterns"},
    "EventClock": {"given", "_runtime_clock"},
    "Faults": {"_source", "_places"},
    "Engine": {
        "_faults", "digest", "pair", "_born", "_arrival", "_handlers", "_spec_counters", "_transfer_counters", "_response_counter",
    },
    "LifeCycle": {"_counters", "_digest"},
    "Gateway": {"_counters"},
    "JitLedger": {"_counters"},
    "JitIncidents": {"grace_seconds", "_counters", "_life"},
    "Probes": {"_counters"},
    "Counters": {"_families"},
    "Folds": {"_open"},
    "RequestSet": {"_seen", "_digest"},
    "PdEvidence": {"_digest", "changed", "witnessed", "_looked"},
    "ResumableLog": {"_written", "_replayed", "_left_to_replay", "_since_whole"},
    "Log": {"streams", "_written", "_past", "_patterns"},
    "Framing": {"parts", "_containers", "_pods"},
    "LogStream": {
        "_framing", "of_others", "unwrapped", "_records", "_exceptions", "_requests", "_found", "_responses", "_origins", "_heads",
        "_access_prefixes", "_wrapped_time", "_nesting", "_glued", "_tagged_records",
    },
    "LogClock": {"text"},
    "LineBuffer": {"returns", "_rest"},
    "SilentJit": {"_counters"},
    "EngineWindow": {"_counters", "_served", "_open", "_last", "_tried", "_recalled_at", "unanswered_since", "frozen_since"},
}  # fmt: skip
BY_A_PROPERTY = {
    "Counters": {"totals"},
    "Folds": {"joinable"},
    "RequestSet": {"recent"},
    "ResumableLog": {"replay"},
    "Source": {"known_engines"},
    "Log": {"known_streams", "known_past"},
}


def components(of: Any, found: list[Any] | None = None) -> list[Any]:
    """An object with a state, and those within it."""
    found = [] if found is None else found
    found.append(of)
    for each in vars(of).values():
        for part in each.values() if isinstance(each, dict) else [each]:
            if hasattr(type(part), "STATE") and not any(part is known for known in found):
                components(part, found)
    return found


def test_every_attribute_is_saved_or_known_to_need_none() -> None:
    """Who adds an attribute to a part of the state must decide."""
    source = Source("golden", year=YEAR)
    source.feed(b"(APIServer pid=1) INFO:     Application startup complete.\n")
    assert source.engines
    for each in [*components(source), *components(source.file(FILE))]:
        kind = type(each).__name__
        assert set(type(each).STATE) - BY_A_PROPERTY.get(kind, set()) == vars(each).keys() - NOT_STATE.get(kind, set()), kind


def test_what_a_user_wrote_is_not_in_the_state() -> None:
    """Request ids, half lines, parts, and what stands in the place of a source line."""
    canary = "canary-7f3a"
    lines = [
        f"(Worker_TP0 pid=1) ERROR 07-14 03:14:20 [{canary}.py:1] NIXL transfer failure: transfer_failed | Context: {{'request_id': '{canary}'}}",
        f"(Worker_TP0 pid=1) WARNING 07-14 03:14:20 [a.py:1] Skipping KV post-processing for failed request {canary}",
        f'{{"message": "Recovered", "level": "ERROR", "name": "{canary}"}}',
        f"ERROR 07-14 03:14:20 [{canary}.py:1] a record that goes on\r",
        f'I0617 17:09:33.100001       1 gateway.go:170] "processing request" requestID="{canary}"',
        f'E0617 17:10:06.201003       1 default.go:140] "prefill_request_failed" err="x" request_id="{canary}"',
        f"2026-07-14T03:12:07.123456789Z stdout P {canary}",
        f'E0617 17:10:09.201003       1 default.go:140] "{canary}" err=<\n\t{canary}\n > request_id="{canary}"',
        f'E0617 17:10:09.201003       1 default.go:140] "prefill_request_failed" err=<\n\thttp prefill request failed with status 500: {canary}',
    ]
    source = Source("golden", year=YEAR)
    source.feed("\n".join(lines).encode() + b"\nINFO 07-14 03:14:20 [a.py:1] Received request canary-7f3a: prompt")
    freezer = Freezer(source.digest)
    text = json.dumps([freezer.state(source), freezer.state(source.file(FILE))])

    assert series_of(source)["kv_transfer_failures_total", "nixl", "transfer"] == 1
    assert canary not in text


def series_of(source: Source) -> dict[tuple[str, ...], float]:
    """Every series' value."""
    return {(each.family, *each.labels): float(each.value) for each in source.samples(None)}


@pytest.mark.parametrize("rule", registry(), ids=lambda rule: rule.name)
def test_the_event_of_any_rule_can_be_saved(rule: Rule) -> None:
    """A record's event waits for its further lines."""
    for sample in rule.samples.values():
        source = Source("golden", year=YEAR)
        source.feed(f"(Worker_TP0 pid=1) ERROR 07-14 03:14:20 [a.py:1] {sample}\n".encode())
        again, _ = restarted(source)
        assert series_of(source) == series_of(again)


def test_a_state_of_an_earlier_version_is_still_read(pytestconfig: pytest.Config) -> None:
    """Counters must survive an upgrade. Who breaks this raises SCHEMA and writes a new file with --update-goldens."""
    kept = DATA / "state" / f"schema-{SCHEMA}.json"
    if pytestconfig.getoption("--update-goldens") and not kept.exists():
        source = Source("golden", year=YEAR)
        freezer = Freezer(source.digest)
        data = (DATA / "vllm-0.33" / "rendered-decode-nixl-hma.log").read_bytes()
        source.feed(data[: len(data) * 2 // 3] + OPEN_COMPILE)
        state = [freezer.state(source), freezer.state(source.file(FILE)), counted(source)]
        kept.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    state, log_state, series = json.loads(kept.read_text(encoding="utf-8"))
    source, thawer = Source("golden", year=YEAR), Thawer()
    thawer.restore(source, state)
    thawer.restore(source.file(FILE), log_state)
    assert series == counted(source)


def test_the_state_stays_small() -> None:
    """What can no longer fold or repeat is not saved."""
    folds, requests = Folds(), RequestSet(Digest())
    for number in range(4000):
        folds.join((f"k{number}",), "who", float(number))
        requests.is_new(f"r{number}", float(number))
    assert len(folds.joinable) == 61
    assert len(requests.recent) == 601


def test_ranks_that_lag_behind_go_on_after_a_restart() -> None:
    """One rank told of two facts, and the other one tells of the first."""
    folds, again = Folds(), Folds()
    first, second = (folds.join(("k",), "TP0", 0.0) for _ in range(2))
    first.counted = second.counted = True
    Thawer().restore(again, json.loads(json.dumps(Freezer(Digest()).state(folds))))
    assert [again.join(("k",), "TP1", 1.0).counted for _ in range(3)] == [True, True, False]


def test_counters_go_on_where_others_hold_them() -> None:
    """A handler keeps the dict of its family."""
    counters, again = Counters(), Counters()
    counters.add("spec_drafts_total", "0", "ngram", by=7)
    held = again.family("spec_drafts_total")
    Thawer().restore(again, json.loads(json.dumps(Freezer(Digest()).state(counters))))
    held["0", "ngram"] += 1
    assert [("spec_drafts_total", ("0", "ngram"), 8.0)] == list(again.samples())
