"""Several engines in one log are sub-sources, with a suffix to the source's name."""

import json
from collections.abc import Iterator

import pytest

from exporter.evidence.sightings import CompilerSighting
from exporter.exposition import SourceSnapshot
from exporter.source import Source
from parsers.log import CONTAINERS
from tests.exporter.conftest import POST, READY, YEAR, Node, line, logo, stats
from tests.exporter.engines import NOW
from tests.exporter.test_gateway import START as ROUTER
from tests.exporter.test_state import FILE, restarted

PREFILL, DECODE, PROXY = "prefill-1  | ", "decode-1   | ", "nginx-1    | "


def read(*lines: str) -> Source:
    """A source that has read these lines."""
    source = Source("compose", year=YEAR)
    source.feed("".join(f"{each}\n" for each in lines).encode())
    return source


def engines(source: Source, now: float | None = None) -> dict[str, tuple[str, float]]:
    """Version and number of starts by name of the sub-source."""
    found = {}
    for snapshot in source.snapshots(now):
        starts = [each.value for each in snapshot.samples if each.family == "engine_starts_total"]
        if starts:
            found[snapshot.common["source"]] = (snapshot.common["runtime"], *starts)
    return found


def total(snapshot: SourceSnapshot, family: str) -> float:
    """The sum of a family."""
    return sum(float(each.value) for each in snapshot.samples if each.family == family)


def test_two_engines_have_a_name_each() -> None:
    """The lines of the file are counted once, under the source's own."""
    source = read(PROXY + "ready", PREFILL + logo(), DECODE + logo(), DECODE + logo("0.33.0"), PREFILL + READY, DECODE + stats())
    assert engines(source) == {"compose/prefill-1": ("vllm", 1), "compose/decode-1": ("vllm", 2)}
    by_name = {each.common["source"]: each for each in source.snapshots(None)}
    assert list(by_name) == ["compose", "compose/prefill-1", "compose/decode-1"]
    assert [total(each, "log_lines_total") for each in by_name.values()] == [6, 0, 0]
    assert [total(each, "engine_ready") for each in by_name.values()] == [0, 1, 1]


def test_one_engine_beside_others_has_the_name_of_the_source() -> None:
    """A database or a proxy in the same file makes no difference."""
    source = read(PROXY + "ready", PREFILL + logo(), PROXY + "GET /", PREFILL + READY)
    assert engines(source) == {"compose": ("vllm", 1)}
    assert total(source.snapshots(None)[0], "log_lines_total") == 4


def test_a_name_that_was_shown_stays() -> None:
    """An engine that comes later gets a suffix."""
    source = read(PREFILL + logo())
    assert engines(source, now=0.0) == {"compose": ("vllm", 1)}
    source.feed(f"{DECODE}{logo()}\n".encode())
    assert engines(source, now=0.0) == {"compose": ("vllm", 1), "compose/decode-1": ("vllm", 1)}


def test_an_engine_that_names_no_container_stays_apart() -> None:
    """It spoke bare before the others came through a viewer."""
    source = Source("mixed", year=YEAR)
    source.feed(f"{logo()}\n".encode(), file="a")
    source.feed(f"{DECODE}{logo()}\n".encode(), file="b")
    assert engines(source) == {"mixed/bare": ("vllm", 1), "mixed/decode-1": ("vllm", 1)}


def test_files_of_one_source_share_their_containers() -> None:
    """Standard output and standard error of the same service are one engine."""
    source = Source("compose", year=YEAR)
    for file in ("out", "err"):
        source.feed(f"{PREFILL}{logo()}\n{DECODE}{logo()}\n".encode(), file=file)
    assert set(engines(source)) == {"compose/prefill-1", "compose/decode-1"}


