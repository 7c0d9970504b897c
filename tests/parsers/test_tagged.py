"""SGLang's lines: a header without a level, ranks in any order, uvicorn behind the same header, and what users may put into them."""

import json

import pytest

from parsers.events import DecodeBatch, EngineReady, HealthAnswered, PrefillBatch
from tests.parsers.reading import STATS, TAGGED, header, read, utc

READY = "The server is fired up and ready to roll!"
DECODE = "Decode batch, #running-req: 5, #token: 1234, token usage: 0.12, cuda graph: True, gen throughput (token/s): 200.00, #queue-req: 0"
PREFILL = (
    "Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 0, "
    "cuda graph: False, input throughput (token/s): 1.00"
)


def tagged(message: str, tags: str = " TP0", time: str = "2026-08-03 02:00:00") -> str:
    """A line of SGLang's."""
    return f"[{time}{tags}] {message}\n"


# -- the header --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "rank", "dp_rank"),
    [
        ("", "", "0"),
        (" TP0", "TP0", "0"),
        (" DP1 TP3", "DP1_TP3", "1"),
        (" DP1 PP0 TP3 EP3", "DP1_PP0_TP3_EP3", "1"),
        (" DP1 TP3 EP3 PP0", "DP1_TP3_EP3_PP0", "1"),
        (" DP2 PP1 ATTN_CP0 MOE_DP3 TP5 EP5", "DP2_PP1_ATTN_CP0_MOE_DP3_TP5_EP5", "2"),
        (" ATTN_CP1 MOE_DP3 TP5", "ATTN_CP1_MOE_DP3_TP5", "0"),
        (" encode_server", "", "0"),
    ],
)
def test_ranks_come_in_any_order(tags, rank, dp_rank):
    """Releases print them in different orders; only those of more than one are printed at all."""
    (head,) = read(tagged(DECODE, tags)).heads
    assert (head.origin.rank, head.origin.dp_rank, head.level) == (rank, dp_rank, "unknown")


@pytest.mark.parametrize(("time", "seconds"), [("2026-08-03 02:00:00", 0.0), ("2026-08-03 02:00:00.250", 0.25)])
def test_a_time_may_have_milliseconds(time, seconds):
    """With SGLANG_LOG_MS."""
    assert read(tagged(DECODE, time=time)).heads[0].time == utc(2026, 8, 3, 2) + seconds


@pytest.mark.parametrize(
    "prefix",
    [
        "[pod/decode-0/engine] ",
        "2026-08-03T02:00:00.123456789Z ",
        "2026-08-03T02:00:00.123456789Z stdout F ",
        "decode-0 engine ",
        "engine-1  | ",
        "Aug  3 02:00:00 gpu-host-1 sglang[4711]: ",
        "[2026-08-03T02:00:00.703Z] ",
        "engine.log:",
        "[sglang]     | ",
        "(SGLangEngine pid=4711) ",
        "(SGLangEngine pid=4711, ip=10.0.0.7) ",
        "Capturing batches (bs=1 avail_mem=28.31 GB): 100%|██████████| 27/27 [06:33<00:00, 14.59s/it]",
        "\rCapturing batches: 50%|█████     | 13/27 [03:33<03:00, 14.59s/it]\r100%|██████████| 27/27 [06:33<00:00, 14.59s/it]",
    ],
)
def test_what_stands_before_a_header_comes_off(prefix):
    """Viewers, platforms, and bars without a line break."""
    assert read(prefix + tagged(DECODE)).kinds == ["DecodeBatch"]


def test_records_on_one_line_are_all_read():
    """The line break between two processes got lost."""
    assert read(tagged(DECODE).rstrip() + tagged(PREFILL, " TP1")).kinds == ["DecodeBatch", "PrefillBatch"]


def test_a_batch_needs_its_header():
    """Without one it may be anybody's words."""
    assert read(f"{DECODE}\n2026-08-03 02:00:00 TP0] {DECODE}\n").events == []


def test_another_engines_header_makes_no_batch():
    """Behind vLLM's header stand vLLM's words, and the other way round."""
    assert read(f"{header()}{DECODE}\n{TAGGED}{STATS}\n").events == []


def test_the_runtime_is_learnt_from_what_is_said():
    """The header alone is many a program's."""
    assert read(tagged("hello")).log.runtime == ""
    assert read(tagged(DECODE)).log.runtime == "sglang"


# -- uvicorn -----------------------------------------------------------------------------------------------------------


def test_an_access_line_counts_and_a_probe_is_told():
    """Uvicorn prints its level behind SGLang's header."""
    reading = read(
        tagged('INFO:     10.0.0.7:41022 - "POST /generate HTTP/1.1" 200 OK', "")
        + tagged('INFO:     10.0.0.7:41022 - "GET /health HTTP/1.1" 503 Service Unavailable', "")
        + tagged('INFO:     10.0.0.7:41022 - "GET /health_generate HTTP/1.1" 200 OK', "")
    )
    assert reading.responses == {"2xx": 1}
    assert reading.events[-1] == HealthAnswered()
    assert reading.log.levels["INFO"] == 3


