"""A whole log through `Log`: records of many lines, terminals, bars, torn and broken bytes, and what counts as unrecognised."""

import pytest

from parsers import Log
from parsers.events import (
    Compiled,
    EngineFailure,
    EngineSettings,
    EngineStarted,
    IntervalStats,
    KvCompatibility,
    KvTransferFailure,
    TransportError,
)
from parsers.lines import LINE_LIMIT
from parsers.returns import CarriageReturns
from tests.parsers.reading import DATA, HANDSHAKE_FAILED, JIT, KV_TRANSFER, LOGO, MISMATCH, SPEC, STATS, header, read, utc

TELLS_ONE = "Compiled(backend='triton', event='compile', kernel='_fwd_kernel_stage1', seconds=None, serving=True, raised=False)"
BAR = "Capturing CUDA graphs (FULL): 100%|██████████| 35/35 [00:00<00:00, 3322.78it/s]"


def _record(lines, *, level="ERROR", who="Worker_TP0 pid=452", where="base_worker.py:888", end="\n", time="07-14 03:15:03"):
    """A record as vLLM's formatter prints it: the header on each line, \\r before each line break but the last."""
    head = header(where, level=level, who=who, time=time)
    return "\r\n".join(head + line for line in lines) + end


TRACEBACK = ["Traceback (most recent call last):", '  File "base_worker.py", line 655, in _nixl_handshake', "    raise RuntimeError("]


# -- records of many lines ---------------------------------------------------------------------------------------------


def test_a_record_of_many_lines_is_told_once_with_what_continues_it():
    """The mismatch in the traceback of a failed handshake knows the failure that it belongs to."""
    reading = read(_record([HANDSHAKE_FAILED, *TRACEBACK, MISMATCH]))
    assert reading.events == [KvTransferFailure("nixl", "handshake_setup", None), KvCompatibility("nixl", "mismatch")]
    assert [head.parent for head in reading.heads] == [None, KvTransferFailure("nixl", "handshake_setup", None)]
    assert reading.log.levels["ERROR"] == 5


def test_records_of_four_ranks_that_mix_line_by_line_keep_their_parents():
    """Each process continues its own record."""
    whos = [f"Worker_TP{rank} pid={452 + rank}" for rank in range(4)]
    records = [_record([HANDSHAKE_FAILED, *TRACEBACK, MISMATCH], who=who).splitlines(keepends=True) for who in whos]
    reading = read("".join(line for lines in zip(*records, strict=True) for line in lines))
    mismatches = [head for event, head in reading.found if isinstance(event, KvCompatibility)]
    assert [head.origin.rank for head in mismatches] == ["TP0", "TP1", "TP2", "TP3"]
    assert [head.parent for head in mismatches] == [KvTransferFailure("nixl", "handshake_setup", None)] * 4
    assert reading.log.unrecognised["ERROR"] == 0


def test_the_failure_of_the_next_request_has_a_parent_of_its_own():
    """A request's record quotes the same mismatch; it is the child of that record."""
    request = (
        "NIXL transfer failure: handshake_failed | Context: {'failure_type': 'handshake_failed', 'request_id': 'cmpl-7', 'engine_id': 'b'}"
    )
    reading = read(
        _record([HANDSHAKE_FAILED, TRACEBACK[0], MISMATCH]) + _record([request, TRACEBACK[0], MISMATCH], where="base_worker.py:920")
    )
    parents = [head.parent for event, head in reading.found if isinstance(event, KvCompatibility)]
    assert parents == [KvTransferFailure("nixl", "handshake_setup", None), KvTransferFailure("nixl", "handshake", "cmpl-7")]


def test_a_record_whose_carriage_returns_were_stripped_is_still_one():
    """The same process, second and source line continue a warning or an error."""
    reading = read(_record([HANDSHAKE_FAILED, *TRACEBACK, MISMATCH]).replace("\r", ""))
    assert reading.kinds == ["KvTransferFailure", "KvCompatibility"]
    assert reading.heads[1].parent == KvTransferFailure("nixl", "handshake_setup", None)
    assert reading.log.unrecognised["ERROR"] == 0


