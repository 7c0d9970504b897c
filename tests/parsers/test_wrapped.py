"""Records that are JSON objects, and what container runtimes and viewers put around a line."""

import json

import pytest

from parsers.events import HttpResponses, KvCacheSize, KvCompatibility, KvTransferFailure
from parsers.framing import PARTIAL_LIMIT, Framing
from parsers.lines import LINE_LIMIT
from tests.parsers.reading import DATA, HANDSHAKE_FAILED, LOGO, MISMATCH, STATS, header, read, utc

RECORD = header() + STATS
TRACEBACK = 'Traceback (most recent call last):\n  File "base_worker.py", line 655, in _nixl_handshake\n    raise RuntimeError('


def _json(message, **keys):
    """A record of the engine's own JSON formatter; a key given as None is left out."""
    record = {
        "asctime": "2026-07-14 03:14:20,000",
        "levelname": "INFO",
        "name": "vllm.v1.metrics.loggers",
        "processName": "MainProcess",
        "process": 1,
        "message": message,
        "vllm_process_name": "APIServer",
    }
    return json.dumps({key: value for key, value in (record | keys).items() if value is not None}) + "\n"


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_a_json_record_has_the_head_of_a_text_record():
    """Process, rank, level, time and logger come from the formatter's keys."""
    reading = read(_json(STATS, levelname="WARNING", vllm_process_name="Worker_DP1_TP3", process=455))
    head = reading.heads[0]
    assert reading.kinds == ["IntervalStats"]
    assert (head.origin.process, head.origin.rank, head.origin.dp_rank) == ("Worker_DP1_TP3", "DP1_TP3", "1")
    assert (head.origin.who, head.level, head.time, head.where) == (
        "Worker_DP1_TP3 pid=455", "WARNING", utc(2026, 7, 14, 3, 14, 20), "vllm.v1.metrics.loggers",
    )  # fmt: skip
    assert reading.log.levels["WARNING"] == 1


@pytest.mark.parametrize(
    "line",
    [
        {"message": STATS, "levelname": "INFO", "asctime": "2026-07-14 03:14:20"},
        {"msg": STATS, "level": "info", "ts": "2026-07-14T03:14:20Z"},
        {"message": STATS, "severity": "INFO", "timestamp": "2026-07-14T05:14:20+02:00"},
        {"time": "2026-07-14 03:14:20,000", "level": "Info", "logger": "vllm", "msg": STATS},
    ],
)
def test_the_keys_of_a_users_configuration_are_understood(line):
    """Message, level and time under their usual names, in any order and case."""
    reading = read(json.dumps(line) + "\n", json.dumps(line, separators=(",", ":")) + "\n")
    assert reading.kinds == ["IntervalStats"] * 2
    assert [(head.level, head.time) for head in reading.heads] == [("INFO", utc(2026, 7, 14, 3, 14, 20))] * 2


@pytest.mark.parametrize(("text", "level"), [("WARN", "WARNING"), ("fatal", "CRITICAL"), ("error", "ERROR")])
def test_other_names_of_levels_are_understood(text, level):
    """WARN and FATAL are levels too, and unknown records of them count."""
    assert read(_json("Something new", levelname=text)).log.unrecognised[level] == 1


def test_an_unknown_level_is_unknown():
    """A level of somebody's own is counted apart."""
    assert read(_json(STATS, levelname="NOTICE")).log.levels["unknown"] >= 1


def test_the_traceback_of_a_json_record_continues_it():
    """`exc_info` holds the whole traceback, whose last line tells the mismatch."""
    reading = read(_json(HANDSHAKE_FAILED, levelname="ERROR", exc_info=f"{TRACEBACK}\n{MISMATCH}", vllm_process_name="Worker_TP0"))
    failure = KvTransferFailure("nixl", "handshake_setup", None)
    assert reading.events == [failure, KvCompatibility("nixl", "mismatch")]
    assert reading.heads[1].parent == failure
    assert reading.log.unrecognised["ERROR"] == 0


ACCESS = '10.42.3.17:41022 - "POST /v1/completions HTTP/1.1" 200'
NAMES = [
    {"name": None},
    {"name": None, "logger_name": "uvicorn.access"},
    {"name": None, "logger": "uvicorn.error"},
    {"name": None, "filename": "httptools_impl.py"},
]