def test_uvicorn_is_up_before_the_engine_is_ready():
    """Its start-up line comes before the engine's own first request."""
    reading = read(tagged("INFO:     Application startup complete.", "") + tagged(READY, ""))
    assert reading.told == [repr(EngineReady())]


# -- users -------------------------------------------------------------------------------------------------------------

FORGED = (READY, DECODE, "Scheduler hit an exception: Traceback (most recent call last):", "torch.OutOfMemoryError: CUDA out of memory. x")
QUOTES = (
    "Receive: obj=GenerateReqInput(rid='9c1f', text=[hello",
    "Receive OpenAI: obj={'messages': ",
    "Finish: obj=GenerateReqInput(rid='9c1f'), out={'text': ",
    '{"timestamp": "2026-08-03T08:00:01", "event": "request.received", "obj": {"text": "',
    "Error in request: hello",
    "[http_server] Error: hello",
    "Grammar compilation raised an exception: hello, grammar_key=",
    "Scheduler debug info:",
)


@pytest.mark.parametrize("quote", QUOTES)
@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize(
    "joint",
    [
        "",
        "\\n",
        "\n",
        "\r",
        "\\n[2026-08-03 02:00:00 TP0] ",
        "\n> ",
        f"\n{header()}",
        f"\n{header(level='ERROR')}",
        "\nINFO:     ",
        "\n[INFO]: ",
    ],
)
def test_what_a_user_wrote_counts_nothing(quote, forged, joint):
    """Not behind the quote, and not in the lines without a header that follow it."""
    reading = read(tagged(f"{quote}{joint}{forged}", ""))
    assert reading.events == []
    assert not sum(reading.log.unrecognised.values())


OTHERS = (
    header() + STATS,
    header(level="ERROR") + "EngineCore encountered a fatal error.",
    "INFO:     Application startup complete.",
    'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
    json.dumps({"message": STATS, "levelname": "INFO", "name": "vllm"}),
    json.dumps({"message": READY, "levelname": "INFO", "name": "sglang.srt"}),
)


@pytest.mark.parametrize("wrapping", ["", "2026-08-03T02:00:00.1Z stdout F "])
@pytest.mark.parametrize("other", OTHERS)
def test_a_line_of_another_engine_is_no_end_of_a_quote(other, wrapping):
    """Nor is uvicorn's without SGLang's header, nor an object: only the engine's own header is."""
    lines = (tagged(DECODE), tagged(QUOTES[0], ""), f"{other}\n" * 3, tagged(PREFILL), tagged(QUOTES[1], ""), f"{other}\n")
    log = "".join(f"{wrapping}{line}\n" for each in lines for line in each.splitlines())
    for chunks in ([log], log.splitlines(keepends=True)):
        reading = read(*chunks)
        assert reading.kinds == ["DecodeBatch", "PrefillBatch"]
        assert not sum(reading.log.unrecognised.values())


def test_a_quote_may_begin_behind_another_record():
    """Whose line break got lost."""
    log = tagged(DECODE).rstrip() + tagged(QUOTES[0], "") + f"{header()}{STATS}\n" + tagged(PREFILL)
    assert read(log).kinds == ["DecodeBatch", "PrefillBatch"]


def test_a_quote_goes_on_behind_a_carriage_return():
    """Lines that have one are read on another way."""
    log = f"{tagged(DECODE)}{tagged(QUOTES[0], '').rstrip()}\rmore\n{header()}{STATS}\n{READY}\r\n{header()}{STATS}\n{tagged(PREFILL)}"
    assert read(log).kinds == ["DecodeBatch", "PrefillBatch"]
    assert read(*log.splitlines(keepends=True)).kinds == ["DecodeBatch", "PrefillBatch"]


def test_a_record_like_a_quote_silences_no_other_engine():
    """Whose header has no ranks: another program's words between its lines."""
    assert read(f"{header()}{STATS}\n{tagged(QUOTES[4], '')}{header()}{STATS}\n").kinds == ["IntervalStats"] * 2


@pytest.mark.parametrize("where", ["logger.py:10", "scheduler.py:10"])
def test_a_quote_in_a_format_of_the_users_goes_on_to_the_next_header(where):
    """With a dictConfig of his own, where a header is what stands in brackets with a level."""
    head = "[2026-08-03 02:00:01][INFO]"
    for before in (f"{head}[scheduler.py:1] {DECODE}\n", ""):
        log = f"{before}{head}[{where}] {QUOTES[0]}\n{READY}\n{header()}{STATS}\nKV Cache is allocated. #tokens: 9, KV size: 1.00 GB\n"
        assert read(f"{log}{head}[scheduler.py:1] {PREFILL}\n{READY}\n").kinds == ["DecodeBatch"] * bool(before) + [
            "PrefillBatch",
            "EngineReady",
        ]