def test_the_logo_is_read_from_within_its_record():
    """Version and model stand on the third and fourth of six lines."""
    lines = [
        "",
        "       █     █     █▄   ▄█",
        LOGO,
        "  █▄█▀ █     █     █     █  model   /models/Qwen3-32B",
        "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
        "",
    ]
    reading = read(_record(lines, level="INFO", who="APIServer pid=1", where="api_utils.py:345"))
    assert reading.kinds == ["EngineStarted", "EngineSettings"]
    assert reading.events == [EngineStarted("api_server", "0.26.0"), EngineSettings({"model_path": "Qwen3-32B"})]


def test_a_record_goes_on_over_the_end_of_a_block():
    """Reads end anywhere: the next line of a record is recognised in the next block."""
    first, second = _record(["text of a plugin", STATS], level="INFO", where="plugin.py:1").split("\n", 1)
    assert read(first + "\n", second).events == []


def test_a_further_line_of_a_record_is_no_record():
    """After a line that ends in \\r the same header continues it, whatever it says; another header does not."""
    assert read(_record(["text of a plugin", STATS], level="INFO", where="plugin.py:1")).events == []
    other = header("plugin.py:1") + "text of a plugin\r\n" + header() + STATS + "\n"
    assert read(other).kinds == ["IntervalStats"]


def test_a_further_line_is_none_whatever_blocks_came_before():
    """One CRLF line of a library long before does not change how records are read."""
    record = _record(["text of a plugin", STATS], level="INFO", where="plugin.py:1")
    assert (
        read("a line of a library\r\n", "a plain line\n", record).events
        == read("a line of a library\r\na plain line\n" + record).events
        == []
    )


def test_a_further_line_is_none_with_another_process_in_between():
    """Processes write into the same log: their lines stand between those of a record."""
    lines = _record(["text of a plugin", "more of it", STATS], level="INFO", where="plugin.py:1").splitlines(keepends=True)
    assert read(lines[0] + header("core.py:1", who="EngineCore pid=318") + "hello\n" + lines[1] + lines[2]).events == []


# -- terminals, bars, glue ---------------------------------------------------------------------------------------------


def _on_a_terminal(text: str) -> str:
    """What a terminal makes of a log: each line break gets a \\r."""
    return text.replace("\n", "\r\n")


def test_a_log_of_a_terminal_is_read_like_any_other():
    """Each line ends in \\r\\n and each line within a record in \\r\\r\\n."""
    text = (
        "a line of a library\n"
        + header() + STATS + "\n"
        + _record([HANDSHAKE_FAILED, *TRACEBACK, MISMATCH])
        + header("jit_monitor.py:79", level="WARNING") + JIT + "\n"
        + header() + STATS + "\n"
    )  # fmt: skip
    plain, terminal = read(text), read(_on_a_terminal(text))
    assert terminal.kinds == ["IntervalStats", "KvTransferFailure", "KvCompatibility", "Compiled", "IntervalStats"]
    assert terminal.found[2][1].parent == KvTransferFailure("nixl", "handshake_setup", None)
    assert terminal.told == plain.told
    assert terminal.log.unrecognised == plain.log.unrecognised


def test_a_terminal_that_begins_with_a_record_is_recognised():
    """Another header behind \\r\\n shows that line ends belong to the terminal, and the records behind it count."""
    seconds = ("07-14 03:12:10", "07-14 03:12:20", "07-14 03:12:30")
    text = header("a.py:1") + "hello\r\n" + "".join(f"{header(time=time)}{STATS}\r\n" for time in seconds)
    assert read(text).kinds == ["IntervalStats"] * 3


def test_a_further_line_on_a_terminal_is_no_record():
    """The mark of a record that goes on is the \\r that the terminal did not add."""
    text = "a line of a library\n" + _record(["text of a plugin", STATS, "end"], level="INFO", where="plugin.py:1")
    assert read(_on_a_terminal(text)).events == []