@pytest.mark.parametrize("names", NAMES)
def test_the_server_is_known_by_its_words_where_a_record_has_no_logger(names):
    """A dictConfig prints the keys that its author chose."""
    reading = read(
        "".join(_json(each, **names) for each in (ACCESS, "Application startup complete.", "Shutting down", "Finished server process [1]"))
    )
    assert sum(event.counts["2xx"] for event in reading.events if isinstance(event, HttpResponses)) == 1
    assert [kind for kind in reading.kinds if kind != "HttpResponses"] == ["EngineReady", "EngineStopping", "EngineStopping"]


def test_a_record_of_the_engine_is_no_access_line():
    """Its logger's name says so, and without one a text before the request does."""
    for record in (_json(ACCESS), _json(f"Received {ACCESS}", name=None), _json(f'"{ACCESS}', name=None)):
        assert read(record).events == []


@pytest.mark.parametrize("key", ["exc_info", "exc_text", "stack_trace", "exception"])
def test_a_traceback_has_several_keys(key):
    """Those of logging, of formatters for cloud logging and of structlog."""
    reading = read(_json(HANDSHAKE_FAILED, levelname="ERROR", **{key: f"{TRACEBACK}\n{MISMATCH}"}))
    assert reading.kinds == ["KvTransferFailure", "KvCompatibility"]


def test_json_records_of_one_second_are_records_each():
    """An object is a record of its own: the same process and logger in the same second continue nothing."""
    line = _json("Something new", levelname="ERROR")
    assert read(line * 3).log.unrecognised["ERROR"] == 3


def test_the_logo_is_read_from_within_a_json_message():
    """Six lines in one message."""
    reading = read(_json(f"\n       █     █\n{LOGO}\n  █▄█▀ █     █     █     █  model   /models/m\n", name="vllm.entrypoints.api_utils"))
    assert reading.kinds == ["EngineStarted", "EngineSettings"]


def test_the_further_lines_of_a_json_message_are_no_records():
    """Only its first line can be one."""
    assert read(_json(f"text\n{STATS}")).events == []
    assert read(_json(f"text\n{RECORD}")).events == []
    assert read(_json(f"{STATS}\n{STATS}")).kinds == ["IntervalStats"]


@pytest.mark.parametrize(
    "message", ['10.42.3.17:41022 - "POST /v1/chat/completions HTTP/1.1" 200', ' - "POST /v1/chat/completions HTTP/1.1" 200']
)
def test_access_lines_are_json_too(message):
    """With a client, or from a Unix socket without."""
    reading = read(
        _json(message, name="uvicorn.access") * 2 + _json(message.replace("/v1/chat/completions", "/health"), name="uvicorn.access")
    )
    assert reading.responses == {"2xx": 2}


def test_readiness_is_json_too():
    """uvicorn's other logger."""
    assert read(_json("Application startup complete.", name="uvicorn.error")).kinds == ["EngineReady"]


def test_json_and_plain_lines_may_mix():
    """Bars, print and native libraries stay plain text."""
    bare = "Triton autotuning for function fused_moe_kernel,\nwith key as (2048,),\nfinished after 1.24s,\n"
    assert read(_json(STATS) + bare + RECORD + "\n" + _json(STATS)).kinds == [
        "IntervalStats",
        "Compiled",
        "CompileTook",
        "IntervalStats",
        "IntervalStats",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "{",
        "{'message': 'x', 'level': 'INFO'}",
        '{"message": "x"}',
        '{"level": "ERROR"}',
        '{"message": 5, "level": "ERROR"}',
        '{"message": "x", "level": 40}',
        '{"message": null, "level": null}',
        '{"message": "x", "level": "ERROR"',
        '{"message": "x", "level": "ERROR"} trailing',
        '{"a":' * 20_000 + "1" + "}" * 20_000,
        '{"a": ' + "[" * 60_000,
        '{"process": ' + "9" * 5000 + ', "message": "x", "level": "ERROR"}',
        '{"message": "\\ud800", "level": "INFO"}',
        '{"message": NaN, "level": Infinity}',
    ],
    ids=range(15),
)
def test_braces_are_not_always_a_record(line):
    """What is no JSON object with a message and a level is a line of nobody."""
    reading = read(line + "\n", RECORD + "\n")
    assert reading.kinds == ["IntervalStats"]
    assert sum(reading.log.unrecognised.values()) == 0


