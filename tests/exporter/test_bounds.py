"""A log of somebody who means harm: ever new words where labels, ids and names come from. What is kept does not grow."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.counters import SERIES_LIMIT
from exporter.families import FAMILIES
from exporter.source import Source
from exporter.state import Freezer
from parsers.log import CONTAINERS
from parsers.rules import Scope, registry
from tests.parsers.reading import TAGGED

from .conftest import YEAR, Running, parsed, wait_for

Start = Callable[..., Running]

TRIED = 100_000
_WORD = re.compile(r"(?<=[=:' (_-])(?:[a-z][\w.-]{2,}|\d+)(?=[,'\s):]|$)", re.ASCII)
_NUMBER = re.compile(r"\d+")


def hostile(lines: int, *, runtime: str, first: int = 0) -> Iterator[str]:
    """Lines of all rules, each time with other numbers and words, processes and ranks."""
    samples = [(rule, sample) for rule in registry() if rule.runtime in {runtime, ""} for sample in rule.samples.values()]
    for number in range(first, first + lines):
        rule, sample = samples[number % len(samples)]
        mutation = number // len(samples) % 3
        if mutation == 1:
            sample = _NUMBER.sub(str(number), sample)
        elif mutation == 2:
            sample = _WORD.sub(f"w{number}", sample)
        tagged = runtime == "sglang" and Scope.RECORD in rule.scope
        second = number // 20 % 3600
        time = f"{second // 60 % 60:02}:{second % 60:02}"
        if tagged:
            yield TAGGED.replace("02:00:00", f"02:{time}").replace("TP0", f"DP{number} TP{number}") + sample + "\n"
        else:
            yield f"(Worker_TP{number} pid={number}) ERROR 07-14 03:{time} [w{number}.py:{number}] {sample}\n"


def series(source: Source) -> Counter[str]:
    """How many series each family has."""
    return Counter(sample.family for snapshot in source.snapshots(None) for sample in snapshot.samples)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["vllm", "sglang"])
def test_a_hundred_thousand_label_values_take_no_memory(run: Start, tmp_path: Path, runtime: str) -> None:
    """Neither does memory grow after the first quarter, nor do the state and the answer; scrapes go on."""
    log, state = tmp_path / "engine.log", tmp_path / "state.json"
    log.write_text("")
    daemon = run("--log", str(log), "--state-file", str(state)).wait_ready()
    figures = []
    for quarter in range(4):
        with log.open("a") as file:
            file.writelines(hostile(TRIED // 4, runtime=runtime, first=quarter * TRIED // 4))
        wait_for(lambda: daemon.value("inferlog_source_lag_bytes") == 0, "the quarter to be read", 50)
        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        figures.append((int(status.partition("VmRSS:")[2].split()[0]), state.stat().st_size, len(daemon.get()[1])))
    text = daemon.get()[1]
    families = Counter(name for name, _ in parsed(text))
    assert max(families.values()) <= SERIES_LIMIT
    assert 0 == daemon.value("inferlog_source_faults_total")
    memory, states, answers = zip(*figures, strict=True)
    assert memory[-1] < memory[0] + 8 * 1024, figures
    assert max(states) < 1 << 20, figures
    assert max(answers) < 1 << 20, figures


def test_series_beyond_the_limit_are_dropped_and_counted() -> None:
    """Of one family; the others go on."""
    source = Source("log", year=YEAR)
    for rank in range(3 * SERIES_LIMIT):
        who = f"Worker_TP{rank} pid={rank}"
        source.feed(f"({who}) INFO 07-14 03:12:15 [a.py:1] Available KV cache memory: 10.00 GiB\n".encode())
    counted = series(source)
    assert SERIES_LIMIT == counted["kv_cache_size_bytes"]
    dropped = {sample.family: sample.value for sample in source.own_samples()}["series_dropped_total"]
    assert dropped >= 2 * SERIES_LIMIT
    assert counted.keys() <= FAMILIES.keys()


def test_a_thousand_containers_are_not_a_thousand_engines() -> None:
    """The name in a prefix may be anybody's word."""
    source = Source("log", year=YEAR)
    for number in range(1000):
        source.feed(f"w{number}  | INFO 07-14 03:12:15 [a.py:1] vLLM server version 0.26.0, serving model m\n".encode())
    assert len(source.engines) <= CONTAINERS + 1
    assert len(source.snapshots(None)) <= CONTAINERS + 1


def test_a_hundred_thousand_requests_leave_no_ids_behind() -> None:
    """Those told twice are known for ten minutes, and so many at the most."""
    source = Source("log", year=YEAR)
    text = "Releasing expired KV blocks for request cmpl-{} which were retrieved by 0 decode worker(s) within 480 seconds."
    sizes = []
    for start in range(0, TRIED, TRIED // 4):
        lines = (
            f"(EngineCore pid=318) WARNING 07-14 03:12:15 [a.py:1] {text.format(number)}\n" for number in range(start, start + TRIED // 4)
        )
        source.feed("".join(lines).encode())
        sizes.append(len(json.dumps(Freezer(source.digest).state(source))))
    assert sizes[-1] < 1.1 * sizes[0]