@pytest.mark.parametrize("redraws", [1, 50, 2000])
def test_a_bar_that_is_redrawn_hides_no_record(redraws):
    """tqdm draws over its own line with \\r; a record may follow on the same physical line."""
    bars = "".join(f"\r{BAR.replace('35/35', f'{n}/{redraws}')}" for n in range(redraws))
    text = "(Worker_TP0 pid=452) " + bars
    assert read(f"{text}\r{header()}{STATS}\n").kinds == ["IntervalStats"]
    assert read(f"{text}\n{header()}{STATS}\n").kinds == ["IntervalStats"]
    assert read(text.encode()[:40], text.encode()[40:], f"\r{header()}{STATS}\n").kinds == ["IntervalStats"]


@pytest.mark.parametrize(
    "before", [BAR, f"(Worker_TP0 pid=452) {BAR}", f"\r{BAR}", "shards:   0% 0/48 [00:00<?, ?it/s]", "x: 9/9 [01:02, 3.1s/it]"]
)
def test_a_record_behind_a_bar_without_line_break_counts(before):
    """The last drawing of a bar has no line end when the next record is written."""
    for head in (
        header(),
        "INFO 07-14 03:12:07 [loggers.py:310] ",
        "\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO 07-14 03:12:07 [loggers.py:310] ",
    ):
        assert read(before + head + STATS + "\n").kinds == ["IntervalStats"]


def test_three_records_on_one_line_are_three():
    """Line breaks get lost between processes: a full header right behind a record that has ended begins another."""
    engines = [STATS.replace("000", f"00{number}").replace("Running: 1", f"Running: {number}") for number in range(3)]
    reading = read("".join(header() + each for each in engines) + "\n")
    assert [(event.engine, event.running) for event in reading.events] == [("0", 0.0), ("1", 1.0), ("2", 2.0)]
    assert reading.log.levels["INFO"] == 3


@pytest.mark.parametrize(
    "first",
    [
        STATS,
        SPEC,
        "GPU KV cache size: 2,493,464 tokens, Maximum concurrency for 1,048,576 tokens per request: 2.38x",
        pytest.param(KV_TRANSFER),
        pytest.param(JIT),
        pytest.param(
            "Recovered from KV load failure: 2 request(s) rescheduled (808 tokens affected).",
        ),
    ],
    ids=["periodic line", "speculative decoding", "capacity", "KV transfer", "JIT monitor", "recovered loads"],
)
def test_a_record_behind_a_record_counts(first):
    """Whatever the first of two records on one line is, the second one is told."""
    reading = read(header(level="WARNING") + first + header() + STATS + "\n")
    assert len(reading.kinds) == 2
    assert reading.kinds[1] == "IntervalStats"


# -- broken bytes ------------------------------------------------------------------------------------------------------

GOOD = (header("jit_monitor.py:79", level="WARNING") + JIT + "\n").encode()


@pytest.mark.parametrize(
    "junk",
    [
        b"\0" * 4096,
        b"\0" * 4096 + b"\n",
        b"\xff\xfe\xfd\n",
        b"\xc3\n",
        b"\xf0\x9f\x92\n",
        bytes(range(256)) * 16 + b"\n",
        bytes(byte for byte in range(256) if byte != 10) + b"\n",
        b"\x1b[\n\x1b[31\n\x1b\n",
        b"\r\r\r\n\r\n\n\n",
        b"{" * 3000 + b"\n",
        b"[" * 3000 + b"\n",
        "\u2028\u2029\x85\x0b\x0c\n".encode(),
        b"(" * 9999 + b"\n",
    ],
)
def test_junk_before_a_line_does_not_spoil_it(junk):
    """NULs, invalid UTF-8, binary, escapes and brackets are lines of nobody; the good line behind them is told."""
    reading = read(junk, GOOD)
    assert reading.told == [TELLS_ONE]
    assert read(GOOD + junk + GOOD).told == [TELLS_ONE, TELLS_ONE]


