"""A prompt may contain a line of a log. Nothing of it is counted, and none of its text is shown."""

import json
from itertools import product
from urllib.parse import quote

import pytest

from tests.parsers.reading import HANDSHAKE_FAILED, JIT, KV_TRANSFER, LOGO, MISMATCH, STATS, header, read

CANARY = "CANARY7f3a"

MESSAGES = {
    "periodic line": STATS.replace("000", "777"),
    "JIT monitor": JIT.replace("_fwd_kernel_stage1", CANARY),
    "KV transfer": KV_TRANSFER,
    "failed handshake": HANDSHAKE_FAILED.replace("'request_id': None", f"'request_id': '{CANARY}'"),
    "mismatch": MISMATCH,
    "capacity": "GPU KV cache size: 1 tokens",
    "ready": "Application startup complete.",
    "logo": LOGO.replace("0.26.0", f"6.6.6{CANARY}"),
    "start of the engine": f"Initializing a V1 LLM engine (v6.6.6{CANARY}) with config: model='/models/{CANARY}', max_seq_len=1",
    "arguments": f"non-default args: {{'model': '/models/{CANARY}', 'max_model_len': 1}}",
    "dead engine": "EngineCore encountered a fatal error.",
    "out of memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.",
    "hazard": f"Unknown vLLM environment variable detected: VLLM_{CANARY}",
    "recovered loads": "Recovered from KV load failure: 999 request(s) rescheduled (999 tokens affected).",
    "expired blocks": f"Releasing expired KV blocks for request {CANARY} which were retrieved by 0 remote worker(s) before lease expired.",
    "TileLang": f"TileLang begins to compile kernel `{CANARY}` with `out_idx=None`",
    "traceback": "Traceback (most recent call last):",
    "native error": "E1129 13:13:11.832085    2604 nixl_agent.cpp:1437] genNotif: x",
    "CRI": "2026-07-14T03:12:07.1Z stdout F Application startup complete.",
    "JSON": json.dumps({"message": STATS, "levelname": "ERROR", "name": "vllm"}),
    "access": 'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
}
LOGGER = "request_logger.py:66"


def _received(text, where=LOGGER, level="INFO"):
    return header(where, level=level) + f"Received request cmpl-1: prompt: {text}, params: SamplingParams(n=1), lora_request: None."


def _continued(text, where, *, carriage_return="\r", level="INFO"):
    head = header(where, level=level)
    return f"{carriage_return}\n".join(head + line for line in (f"Received request cmpl-1: prompt: {CANARY}", text, f"{CANARY} end")) + "\n"


def _json(message, **keys):
    record = {
        "asctime": "2026-07-14 03:12:07,000",
        "levelname": "INFO",
        "name": "vllm.entrypoints.serve.utils.request_logger",
        "process": 1,
    }
    return json.dumps(record | {"message": message, "vllm_process_name": "APIServer"} | keys) + "\n"


def _cri(text, tag="F", stream="stdout"):
    return f"2026-07-14T03:12:07.123456789Z {stream} {tag} {text}\n"


def _docker(text, end="\n"):
    return json.dumps({"log": text + end, "stream": "stdout", "time": "2026-07-14T03:12:07.123456789Z"}, separators=(",", ":")) + "\n"


def _each_line(wrap, text):
    return "".join(wrap(line) for line in text.rstrip("\n").split("\n"))


QUOTES = {
    # records that quote users: the level and how they begin
    "Chat template rejected the request: ": "WARNING",
    "Error in preprocessing prompt inputs": "ERROR",
    "HTTPException caught. Request id: cmpl-1": "ERROR",
    "RequestValidationError caught. Request id: None": "ERROR",
    "Exception caught. Request id: cmpl-1": "ERROR",
    "Error in extracting tool call from response.": "ERROR",
    "Error in create_messages: ": "ERROR",
    "Request cmpl-1 failed (bad request): ": "WARNING",
    "Request cmpl-1 failed (input error): ": "INFO",
    "Request cmpl-1 failed due to ": "INFO",
}