def test_a_real_json_log_behind_a_runtime_is_counted_rightly():
    """vLLM 0.32 with a configuration of the user through CRI: capacity, three periodic lines, an orderly end."""
    reading = read((DATA / "json-cri-0.32.log").read_bytes())
    assert [event for event in reading.events if isinstance(event, KvCacheSize)] == [KvCacheSize("device", 4_194_304.0, 2048.0, 2048.0)]
    assert reading.kinds.count("IntervalStats") == 3
    assert reading.kinds.count("EngineStopping") == 2
    assert all(head.wrapped_time for event, head in reading.found if type(event).__name__ == "IntervalStats")


# -- container runtimes ------------------------------------------------------------------------------------------------

TIME = "2026-07-14T03:12:07.123456789Z"


def _cri(text, tag="F", stream="stdout", time=TIME):
    return f"{time} {stream} {tag} {text}\n"


def _docker(text, stream="stdout", end="\n"):
    return json.dumps({"log": text + end, "stream": stream, "time": TIME}, separators=(",", ":")) + "\n"


@pytest.mark.parametrize(
    ("line", "time"),
    [
        (_cri(RECORD), TIME),
        (_cri(RECORD, time="2026-07-14T11:12:07.1+08:00"), "2026-07-14T11:12:07.1+08:00"),
        (_cri(RECORD, stream="stderr", time="2026-07-14T03:12:07Z"), "2026-07-14T03:12:07Z"),
        (_cri(RECORD, tag="F:x"), TIME),
        (_docker(RECORD), TIME),
        (json.dumps({"log": RECORD + "\n", "stream": "stderr", "time": TIME}) + "\n", TIME),
        (json.dumps({"log": RECORD + "\n", "stream": "stderr", "attrs": {"tag": "x"}, "time": TIME}) + "\n", TIME),
        (f"engine-1  | {RECORD}\n", None),
        (f"decode_0.a-1 | {RECORD}\n", None),
        (f"engine-1  | {_cri(RECORD)}", TIME),
        (_cri(_json(STATS).rstrip()), TIME),
        (_cri("\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO 07-14 03:12:07 [loggers.py:310] " + STATS), TIME),
    ],
    ids=[
        "CRI",
        "CRI with zone",
        "CRI of stderr",
        "CRI with a further tag",
        "docker",
        "docker, written again",
        "docker, written again with attributes",
        "compose",
        "compose, short",
        "CRI in compose",
        "JSON in CRI",
        "colour in CRI",
    ],
)
def test_a_wrapped_line_is_read_like_a_bare_one(line, time):
    """The wrapping comes off, and its time goes with the event."""
    reading = read(line)
    assert reading.kinds == ["IntervalStats"]
    assert reading.heads[0].wrapped_time == time
    assert reading.heads[0].level == "INFO"


@pytest.mark.parametrize(
    "text", ["GPU KV cache size: 2,493,464 tokens", "Application startup complete.", "Available KV cache memory: 18.08 GiB"]
)
@pytest.mark.parametrize(
    "wrap", [lambda text: text + "\n", _cri, _docker, lambda text: f"engine-1  | {text}\n"], ids=["bare", "CRI", "docker", "compose"]
)
def test_a_bare_line_is_told_in_any_wrapping(wrap, text):
    """Lines without any header stand at the beginning of what the runtime wrapped."""
    assert len(read(wrap(text)).events) == 1
    assert read(wrap("x " + text)).events == []


@pytest.mark.parametrize("cut", [1, 5, 40, 60, 200])
def test_the_parts_of_a_long_line_are_joined(cut):
    """CRI cuts at 16 KiB, docker too: parts of stdout and of stderr come between each other."""
    other = (
        header("jit.py:1", who="Worker_TP0 pid=4")
        + "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.2 s"
    )
    cri = (
        _cri(RECORD[:cut], "P")
        + _cri(other[:30], "P", "stderr")
        + _cri(RECORD[cut:210], "P")
        + _cri(other[30:], "F", "stderr")
        + _cri(RECORD[210:], "F")
    )
    docker = _docker(RECORD[:cut], end="") + _docker(other[:30], "stderr", end="") + _docker(other[30:], "stderr") + _docker(RECORD[cut:])
    for text in (cri, docker):
        reading = read(text)
        assert reading.kinds == ["CompileCache", "IntervalStats"]
        assert sum(reading.log.levels[level] for level in ("INFO", "WARNING")) == 2