def test_nuls_within_a_line_are_left_out():
    """The hole of a truncated file begins in the middle of a line."""
    assert read(GOOD[:60] + b"\0" * 999 + GOOD[60:]).told == [TELLS_ONE]


def test_a_mark_of_the_byte_order_is_no_text():
    """At the start of a file, and of each of several that were put behind each other."""
    mark = b"\xef\xbb\xbf"
    assert read(mark + GOOD, GOOD, mark + GOOD).told == [TELLS_ONE] * 3


@pytest.mark.parametrize("chunk", [1 << 12, 1 << 16, 1 << 18, 10 << 20])
def test_ten_megabytes_without_a_line_break_are_one_cut_line(chunk):
    """The lines behind them are read, and the long one is counted once."""
    data = b"x" * (10 << 20) + b"\n" + GOOD * 2
    reading = read(*(data[start : start + chunk] for start in range(0, len(data), chunk)))
    assert reading.told == [TELLS_ONE] * 2
    assert reading.counts["cut_lines_total"][""] == 1


@pytest.mark.parametrize(("chunks", "lines"), [((b"a line\n",), 1), ((b"x" * 70_000, b"x\n"), 1), ((), 0)], ids=["closed", "long", "empty"])
def test_physical_lines_are_counted_as_they_are(chunks, lines):
    """Neither the end of a log nor that of a cut line is a line of its own."""
    assert sum(read(*chunks).log.levels.values()) == lines


def test_a_line_is_read_up_to_its_limit():
    """What stands before 64 KiB counts; a record that would begin behind it does not."""
    long = header() + STATS + ", " + "x" * LINE_LIMIT
    reading = read(long + header() + STATS + "\n")
    assert reading.kinds == ["IntervalStats"]
    assert reading.counts["cut_lines_total"][""] == 1
    assert read(header() + STATS + "\n").counts["cut_lines_total"][""] == 0


def test_a_line_of_exactly_the_limit_is_whole():
    """64 KiB is the longest line that is not cut."""
    head = header("api_utils.py:273")
    assert read(head + "x" * (LINE_LIMIT - len(head)) + "\n").counts["cut_lines_total"][""] == 0
    assert read(head + "x" * (LINE_LIMIT - len(head) + 1) + "\n").counts["cut_lines_total"][""] == 1


def test_a_line_of_other_letters_is_cut_at_the_same_place_in_any_chunks():
    """The limit is one of characters: however the bytes arrive, the same line is cut and counted."""
    for letters, cut in ((40_000, 0), (70_000, 1), (150_000, 1)):
        data = "é".encode() * letters + b"\n"
        assert read(data).counts["cut_lines_total"][""] == read(data[:66_000], data[66_000:]).counts["cut_lines_total"][""] == cut


def test_a_record_behind_a_long_line_that_ends_in_a_carriage_return_counts():
    """However its bytes arrive."""
    chunks = [b"x" * 70_000, b"y\r" + GOOD[:40], GOOD[40:80], GOOD[80:]]
    assert read(*chunks).told == read(b"".join(chunks)).told == [TELLS_ONE]


def test_half_a_line_waits_for_its_other_half():
    """A line without line break is told when it ends, or when the log is closed, and once."""
    log = Log(2026)
    assert log.feed(GOOD[:70]) == []
    assert log.feed(GOOD[70:-1]) == []
    assert [repr(event) for event, _ in log.feed(b"\n")] == [TELLS_ONE]
    assert log.feed(GOOD[:-1]) == []
    assert [repr(event) for event, _ in log.close()] == [TELLS_ONE]
    assert log.close() == []


def test_half_a_line_at_the_end_is_no_event():
    """A line that was torn before its text was complete tells nothing."""
    assert read(GOOD[:90]).events == []