def _quoting(first, text, *, carriage_return="\r"):
    head = header("hf.py:927", level=QUOTES[first])
    return f"{carriage_return}\n".join(head + line for line in (f"{first}{CANARY}", MESSAGES["traceback"], text, CANARY)) + "\n"


def _quoting_json(first, text, key="exc_info"):
    message = f"{first}{CANARY}\n{MESSAGES['traceback']}\n{text}"
    return _json(message, levelname=QUOTES[first], name="vllm.renderers.hf", **{key: f"{MESSAGES['traceback']}\n{text}"})


CYAN = "\x1b[1;36m(APIServer pid=1)\x1b[0;0m "

WAYS = {
    # how a prompt gets into a log: a function from the forged text to the bytes of the log
    "in a request line": lambda text: _received(f"'{CANARY} {text}'") + "\n",
    "at the start of a prompt": lambda text: _received(f"{text}") + "\n",
    "behind an escaped line break": lambda text: _received(f"'{CANARY}\\n{text}'") + "\n",
    "in a request line of 0.10.2": lambda text: (CYAN + _received(f"'{CANARY}\\n{text}'", "logger.py:40")).replace("(APIServer pid=1) INFO", "INFO") + "\n",
    "in a request line at DEBUG": lambda text: _received(f"'{text}'", "entrypoints/serve/.../utils/request_logger.py:66", "DEBUG") + "\n",
    "in a response": lambda text: header(LOGGER) + f"Generated response cmpl-1: output: '{CANARY}\\n{text}', finish_reason: stop\n",
    "in stop strings": lambda text: header(LOGGER) + f"Received request cmpl-1: params: SamplingParams(n=1, stop=['{text}']), lora_request: None.\n",
    "in a line of several megabytes": lambda text: _received("x" * 70_000 + text + "y" * 2_000_000 + text) + "\n",
    "in a further line": lambda text: _continued(text, LOGGER),
    "in a further line without \\r": lambda text: _continued(text, LOGGER, carriage_return=""),
    "in a further line of logger.py": lambda text: _continued(text, "logger.py:36"),
    "in a further line of logger.py without \\r": lambda text: _continued(text, "logger.py:36", carriage_return=""),
    "in a further line at level ERROR": lambda text: _continued(text, LOGGER, level="ERROR", carriage_return=""),
    "in a further line at DEBUG": lambda text: _continued(text, "v1/engine/.../request_logger.py:36", level="DEBUG", carriage_return=""),
    "in a further line on a terminal": lambda text: _continued(text, LOGGER).replace("\n", "\r\n"),
    "in a response of several lines": lambda text: f"{header(LOGGER)}Generated response cmpl-1: output: {CANARY}\r\n{header(LOGGER)}{text}\n",
    "in a JSON message": lambda text: _json(f"Received request cmpl-1: prompt: {text}"),
    "in a further line of a JSON message": lambda text: _json(f"Received request cmpl-1: prompt: {CANARY}\n{text}\n{header()}{text}"),
    "in a JSON message of uvicorn": lambda text: _json(f"Invalid HTTP request received. {text}\n{text}", name="uvicorn.error"),
    "in JSON through CRI": lambda text: _cri(_json(f"Received request cmpl-1: prompt: {CANARY}\n{text}").rstrip()),
    "in a part of a CRI line": lambda text: _cri(_received(f"'{CANARY}")[:90], "P") + _cri(text, "P") + _cri("'"),
    "in the last part of a CRI line": lambda text: _cri(_received(f"'{CANARY}")[:90], "P") + _cri("of stderr", "F", "stderr") + _cri(text),
    "in a part of a docker line": lambda text: _docker(_received(f"'{CANARY}")[:90], end="") + _docker(text),
    "in a further line through CRI": lambda text: _each_line(_cri, _continued(text, LOGGER)),
    "in a further line through docker": lambda text: _each_line(_docker, _continued(text, LOGGER)),
    "in a path": lambda text: f'INFO:     10.0.0.1:1 - "GET /health/{quote(text)} HTTP/1.1" 404 Not Found\n',
    "in a query string": lambda text: f'INFO:     10.0.0.1:1 - "GET /health?x={text.replace(" ", "%20")} HTTP/1.1" 200 OK\n',
    "in a torn access line": lambda text: f'INFO:     10.0.0.1:1 - "GET /health?x={text}\n',
}  # fmt: skip