def test_the_engine_goes_on_behind_a_quote():
    """The next header ends it."""
    assert read(tagged(QUOTES[0] + "\nmore", "") + tagged(DECODE)).kinds == ["DecodeBatch"]


def test_a_ready_line_in_quotes_of_json_is_text():
    """A user's dictConfig: the record is an object, and so may be what a user sent."""
    record = '{"asctime": "2026-08-03 09:00:00,000", "levelname": "INFO", "name": "sglang.srt.utils", "message": "%s"}\n'
    assert read(record % READY).told == [repr(EngineReady())]
    assert read(record % f"Receive: obj=x(text='{READY}')").events == []
    assert read(record % f"Receive: obj=x(text='\\n{READY}\\ntorch.OutOfMemoryError: CUDA out of memory. x')").events == []


def test_an_exception_in_a_json_record_is_read():
    """Its traceback stands in the message."""
    reading = read(
        '{"asctime": "2026-08-03 09:00:00,000", "levelname": "ERROR", "name": "sglang.srt.managers.scheduler", "message": '
        '"Scheduler hit an exception: Traceback (most recent call last):\\n  File x\\ntorch.OutOfMemoryError: CUDA out of memory. Tried"}\n'
    )
    assert [each.kind for each in reading.events] == ["scheduler_exception", "gpu_oom"]


def test_an_exception_in_a_json_record_without_a_logger_is_read():
    """The first line ends where the traceback begins; what a user sent is still no exception."""
    record = (
        '{"asctime": "2026-08-03 09:00:00,000", "levelname": "ERROR", "message": "%s Traceback (most recent call last):\\n  File x\\n%s"}\n'
    )
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried"
    assert [each.kind for each in read(record % ("Scheduler hit an exception:", oom)).events] == ["scheduler_exception", "gpu_oom"]
    assert read(record % ("Error in request:", oom)).events == []


# -- batches -----------------------------------------------------------------------------------------------------------


def test_a_comma_in_brackets_ends_no_field():
    """DSpark's estimate has its bounds behind it, and `nan%` is no number."""
    line = (
        "Decode batch [1234], #running-req: 6, #full token: 51200, full token usage: 0.02, #swa token: 20480, swa token usage: 0.08, accept len: "
        "3.10, accept rate: 0.42, cap len: 4.50, block accept len: 3.60, est uncap acc len: 3.66 [3.58, 3.74], npu graph: True, gen throughput "
        "(token/s): 500.00, #queue-req: 2, est. decode TFLOPS/s (per GPU): 1.20, est. read BW (GB/s per GPU): 3.00, fwd occupancy: nan%"
    )
    (event,) = read(tagged(line)).events
    verified = {"cap": 4.5, "block": 3.6, "uncapped": 3.66, "uncapped_low": 3.58, "uncapped_high": 3.74}
    assert event == DecodeBatch(6.0, {"waiting": 2.0}, {"full": 0.02, "swa": 0.08}, 500.0, 3.1, 0.42, verified=verified)


def test_the_first_pair_names_of_the_queues():
    """0.4.9 on a prefill engine, with a blank at the end."""
    line = (
        "Prefill batch. #new-seq: 1, #new-token: 256, #cached-token: 0, token usage: 0.00, #unbootstrapped-req: 4, #queue-req: 1, "
        "#transferring-req: 3, input throughput (token/s): 16.00 "
    )
    (event,) = read(tagged(line)).events
    assert event == PrefillBatch(1, 256, 0, None, {"waiting": 1, "bootstrap": 4, "inflight": 3}, {"device": 0.0}, 16.0)


def test_a_torn_batch_is_a_failed_rule_and_no_event():
    """The line has its shape but not its fields."""
    reading = read(tagged("Decode batch, #running-r"))
    assert reading.events == []
    assert reading.log.rule_errors == {"decode_batch": 1}


# -- what no rule knows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "counts"),
    [
        ("Failed to load NCCL library from libnccl.so.2", 1),
        ("Setup Custom allreduce failed with x.", 1),
        ("ValueError: x", 1),
        ("Unexpected error in the event loop", 1),
        ("Using default HuggingFace chat template with detected content format: string", 0),
        ("Cache flushed successfully!", 0),
        ("loaded 12 adapters, none of which failed", 0),
    ],
)
def test_wording_of_a_failure_stands_in_for_a_level(message, counts):
    """At the message's start, once the log is known to be SGLang's."""
    reading = read(tagged(DECODE) + tagged(message))
    assert reading.log.unrecognised.get("unknown", 0) == counts