# -- warnings and errors that no rule knew ----------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["WARNING", "ERROR", "CRITICAL"])
def test_an_unknown_warning_counts(level):
    """By its level, once for each record."""
    lines = [header(f"a.py:{number}", level=level) + "Something new happened.\n" for number in range(3)]
    assert read("".join(lines)).log.unrecognised == {"WARNING": 0, "ERROR": 0, "CRITICAL": 0} | {level: 3}


@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
def test_an_unknown_line_of_no_concern_does_not_count(level):
    """Most lines of an engine mean nothing to us."""
    reading = read(header("a.py:1", level=level) + "Something new happened.\n")
    assert sum(reading.log.unrecognised.values()) == 0
    assert reading.log.levels[level] == 1


@pytest.mark.parametrize("carriage_return", ["\r", ""])
def test_the_lines_of_a_traceback_are_one_record(carriage_return):
    """A known record with a traceback leaves nothing unrecognised, an unknown one a single line."""
    unknown = _record(["Something new happened.", *TRACEBACK, "KeyError: 'x'"]).replace("\r", carriage_return)
    known = _record([HANDSHAKE_FAILED, *TRACEBACK, "zmq.error.Again: Resource temporarily unavailable"]).replace("\r", carriage_return)
    assert read(known).log.unrecognised["ERROR"] == 0
    assert read(unknown).log.unrecognised["ERROR"] == 1
    assert read(known + unknown.replace("888", "920")).log.unrecognised["ERROR"] == 1


def test_an_exception_that_a_record_quotes_is_told():
    """The reason of a death stands at the end of a traceback behind an unknown message."""
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.34 GiB."
    reading = read(_record(["WorkerProc hit an exception.", *TRACEBACK, oom]))
    assert reading.events == [EngineFailure("gpu_oom")]


def test_native_errors_of_a_transport_library_count_each():
    """They are known by their source file; other native errors are unrecognised."""
    line = "E1129 13:13:11.832085    2604 nixl_agent.cpp:1437] genNotif: remote agent was disconnected\n"
    reading = read(line * 2 + "(Worker_TP0 pid=4) " + line + "E1129 13:13:11.832085    2604 other.cpp:1] unknown\n")
    assert reading.events == [TransportError("nixl")] * 3
    assert reading.log.unrecognised["ERROR"] == 1


@pytest.mark.parametrize(("line", "level"), [
    ("ERROR:    Exception in ASGI application", "ERROR"),
    ("WARNING:  Something that uvicorn says", "WARNING"),
    ("W1129 13:13:11.832085    2604 nixl_agent.cpp:1437] retrying", "WARNING"),
    ("[2025-08-21 07:17:09,753] LMCache WARNING: slow", "WARNING"),
])  # fmt: skip
def test_alarms_of_servers_and_libraries_that_no_rule_knows_are_counted(line, level):
    """Each once, and nothing is made of them."""
    reading = read(f"{line}\n(Worker_TP0 pid=4) {line}\n")
    assert reading.events == []
    assert reading.log.unrecognised[level] == 2


# -- tracebacks that no logger printed --------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["", "(EngineCore pid=318) ", "\x1b[1;36m(EngineCore pid=318)\x1b[0;0m "])
@pytest.mark.parametrize(("name", "told"), [
    ("ValueError: wrong", ["UncaughtException()"]),
    ("vllm.v1.engine.exceptions.EngineDeadError: see above", ["UncaughtException()"]),
    ("AssertionError", ["UncaughtException()"]),
    ("KeyboardInterrupt", []),
    ("KeyboardInterrupt: terminated", []),
    ("SystemExit: 0", []),
    ("asyncio.exceptions.CancelledError", []),
])  # fmt: skip
def test_an_uncaught_traceback_is_told_by_its_last_line(who, name, told):
    """With the process prefix of older versions or bare; calm exits are none."""
    lines = ["Traceback (most recent call last):", '  File "/usr/bin/vllm", line 8, in <module>', "    sys.exit(main())", name, "done"]
    assert read("".join(f"{who}{line}\n" for line in lines)).told == told