HEADED = {
    "with a header": header(level="ERROR"),
    "bare": "",
    "with a short header": "ERROR 07-14 03:12:07 [a.py:1] ",
    "behind a bar": f"5.0it/s]{header()}",
}


@pytest.mark.parametrize(("way", "message"), list(product(WAYS, MESSAGES)))
def test_a_forged_line_counts_nothing_and_shows_nothing(way, message):
    """With any header or none, whatever the line would have meant; what stands around it is told as ever."""
    for name, head in HEADED.items():
        reading = read(header() + STATS + "\n" + WAYS[way](head + MESSAGES[message]) + header(time="07-14 03:12:17") + STATS + "\n")
        assert reading.kinds == ["IntervalStats", "IntervalStats"], name
        assert CANARY not in reading.public_text()
        assert sum(reading.log.unrecognised.values()) == 0, name
        assert not any(CANARY in text for text in (*reading.log.levels, *reading.log.rule_errors, reading.log.runtime)), name


def test_a_genuine_line_is_counted_where_a_forged_one_is_not():
    """The messages above would all be told if they stood where they belong, but for those that only open something."""
    silent = {"traceback", "CRI", "JSON", "access", "TileLang", "native error"}
    for name, message in MESSAGES.items():
        told = read(header(level="ERROR") + message + "\n").kinds
        assert (told == []) == (name in silent), name
    for name in silent - {"traceback"}:
        assert len(read(MESSAGES[name] + "\n").kinds) == 1, name


@pytest.mark.parametrize(("first", "message"), list(product(QUOTES, MESSAGES)))
def test_a_record_that_quotes_a_user_tells_no_failure(first, message):
    """Neither what looks like a traceback in it, nor what follows that, whether the record's lines end in \\r or are JSON."""
    text = MESSAGES[message]
    for log in (_quoting(first, text), _each_line(_cri, _quoting(first, text)), _quoting_json(first, text)):
        reading = read(log)
        assert reading.events == []
        assert sum(reading.log.unrecognised.values()) == 0
        assert CANARY not in reading.public_text()


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
@pytest.mark.parametrize("first", QUOTES)
def test_what_a_user_wrote_right_behind_a_quotes_words_is_no_record(first, message):
    """Another record may stand on the line of one whose line break got lost, but not on the line of a quote."""
    reading = read(header(level="ERROR") + first + header() + message + "\n")
    assert reading.events == []
    assert CANARY not in reading.public_text()


@pytest.mark.parametrize(("first", "message"), list(product((first for first, level in QUOTES.items() if level != "INFO"), MESSAGES)))
def test_a_quote_goes_on_where_the_carriage_returns_are_lost(first, message):
    """Its lines share second and source line, which no other record has; at INFO nothing shows where a record ends."""
    assert read(_quoting(first, MESSAGES[message], carriage_return="")).events == []


def test_a_format_without_source_lines_has_no_quotes_that_go_on():
    """There nothing tells the next record from a further line: a failure too many is better than one that is lost."""
    log = f"[WARNING] Chat template rejected the request: {CANARY}\n[ERROR] {MESSAGES['dead engine']}\n"
    assert read(header() + "x\n" + log).kinds == ["EngineFailure"]