def test_a_whole_line_of_the_other_stream_does_not_end_a_part():
    """The parts of one stream belong together."""
    assert read(_cri(RECORD[:50], "P") + _cri("a line of stderr", "F", "stderr") + _cri(RECORD[50:])).kinds == ["IntervalStats"]


def test_a_line_in_parts_that_never_ends_stays_bounded():
    """What is longer than the limit is cut, the line behind it is read."""
    parts = _cri(RECORD + " " + "x" * 16_000, "P") + _cri("y" * 16_000, "P") * (PARTIAL_LIMIT // 8_000)
    framing = Framing()
    for line in parts.splitlines():
        framing.unwrap(line)
    assert max(map(len, framing.parts.values())) <= PARTIAL_LIMIT
    assert read(parts + _cri("end") + _cri(RECORD)).kinds == ["IntervalStats"] * 2


@pytest.mark.parametrize("before", ["", _cri(RECORD) * 10])
@pytest.mark.parametrize(("longer", "cut"), [(0, 0), (1, 1)])
def test_a_line_in_parts_is_cut_where_a_whole_one_is(before, longer, cut):
    """Whether or not the file is known to be wrapped by then."""
    text = RECORD + "x" * (LINE_LIMIT - len(RECORD) + longer)
    parts = "".join(_cri(text[at : at + 16_384], "P") for at in range(0, len(text), 16_384)) + _cri("")
    reading = read(*([before] if before else []), parts)
    assert reading.counts["cut_lines_total"][""] == cut
    assert read(text + "\n").counts["cut_lines_total"][""] == cut


@pytest.mark.parametrize(
    "line",
    [
        '{"log":"x\\n","stream":"stdout"}',
        '{"log":5,"stream":"stdout","time":"x"}',
        '{"log":"x',
        '{"log":"' + "[" * 5000,
        "2026-07-14 03:12:07 stdout F text",
        "| text",
        "-x | text",
    ],
)
def test_what_is_no_wrapping_stays(line):
    """Half a wrapping is a line like any other."""
    assert Framing().unwrap(line) is None


@pytest.mark.parametrize("tag", ["stdout X", "stdin F", "stdout"])
def test_no_record_stands_behind_half_a_wrapping_of_cri(tag):
    """The time comes off, and what is left begins with a word of nobody."""
    assert read(f"{TIME} {tag} {RECORD}\n").events == []


def test_a_wrapping_in_a_wrapping_in_a_wrapping_is_text():
    """Nobody wraps more than twice: the depth is bounded."""
    assert read("a-1 | " * 500 + RECORD + "\n").events == []
    assert read("a-1 | " * 2 + RECORD + "\n").kinds == ["IntervalStats"]


@pytest.mark.parametrize(
    "text",
    [
        "decode-0/" + RECORD,
        "x: 9/9 [01:02, 3.1s/it]" + RECORD,
        RECORD + RECORD,
        "[0;36m(APIServer pid=1)[0;0m INFO 07-14 03:12:07 [loggers.py:310] " + STATS,
    ],
    ids=["prefix of the user", "bar", "two records", "lost escape byte"],
)
def test_the_time_of_the_runtime_holds_for_all_of_its_line(text):
    """Also for a record that has to be found within the line first."""
    heads = read(_cri(text)).heads
    assert heads
    assert {head.wrapped_time for head in heads} == {TIME}


@pytest.mark.parametrize("wrap", [_cri, _docker, lambda text: f"engine-1  | {text}\n"], ids=["CRI", "docker", "compose"])
def test_a_traceback_in_a_wrapping_knows_its_record(wrap):
    """The lines of a record are wrapped each, with the carriage returns that end them."""
    lines = [HANDSHAKE_FAILED, *TRACEBACK.split("\n"), MISMATCH]
    head = header("base_worker.py:888", level="ERROR", who="Worker_TP0 pid=452")
    reading = read("".join(wrap(head + line + ("\r" if line != MISMATCH else "")) for line in lines))
    assert reading.kinds == ["KvTransferFailure", "KvCompatibility"]
    assert reading.heads[1].parent == KvTransferFailure("nixl", "handshake_setup", None)
    assert reading.log.unrecognised["ERROR"] == 0


def test_a_part_that_is_never_completed_swallows_no_later_line():
    """Its writer died within a line."""
    part = _cri("INFO 07-14 03:12:07 [a.py:1] half a li", "P", "stderr", time="2026-07-14T03:12:07.1Z")
    assert read(part + _cri(RECORD, "F", "stderr", time="2026-07-14T03:12:18.1Z")).kinds == ["IntervalStats"]
    assert read(part + _cri(RECORD, "F", "stderr", time="2026-07-14T03:12:08.1Z")).kinds == []


@pytest.mark.parametrize("outer", ["", "2026-07-14T03:12:07.1Z stdout F ", "a-1  | "])
def test_a_quote_of_a_user_ends_at_no_prefix_within_it(outer):
    """What looks like a container's line there is text, but the quote's own wrapping goes on to come off."""
    head = "[2026-08-03 02:00:00 TP0] "
    batch = (
        head
        + "Decode batch, #running-req: 1, #token: 100, token usage: 0.01, cuda graph: True, gen throughput (token/s): 12.5, #queue-req: 0, "
    )
    quote = head + "Receive: obj=GenerateReqInput(rid='x', text='"
    lines = [batch, quote, f"svc  | {batch}", f"2026-07-14T03:12:07.1Z stdout F {batch}", batch]
    assert read("".join(f"{outer}{line}\n" for line in lines)).kinds == ["DecodeBatch"] * 2


# -- Ray ---------------------------------------------------------------------------------------------------------------

RAY = "\x1b[36m(RayWorkerWrapper pid=27972, ip=10.0.0.2)\x1b[0m "
FAILED = header("a.py:1", level="ERROR", who="Worker_TP0 pid=4") + "NIXL transfer failure: transfer_failed | Context: {'failure_type': 'x'}"


@pytest.mark.parametrize(
    ("mark", "times"),
    [
        ("", 1),
        ("\x1b[32m [repeated 7x across cluster]\x1b[0m", 7),
        (" [repeated 3x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication)", 3),
        (" [repeated 1000000000x across cluster]", 1),
        (" [repeated -4x across cluster]", 1),
        (" [repeated x across cluster]", 1),
    ],
)
def test_a_record_that_ray_repeats_counts_as_often(mark, times):
    """One line stands for the equal ones of several workers; a forged number is no number."""
    assert read(RAY + FAILED + mark + "\n").kinds == ["KvTransferFailure"] * times


@pytest.mark.parametrize(
    "line",
    [
        FAILED + " [repeated 99x across cluster]",
        RAY + FAILED.replace("{'failure_type': 'x'}", "{'request_id': 'x [repeated 99x across cluster]'}"),
        RAY + FAILED + " [repeated 99x across cluster] and more",
    ],
    ids=["no Ray", "an id", "not at the end"],
)
def test_what_a_user_writes_is_no_number_of_records(line):
    """Ids come from clients, and only Ray's driver repeats."""
    assert read(line + "\n").kinds == ["KvTransferFailure"]


@pytest.mark.parametrize(
    "prefix",
    [
        "(ServeReplica:default:LLMServer pid=27972, ip=10.0.0.2) ",
        "(_EngineBackgroundProcess pid=5) ",
        "(pid=5, ip=10.0.0.2) ",
        "(ServeReplica:app/v1:LLM pid=5) (EngineCore pid=9) ",
    ],
)
def test_all_prefixes_of_ray_come_off(prefix):
    """Actors are named by their class, replicas by their deployment, and new workers not at all."""
    assert read(prefix + RECORD + "\n", prefix + "Application startup complete.\n").kinds == ["IntervalStats", "EngineReady"]


def test_a_fact_that_ray_repeats_is_one():
    """The size of the KV cache is told by each worker."""
    size = header(who="Worker pid=4") + "GPU KV cache size: 2,493,464 tokens"
    assert read(RAY + size + " [repeated 7x across cluster]\n").kinds == ["KvCacheSize"]


def test_the_marks_of_a_worker_file_are_no_records():
    """KubeRay's `worker-*.out` begins with the job and the actor, also later on."""
    reading = read(":job_id:01000000\n:actor_name:RayWorkerWrapper\n" + RECORD + "\n:task_name:run\n" + RECORD + "\n")
    assert reading.kinds == ["IntervalStats"] * 2
    assert reading.log.levels["unknown"] == 3