def test_uncaught_tracebacks_of_two_processes_may_mix():
    """Each process has a traceback of its own."""
    lines = ["Traceback (most recent call last):", '  File "a.py", line 8, in <module>', "ValueError: wrong"]
    assert read("".join(f"(Worker_TP{rank} pid=45{rank}) {line}\n" for line in lines for rank in (0, 1))).kinds == ["UncaughtException"] * 2


def test_a_name_with_a_colon_is_no_exception_without_a_traceback():
    """Bare lines of libraries look like that."""
    assert read("ValueError: wrong\nNote: nothing\n").events == []


def test_an_uncaught_exception_that_is_known_tells_its_kind_too():
    """The kind of failure and that nobody caught it."""
    reading = read("Traceback (most recent call last):\n  File x\nRuntimeError: Engine core initialization failed. See root cause above.\n")
    assert reading.told == ["EngineFailure(kind='startup_failed')", "UncaughtException()"]


# -- real logs ---------------------------------------------------------------------------------------------------------


def test_a_real_crash_is_told_in_order():
    """vLLM 0.10.2: ready, traffic, a rank that hangs, out of memory, and each process that finds the engine dead."""
    reading = read((DATA / "crash-0.10.2.log").read_bytes())
    assert reading.kinds[:5] == ["EngineReady", "HttpResponses", "IntervalStats", "EngineFailure", "TransportError"]
    assert reading.kinds[5:] == ["EngineFailure"] * 4 + ["EngineStopping"] * 2 + ["HttpResponses"]
    assert [event.kind for event in reading.events if isinstance(event, EngineFailure)] == [
        "collective_timeout",
        "gpu_oom",
        "engine_dead",
        "engine_dead",
        "engine_dead",
    ]
    assert reading.responses == {"2xx": 1, "5xx": 1}


def test_a_real_decode_log_is_counted_rightly():
    """vLLM 0.26: one handshake that four ranks fail, a mismatch on one, and one compile told while serving."""
    reading = read((DATA / "decode-0.26.log").read_bytes())
    failures = [event.reason for event in reading.events if isinstance(event, KvTransferFailure)]
    assert sorted(failures) == ["handshake"] * 4 + ["handshake_setup"] * 5 + ["transfer"]
    assert [event.result for event in reading.events if isinstance(event, KvCompatibility)] == ["passed"] * 4 + ["mismatch"]
    assert [event.kernel for event in reading.events if isinstance(event, Compiled) and event.serving] == ["_fwd_grouped_kernel_stage1"]
    assert sum(isinstance(event, IntervalStats) for event in reading.events) == 8
    assert reading.log.unrecognised == {"WARNING": 0, "ERROR": 0, "CRITICAL": 0}
    assert reading.found[0][1].time == utc(2026, 7, 14, 3, 12, 7)


def test_a_header_that_was_torn_off_is_no_record():
    """Not even when the header itself is known from the line before."""
    line = header("loggers.py:271") + "Some text\n"
    log = Log(2026)
    log.feed((line + header("loggers.py:271").rstrip("] ") + "\n").encode())
    levels = log.streams[""].levels
    assert (levels["INFO"], levels["unknown"]) == (1, 1)


def test_of_a_bar_that_is_redrawn_its_begin_and_its_end_are_read():
    """What it drew between costs nothing; other bars and records on the same physical line stay, wherever they stand."""
    shards = [f"shards: {n:3d}%|{'#' * (n // 10)}| {n}/100 [00:00<?, ?it/s]" for n in range(101)]
    warmup = [f"warmup: {n:3d}%|{'#' * (n // 10)}| {n}/100 [00:00<?, ?it/s]" for n in range(51)]
    record = f"{header()}{STATS}"
    glued = f"{warmup[7]}{record}"
    parts, _ = CarriageReturns().split("\r".join([*shards, *warmup[:7], glued, *warmup[8:], record]))
    assert parts == [shards[0], shards[100], warmup[0], warmup[6], glued, warmup[8], warmup[50], record]
    assert CarriageReturns().split("\r".join(shards[:3])) == (shards[:3], False)
