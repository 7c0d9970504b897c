"""What holds for any bytes: how they are cut changes nothing, nothing raises, and no damage makes more events than there are lines."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers.events import HttpResponses
from tests.conftest import DATA as REAL_LOGS
from tests.parsers.reading import DATA, HANDSHAKE_FAILED, JIT, KV_TRANSFER, LOGO, MISMATCH, SPEC, STATS, TAGGED, Reading, header, read

LOGS = {path.stem: path.read_bytes() for path in sorted(DATA.glob("*.log"))}
LOGS |= {f"sglang-{name}": (REAL_LOGS / "sglang-0.5.17" / f"rendered-{name}.log").read_bytes() for name in ("pd-decode", "failures")}

few = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=300, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def _comparable(reading: Reading):
    """All that must not depend on how the bytes came: events and heads in order, responses as sums."""
    found = [
        (repr(event), head.origin.who, head.level, head.time, head.where, repr(head.parent), head.wrapped_time)
        for event, head in reading.found
        if not isinstance(event, HttpResponses)
    ]
    return (
        found,
        reading.responses,
        reading.log.unrecognised,
        reading.log.rule_errors,
        reading.counts["cut_lines_total"][""],
        reading.log.runtime,
    )


WHOLE = {name: _comparable(read(data)) for name, data in LOGS.items()}


def _cut(data: bytes, places) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


# -- chunks ------------------------------------------------------------------------------------------------------------


def test_the_logs_have_something_to_tell():
    """Each of them has events of several kinds."""
    assert len(LOGS) == 7
    for name, (found, *_) in WHOLE.items():
        assert len({told.partition("(")[0] for told, *_ in found}) >= 5, name


@pytest.mark.parametrize("name", LOGS)
@few
@given(places=st.lists(st.integers(0, 1 << 17), max_size=12))
def test_a_log_tells_the_same_in_any_chunks(name, places):
    """Wherever the reads end."""
    assert _comparable(read(*_cut(LOGS[name], places))) == WHOLE[name]


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("size", [1, 7, 100, 4096])
def test_a_log_tells_the_same_in_chunks_of_one_size(name, size):
    """Down to single bytes."""
    data = LOGS[name]
    assert _comparable(read(*(data[start : start + size] for start in range(0, len(data), size)))) == WHOLE[name]


@pytest.mark.parametrize("name", LOGS)
def test_a_log_tells_the_same_line_by_line(name):
    """As it comes when it is followed while it is written."""
    assert _comparable(read(*LOGS[name].splitlines(keepends=True))) == WHOLE[name]


# -- damage ------------------------------------------------------------------------------------------------------------

WARNING = {"level": "WARNING", "who": "Worker_TP0 pid=452"}
LINES = [
    header() + STATS,
    header("metrics.py:120") + SPEC,
    header("metrics.py:103") + KV_TRANSFER,
    header("jit_monitor.py:135", **WARNING) + JIT,
    header("base_worker.py:888", **WARNING) + HANDSHAKE_FAILED,
    header("base_worker.py:888", **WARNING) + MISMATCH,
    header("api_utils.py:345") + LOGO,
    header("kv_cache_utils.py:2327") + "GPU KV cache size: 2,493,464 tokens",
    header("gpu_worker.py:560") + "Available KV cache memory: 58.36 GiB",
    header("core.py:720", level="ERROR", who="EngineCore pid=318") + "EngineCore encountered a fatal error.",
    header("scheduler.py:2813", **WARNING) + "Recovered from KV load failure: 1 request(s) rescheduled (4096 tokens affected).",
    header("base_worker.py:1989", **WARNING) + "Skipping KV post-processing for failed request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de",
    header("monitor.py:53") + "torch.compile took 52.44 s in total",
    "(APIServer pid=1) INFO:     Application startup complete.",
    '(APIServer pid=1) INFO:     10.42.3.17:41022 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "2026-07-14 03:14:54  [TileLang:tilelang.jit.kernel:INFO] (kernel.py:137): TileLang begins to compile kernel `hc_pre` with `out_idx=None`",
    "E1129 13:13:11.832085    2604 nixl_agent.cpp:1437] genNotif: remote agent was disconnected",
    TAGGED
    + "Decode batch, #running-req: 5, #token: 1234, token usage: 0.12, cuda graph: True, gen throughput (token/s): 200.00, #queue-req: 0",
    TAGGED + "Prefill batch, #new-seq: 1, #new-token: 9, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0",
    "[2026-08-03 02:00:00] The server is fired up and ready to roll!",
    TAGGED + "KV Cache is allocated. #tokens: 409600, KV size: 24.00 GB",
    TAGGED + "Decode transfer failed for request rank=0 decode_req.req.rid='9c1f' decode_req.req.bootstrap_room=7",
    '[2026-08-03 02:00:00] INFO:     10.244.3.1:41000 - "GET /health HTTP/1.1" 200 OK',
    "\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO 07-14 03:12:07 [loggers.py:123] " + STATS,
]
KINDS = [read(line + "\n").kinds for line in LINES]
PREFIXES = [
    "",
    header(),
    header("plugin.py:1"),
    TAGGED,
    "[2026-08-03T02:00:00.703Z] ",
    "(Worker_TP3 pid=455) ",
    "INFO:     ",
    "decode-0/",
    "2026-07-14T03:12:07.1Z stdout F ",
    "engine-1  | ",
    "\0",
    " ",
    "> ",
]
JOINTS = [b"\n", b"", b"\r", b"\r\n", b"\r\r\n", b" ", b"\x1b[0m"]

fragments = st.builds(
    lambda number, start, length, inserted, at, prefix, joint: (number, start, length, inserted, at, prefix, joint),
    st.integers(0, len(LINES) - 1),
    st.one_of(st.just(0), st.just(0), st.integers(0, 120)),
    st.one_of(st.just(9999), st.just(9999), st.integers(0, 300)),
    st.one_of(st.just(b""), st.just(b""), st.binary(max_size=6)),
    st.integers(0, 200),
    st.sampled_from(["", "", "", *PREFIXES]),
    st.sampled_from([b"\n", b"\n", b"\n", *JOINTS]),
)


def _responses_or_events(reading: Reading) -> Counter[str]:
    counts = Counter(kind for kind in reading.kinds if kind != "HttpResponses")
    counts["HttpResponses"] = reading.responses.total()
    return counts


def _within(told: Counter[str], budget: Counter[str]) -> bool:
    """Whether each piece of a line told one thing at most: what the whole line tells, or that it looks like a signal and cannot be read."""
    return told - Counter(Unread=told["Unread"]) <= budget and told.total() <= budget.total()


def test_each_line_tells_one_thing():
    """The budget of the properties below: one event a line."""
    assert [len(kinds) for kinds in KINDS] == [1] * len(LINES)


@many
@given(data=st.binary(max_size=400), places=st.lists(st.integers(0, 400), max_size=3))
def test_arbitrary_bytes_never_raise_and_tell_nothing(data, places):
    """Bytes of no engine are lines of nobody."""
    assert read(*_cut(data, places)).events == []


@many
@given(
    st.lists(st.one_of(st.sampled_from([*(line.encode() for line in LINES), *JOINTS, *(each.encode() for each in PREFIXES), b'{"log":"', b'{"message":"', b'","level":"ERROR"}', b"Traceback (most recent call last):\n", b"5it/s]"]), st.binary(max_size=9)), max_size=14),
    st.lists(st.integers(0, 4000), max_size=4),
)  # fmt: skip
def test_pieces_of_lines_in_any_mixture_never_raise(pieces, places):
    """Whatever stands before, behind and between them; each copy of a line is told once at most."""
    told = _responses_or_events(read(*_cut(b"".join(pieces), places)))
    copies = Counter(kind for piece in pieces for line, (kind,) in zip(LINES, KINDS, strict=True) if piece == line.encode())
    del told["UncaughtException"]
    assert _within(told, copies)


@many
@given(st.lists(fragments, max_size=12), st.lists(st.integers(0, 4000), max_size=4))
def test_damaged_lines_tell_no_more_than_whole_ones(parts, places):
    """Cut, glued, prefixed again, doubled and with bytes inserted: of each kind at most as many events as there are pieces of its line."""
    data, budget = b"", Counter()
    for number, start, length, inserted, at, prefix, joint in parts:
        line = LINES[number].encode()[start : start + length]
        data += prefix.encode() + line[:at] + inserted + line[at:] + joint
        budget[KINDS[number][0]] += 1 + inserted.count(b"\n") + inserted.count(b"\r")
    assert _within(_responses_or_events(read(*_cut(data, places))), budget)


@many
@given(st.lists(st.integers(0, len(LINES) - 1), max_size=30), st.lists(st.integers(0, 6000), max_size=6), st.data())
def test_events_come_in_the_order_of_their_lines(numbers, places, draw):
    """Also with the lines of nobody between them. Responses are told by block, so they have no order but for the first."""
    seconds = iter(range(1, 60))
    lines = []
    for number in numbers:
        lines.append(LINES[number].replace("07-14 03:12:07", f"07-14 03:12:{next(seconds):02}"))
        if draw.draw(st.booleans()):
            lines.append(
                draw.draw(
                    st.sampled_from(
                        ["a line of nobody", "", "(Worker_TP0 pid=452) 3/35 [00:00<00:00, 3it/s]", header("a.py:1") + "hello", "{}"]
                    )
                )
            )
    reading = read(*_cut("".join(f"{line}\n" for line in lines).encode(), places))
    expected = [kind for number in numbers for kind in KINDS[number] if kind != "HttpResponses"]
    assert [kind for kind in reading.kinds if kind != "HttpResponses"] == expected
    assert reading.responses.total() == sum(KINDS[number] == ["HttpResponses"] for number in numbers)