def test_what_one_container_says_changes_no_other() -> None:
    """A start resets the gauges of its own engine only."""
    source = read(PREFILL + logo(), DECODE + logo(), PREFILL + stats(running=7), DECODE + logo("0.33.0"), DECODE + POST)
    by_name = {each.common["source"]: each for each in source.snapshots(None)}
    assert total(by_name["compose/prefill-1"], "requests_running") == 7
    assert total(by_name["compose/decode-1"], "http_responses_total") == 1
    assert total(by_name["compose/prefill-1"], "http_responses_total") == 0


def test_containers_outlive_a_restart() -> None:
    """With their names, their engines and their counters; what no engine said is counted, its container's name is not kept."""
    lines = [PROXY + "canary-word", "canary-word | x", PREFILL + logo(), DECODE + logo(), PREFILL + READY, DECODE + stats()]
    source = read(*lines)
    engines(source)
    again, unfinished = restarted(source)
    assert unfinished == 0
    for each in (source, again):
        each.feed(f"{DECODE}{logo('0.33.0')}\n{PREFILL}{stats()}\n".encode())
    assert sorted(told(source)) == sorted(told(again))
    assert engines(again) == {"compose/prefill-1": ("vllm", 1), "compose/decode-1": ("vllm", 2)}
    assert "canary-word" not in state(source)


def state(source: Source) -> str:
    """All that is saved."""
    from exporter.state import Freezer

    freezer = Freezer(source.digest)
    return json.dumps([freezer.state(source), freezer.state(source.file(FILE))])


def told(source: Source) -> Iterator[tuple[str, ...]]:
    """All series."""
    for snapshot in source.snapshots(None):
        for each in snapshot.samples:
            yield snapshot.common["source"], each.family, *each.labels, str(float(each.value))


@pytest.mark.parametrize("files", [1, 3])
def test_engines_are_bounded(files: int) -> None:
    """Whatever the files name."""
    source = Source("compose", year=YEAR)
    for file in range(files):
        source.feed("".join(f"f{file}-{number}  | {logo()}\n" for number in range(100)).encode(), file=str(file))
    assert CONTAINERS <= len(engines(source)) <= CONTAINERS + 1
    assert len(source.engines) <= CONTAINERS + 2


def test_unknown_containers_take_no_place_of_an_engine() -> None:
    """Lines of libraries make events where no engine was named yet."""
    noise = [f"c{number}-1  | Triton autotuning for function k," for number in range(300)]
    source = read(*noise, DECODE + logo(), DECODE + line("x"))
    assert engines(source) == {"compose": ("vllm", 1)}
    assert len(source.engines) <= CONTAINERS + 2


def test_a_name_that_was_shown_outlives_a_kill(node: Node) -> None:
    """It is saved before anybody sees it, also when nothing new was read."""
    log = node.folder / "compose.log"
    log.write_text(f"{PREFILL}{logo()}\n")
    daemon = node.start("sources: [{name: compose, path: compose.log}]")
    daemon._read_all()
    daemon._save()
    assert node.scrape()["compose", "engine_starts_total", ()] == 1
    node.kill()
    with log.open("a") as more:
        more.write(f"{DECODE}{logo()}\n")
    node.start("sources: [{name: compose, path: compose.log}]")
    assert node.scrape()["compose", "engine_starts_total", ()] == 1
    assert node.scrape()["compose/decode-1", "engine_starts_total", ()] == 1


@pytest.mark.parametrize("more", [[], [PREFILL + logo()]], ids=["one-engine", "two-engines"])
def test_a_gateway_is_no_engine_that_witnesses_could_mean(more: list[str]) -> None:
    """Beside one engine their word is about that one; which of two they mean cannot be told."""
    source = read("router-1  | " + ROUTER.format("PrefillDecode"), DECODE + logo(), *more)
    assert source.runtime == "sglang_router"
    source.witness([CompilerSighting(NOW)], ["process"])
    by_name = {each.common["source"]: each for each in source.snapshots(None)}
    assert total(by_name["compose/decode-1"], "jit_observed_total") == (not more)