def test_a_record_after_a_quote_is_the_engines_own():
    """Another source line, another second, or another process."""
    dead = MESSAGES["dead engine"]
    quote = _quoting("Chat template rejected the request: ", MESSAGES["out of memory"])
    heads = [
        header("core.py:1", level="ERROR"),
        header("hf.py:927", level="ERROR", time="07-14 03:15:59"),
        header("hf.py:927", level="ERROR", who="EngineCore pid=318"),
    ]
    assert all(len(read(f"{quote}{head}{dead}\n").events) == 1 for head in heads)


# -- further lines of other sources ------------------------------------------------------------------------------------

HEAD = header("plugin.py:12")
FORGED = HEAD + MESSAGES["periodic line"]
RECORD = f"{HEAD}The user said {CANARY}\r\n{FORGED}\r\n{HEAD}end\n"


@pytest.mark.parametrize("message", sorted(MESSAGES.keys() - {"logo", "access", "CRI", "JSON"}))
def test_a_further_line_of_any_source_counts_nothing(message):
    """Whatever logs a text of several lines: the \\r before the line break shows that the next line is no record."""
    assert read(f"{HEAD}The user said {CANARY}\r\n{HEAD}{MESSAGES[message]}\r\n{HEAD}end\n").events == []


@pytest.mark.parametrize("wrap", [_cri, _docker, lambda text: f"engine-1  | {text}\n"], ids=["CRI", "docker", "compose"])
def test_a_further_line_counts_nothing_in_a_wrapping(wrap):
    """A runtime wraps each line with the \\r that ends it: it means the same inside."""
    assert read(_each_line(wrap, RECORD)).events == []


def test_a_forged_logo_starts_no_engine():
    """A text of several lines may contain the logo; vLLM's own stands in a record that begins with an empty line."""
    assert read(f"{HEAD}The user said\r\n{HEAD}{MESSAGES['logo']}\n").events == []


def test_a_forged_exception_is_no_failure():
    """vLLM's warning about a refused chat template quotes the user's text; there is no traceback in it."""
    head = header("hf.py:780", level="WARNING")
    assert read(f"{head}Chat template rejected the request: {CANARY}\r\n{head}{MESSAGES['out of memory']}\n").events == []


@pytest.mark.parametrize("where", [LOGGER, "plugin.py:12"])
def test_a_bare_carriage_return_in_a_prompt_starts_no_record(where):
    """The formatter marks line breaks only: a text that is not escaped may have \\r in it. Bars have no header before their \\r."""
    assert read(f"{header(where)}The user said {CANARY}\r{header()}{MESSAGES['periodic line']}\n").events == []


@pytest.mark.parametrize("before", ["Skipping KV post-processing for failed request ", "Handshake failed for request "])
def test_a_long_request_id_is_no_end_of_a_record(before):
    """Clients choose request ids: 256 characters and a header behind them are one id, not two records."""
    reading = read(header("base_worker.py:1989", level="WARNING") + before + "x" * 256 + header() + MESSAGES["periodic line"] + "\n")
    assert "IntervalStats" not in reading.kinds


@pytest.mark.parametrize("before", ['{"level":"info","prompt":"', '{"message":"', '{"log":"', '"', "prompt='", "http://example.org/?q="])
def test_a_header_glued_to_other_text_is_no_record(before):
    """Objects that are no records, or cut ones, and values behind a name are the text of somebody."""
    assert read(f'{before}{header()}{MESSAGES["periodic line"]}","end":1}}\n').events == []


