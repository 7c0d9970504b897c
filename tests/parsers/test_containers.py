"""Several programs in one file: compose, kubectl, stern and syslog name the container on each line."""

import pytest

from parsers.log import CONTAINERS, Log
from tests.parsers.reading import STATS, TAGGED, header

YEAR = 2026
RECORD = header() + STATS
DECODE_BATCH = (
    "Decode batch, #running-req: 1, #token: 100, token usage: 0.01, cuda graph: True, gen throughput (token/s): 12.5, #queue-req: 0, "
)
PREFIXES = {
    "compose": ("prefill-1  | ", "decode-1   | "),
    "compose of old": ("prefill_1 | ", "decode_1 | "),
    "kubectl": ("[pod/prefill-0/engine] ", "[pod/decode-0/engine] "),
    "stern": ("prefill-0 engine ", "decode-0 engine "),
    "stern of all namespaces": ("llm prefill-0 engine ", "llm decode-0 engine "),
    "syslog": ("Jul 14 03:12:07 node-1 prefill[12]: ", "Jul 14 03:12:08 node-1 decode[13]: "),
}


def read(*lines: str, chunk: int = 0) -> tuple[dict[str, list[str]], Log]:
    """Kinds of events by container."""
    log, told = Log(YEAR), {}
    data = "".join(f"{line}\n" for line in lines).encode()
    for start in range(0, len(data), chunk or len(data)):
        for event, head in log.feed(data[start : start + (chunk or len(data))]):
            told.setdefault(head.container, []).append(type(event).__name__)
    return told, log


@pytest.mark.parametrize("chunk", [0, 1, 64, 300])
@pytest.mark.parametrize("prefixes", PREFIXES.values(), ids=PREFIXES)
def test_each_container_is_a_log_of_its_own(prefixes, chunk):
    """A vLLM and an SGLang engine, in whatever pieces the bytes come."""
    first, second = prefixes
    told, log = read(first + RECORD, second + TAGGED + DECODE_BATCH, first + RECORD, second + TAGGED + DECODE_BATCH, chunk=chunk)
    engines = {name: stream.runtime for name, stream in log.streams.items() if stream.runtime}
    assert sorted(engines.values()) == ["sglang", "vllm"]
    assert {engines[name]: kinds for name, kinds in told.items()} == {"vllm": ["IntervalStats"] * 2, "sglang": ["DecodeBatch"] * 2}


@pytest.mark.parametrize("prefix", [prefixes[0] for prefixes in PREFIXES.values()], ids=PREFIXES)
def test_a_line_without_a_header_belongs_to_its_container(prefix):
    """stern's prefix is two words: it is known from a line before, which had a header."""
    told, log = read(prefix + RECORD, prefix + "Triton autotuning for function fused_moe_kernel,", prefix + "finished after 1.24s,")
    assert list(told.values()) == [["IntervalStats", "Compiled", "CompileTook"]]
    assert set(log.streams) - set(told) == {""}


def test_two_words_are_no_container():
    """Only where a header follows."""
    told, log = read("decode-0 engine Triton autotuning for function fused_moe_kernel,", "pre-fill done", RECORD)
    assert told == {"": ["IntervalStats"]}
    assert list(log.streams) == [""]


def test_a_prefix_in_the_text_of_an_engine_names_no_container():
    """What a bare engine prints further may be a prompt with a table in it."""
    told, log = read(*[RECORD] * 20, f"password | {RECORD}", f"[pod/a/b] {RECORD}", RECORD)
    assert told == {"": ["IntervalStats"] * 23}
    assert list(log.streams) == [""]


@pytest.mark.parametrize("chunk", [0, 1, 500])
def test_a_torn_first_line_makes_no_bare_log(chunk):
    """A rotation may cut the prefix off; what follows is told apart all the same."""
    told, _ = read(RECORD, f"a-1  | {RECORD}", f"b-1  | {TAGGED}{DECODE_BATCH}", f"a-1  | {RECORD}", chunk=chunk)
    assert told == {"": ["IntervalStats"], "a-1": ["IntervalStats"] * 2, "b-1": ["DecodeBatch"]}


@pytest.mark.parametrize("chunk", [0, 1, 500])
def test_where_most_lines_have_a_prefix_it_is_one(chunk):
    """A log that began bare and goes on behind a viewer's prefix."""
    told, _ = read(*[RECORD] * 12, *[f"a-1  | {RECORD}"] * 12, chunk=chunk)
    assert len(told["a-1"]) == 10


@pytest.mark.parametrize("chunk", [0, 1, 1000])
def test_a_bare_line_between_wrapped_ones_names_none(chunk):
    """`Attaching to engine-1` stands above compose's log, and a tool's own message within."""
    told, log = read("Attaching to engine-1", f"engine-1  | {RECORD}", "some message", f"engine-1  | {RECORD}", chunk=chunk)
    assert told == {"engine-1": ["IntervalStats"] * 2}
    assert log.counts()["log_lines_total"]["unknown"] == 2
    assert log.counts()["log_lines_total"]["INFO"] == 2


def test_containers_are_bounded():
    """Of five hundred those that run no engine are forgotten, their lines stay counted."""
    lines = [f"c{number}-1  | something" for number in range(500)]
    told, log = read(*lines, f"engine-1  | {RECORD}", *lines, f"engine-1  | {RECORD}")
    assert told == {"engine-1": ["IntervalStats"] * 2}
    assert len(log.streams) <= CONTAINERS + 1
    assert log.counts()["log_lines_total"]["unknown"] == 1000


def test_no_engine_makes_place_for_another():
    """What is told apart is a state with counters: those of an engine stay, and further engines are lines of nobody."""
    told, log = read(*(f"e{number}-1  | {RECORD}" for number in range(200)))
    assert len(told) == CONTAINERS
    assert log.counts()["log_lines_total"] | {"INFO": 0, "unknown": 0} == dict.fromkeys(log.counts()["log_lines_total"], 0)
    assert log.counts()["log_lines_total"]["INFO"] == CONTAINERS
    assert log.counts()["log_lines_total"]["unknown"] == 200 - CONTAINERS
    assert log.counts()["unseparated_lines_total"] == {"": 200 - CONTAINERS}


def test_each_container_has_its_own_open_records():
    """The traceback of one is not ended by another's lines."""
    head = header("base_worker.py:888", level="ERROR", who="Worker_TP0 pid=452")
    told, _ = read(
        f"a-1  | {head}something that nobody knows\r",
        f"b-1  | {RECORD}",
        f"a-1  | {head}Traceback (most recent call last):\r",
        f"b-1  | {RECORD}",
        f"a-1  | {head}torch.OutOfMemoryError: CUDA out of memory. Tried",
    )
    assert told == {"a-1": ["EngineFailure"], "b-1": ["IntervalStats"] * 2}