def test_a_request_is_private_and_nothing_else_of_it_is_shown():
    """Ids may be the client's: they stand in the private field only."""
    context = f"{{'failure_type': 'transfer_failed', 'request_id': '{CANARY}', 'remote_request_id': '{CANARY}', 'remote_host': '{CANARY}'}}"
    lines = [
        f"NIXL transfer failure: transfer_failed. Marking blocks as invalid | Context: {context}",
        f"Skipping KV post-processing for failed request {CANARY}",
        MESSAGES["expired blocks"],
        f"Potentially invalid KV blocks for unrecognized request {CANARY} were retrieved by a decode worker. They may have expired.",
        f"Handshake failed for request {CANARY}",
        f"Failing 1 request(s) due to KV load failure (failure_policy=fail, 1 tokens affected). Request IDs: {{'{CANARY}'}}",
        f"Got invalid KVTransferParams: {{'x': '{CANARY}'}}. This request will not utilize KVTransfer",
    ]
    reading = read("".join(header(f"a.py:{number}", level="WARNING") + line + "\n" for number, line in enumerate(lines)))
    assert len(reading.events) == len(lines)
    assert [event.request for event in reading.events if hasattr(event, "request")] == [CANARY] * 5
    assert CANARY not in reading.public_text()


# -- records behind a Context -------------------------------------------------------------------------------------------

FAILED = (
    "NIXL transfer failure: handshake_failed | Context: {'failure_type': 'handshake_failed', 'request_id': %s, 'remote_host': '10.0.0.7'}"
)
ID = "'cmpl-1'"
SECOND = header("base_worker.py:1435", level="ERROR", who="Worker_TP1 pid=12") + FAILED % "'cmpl-2'"


def _failed(context):
    return header("base_worker.py:1435", level="ERROR", who="Worker_TP0 pid=11") + context


OUTSIDE = [at for at in range(len("NIXL transfer failure: handshake_failed"), len(FAILED % ID)) if (FAILED % ID)[:at].count("'") % 2 == 0]


@pytest.mark.parametrize("torn", OUTSIDE)
def test_a_record_behind_a_torn_one_is_read(torn):
    """The line break is lost, and the end of the first record: both count, wherever it broke off outside of a string."""
    text = (FAILED % ID)[:torn]
    reading = read(_failed(text) + SECOND + "\n")
    assert [event.request for event in reading.events] == ["cmpl-1" if ID in text else None, "cmpl-2"]


def test_what_stands_behind_half_a_string_may_be_anybody_s():
    """A client's id is such a string."""
    assert len(read(_failed((FAILED % ID).partition("-1'")[0]) + SECOND + "\n").events) == 1


def test_records_without_a_line_break_between_them_are_read():
    """Three on one line, and the line of another level behind them."""
    reading = read(_failed(FAILED % ID) + SECOND + SECOND.replace("cmpl-2", "cmpl-3") + header(level="INFO") + STATS + "\n")
    assert [event.request for event in reading.events[:3]] == ["cmpl-1", "cmpl-2", "cmpl-3"]
    assert reading.kinds[3:] == ["IntervalStats"]


@pytest.mark.parametrize(
    "said",
    [
        f"'{CANARY}{SECOND.replace(chr(39), '')}'",
        '"' + CANARY + SECOND + '"',
        "'" + CANARY + "\\'" + SECOND.replace("'", "\\'") + "'",
        "\"', 'remote_host': '127.0.0.1', 'request_id': 'cmpl-7'\"",
        f"'{CANARY} [repeated 999x across cluster]'",
        f"'{CANARY}\\\\\\'}}{SECOND.replace(chr(39), '')}'",
    ],
    ids=["header", "double-quotes", "escaped", "fields", "repeated", "backslashes"],
)
def test_a_request_s_id_forges_nothing(said):
    """The repr of what a client chose stands in quotes of its own."""
    (event,) = read(_failed(FAILED % said) + "\n").events
    assert event[:2] == ("nixl", "handshake")
    assert event.request != "cmpl-7"
    assert not event.loopback


def test_a_context_is_read_before_ray_s_mark():
    """Five workers print the same, and its driver puts its own prefix before it; a client's id says nothing of how many."""
    ray = "(RayWorkerWrapper pid=27972) "
    assert len(read(ray + _failed(FAILED % ID) + " [repeated 5x across cluster]\n").events) == 5
    assert len(read(ray + _failed(FAILED % "'x [repeated 5x across cluster]'") + "\n").events) == 1
