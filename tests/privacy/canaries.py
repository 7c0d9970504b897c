"""Logs full of canaries, which nobody may ever see, and a search that finds them in whatever dress."""

import base64
import binascii
import gzip
import json
import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from parsers.rules import Rule, Scope, registry
from tests.parsers.reading import STATS, TAGGED, header
from tests.wrappings import WRAPS, wrapped

WORD, HEX, HOST = "Zq7CanaryWx4v", "c0ffee7f3a9b4d21", "203.0.113.77"
CANARIES = (WORD, HEX, HOST)
SHORTEST = 8
"""A piece of a canary that is found: what cuts a text shows its beginning."""

_LEVELS = ("INFO", "WARNING", "ERROR")


# -- the search --------------------------------------------------------------------------------------------------------


def leaks(data: bytes) -> set[str]:
    """Pieces of canaries in some bytes: as they are, compressed, escaped, encoded, in other letters or backwards."""
    text = b"\n".join(_readings(data)).lower()
    return {piece for piece in _pieces() if piece.encode() in text}


def _pieces() -> Iterator[str]:
    for canary in CANARIES:
        for start in range(len(canary) - SHORTEST + 1):
            piece = canary[start : start + SHORTEST].lower()
            yield piece
            yield piece[::-1]


def _readings(data: bytes) -> Iterator[bytes]:
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    yield data
    yield unquote_to_bytes(data)
    yield re.sub(rb"\\u00([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), data)
    for run in re.findall(rb"[0-9a-fA-F]{16,}", data):
        yield bytes.fromhex(run[: len(run) // 2 * 2].decode())
        yield bytes.fromhex(run[1 : 1 + (len(run) - 1) // 2 * 2].decode())
    for run in re.findall(rb"[A-Za-z0-9+/_-]{11,}", data):
        plain = run.replace(b"-", b"+").replace(b"_", b"/")
        for start in range(4):
            part = plain[start : start + (len(plain) - start) // 4 * 4]
            try:
                yield base64.b64decode(part)
            except binascii.Error:
                continue


# -- the logs ----------------------------------------------------------------------------------------------------------

_REQUEST = (
    "Received request cmpl-{word}: prompt: '{word} {forged}', params: SamplingParams(n=1, stop=['{word}']), prompt_token_ids: None, "
    "prompt_embeds shape: None, lora_request: LoRARequest(lora_name='{word}')."
)
_KEYS = "'api_key': ['{word}'], 'ssl_keyfile': '/{word}', 'hf_token': '{word}', 'chat_template': '{word}', 'root_path': '/{word}'"
_SGLANG_KEYS = "api_key='{word}', admin_api_key='{word}', ssl_keyfile_password='{word}', host='{host}', dist_init_addr='{host}:1'"
_ACCESS = '{{host}}:1 - "{} HTTP/1.1" {}'

_VLLM = (
    f"non-default args: {{{{'model': '/models/m', 'served_model_name': ['m'], {_KEYS}}}}}",
    _REQUEST,
    "Generated response cmpl-{word}: output: '{word}\\n{forged}', output_token_ids: None, finish_reason: stop",
    "Chat template rejected the request: {word}",
    "HTTPException caught. Request id: cmpl-{word}",
    "Error in extracting tool call from response. {word}",
    "Unknown vLLM environment variable detected: VLLM_{word}",
    "Unknown vLLM environment variable detected: {hex}",
    "Got invalid KVTransferParams: {{'remote_host': '{host}', 'x': '{word}'}}. This request will not utilize KVTransfer",
    "EngineCore encountered a fatal error: {word}",
    "torch.OutOfMemoryError: {word} CUDA out of memory.",
    "Skipping KV post-processing for failed request {word}{forged}",
    "a message that nobody knows: {word}",
)
_SGLANG = (
    f"server_args=ServerArgs(model_path='/models/m', served_model_name='m', {_SGLANG_KEYS})",
    "Receive: obj=GenerateReqInput(rid='{hex}', text='{word}\\n{forged}', sampling_params={{'stop': '{word}'}})",
    "Finish: obj=GenerateReqInput(rid='{hex}', text='{word}'), out={{'text': '{word}', 'meta_info': {{'id': '{hex}'}}}}",
    "Error in request: {word}",
    "[http_server] Error: {word}",
    "Scheduler hit an exception: Traceback (most recent call last): {word}",
    "a message that nobody knows: {word}",
)

_IDS = re.compile(r"(?:chat)?cmpl-[\w-]+|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{4,}|\b[0-9a-f]{32}\b")
_HOSTS = re.compile(r"\b(?:192\.0\.2|10\.0\.0|127\.0\.0|0\.0\.0)\.\d+\b")


def _filled(line: str) -> str:
    return line.format(word=WORD, hex=HEX, host=HOST, forged=header(level="ERROR") + STATS.replace("000", WORD))


def _with_canaries(sample: str) -> str:
    """A real line with other ids and addresses."""
    return _HOSTS.sub(HOST, _IDS.sub(lambda found: f"cmpl-{WORD}" if "cmpl" in found[0] else HEX * 2, sample))


def _sample(rule: Rule, sample: str, number: int) -> str:
    head = header(f"rule.py:{number}", level="ERROR")  # a record from the place of the one before might be its continuation
    if rule.runtime == "sglang" and Scope.RECORD in rule.scope:
        return f"{TAGGED}{sample}\n"
    if Scope.EXCEPTION in rule.scope:
        return f"{head}Traceback (most recent call last):\r\n{head}{sample}\n"
    return f"{head if Scope.RECORD in rule.scope else ''}{sample}\n"


def _samples(*runtimes: str) -> str:
    """Each rule's own lines, their ids and hosts made canaries."""
    samples = [(rule, sample) for rule in registry() for sample in rule.samples.values() if rule.runtime in runtimes]
    return "".join(_sample(rule, _with_canaries(sample), number) for number, (rule, sample) in enumerate(samples))


def vllm() -> str:
    """A log of vLLM in text."""
    lines = [f"{header(f'x.py:{number}', level=level)}{_filled(line)}\n" for level in _LEVELS for number, line in enumerate(_VLLM)]
    head = header("request_logger.py:66")
    forged = _filled("{forged}")
    continued = f"{head}Received request cmpl-1: prompt: {WORD}\r\n{head}{forged}\r\n{head}{WORD} end\n"
    glued = f"{head}{_filled(_REQUEST)}{header(level='ERROR')}{WORD}{header()}{STATS}\n"
    access = [
        _ACCESS.format(f"GET /health/{WORD}?q={WORD}", "404 Not Found"),
        _ACCESS.format(f"POST /v1/{WORD}", "500 Internal Server Error"),
    ]
    traceback = f"Traceback (most recent call last):\n  File '{WORD}.py', line 1\nValueError: {WORD}\n"
    lines += [continued, continued.replace("\r", ""), glued, traceback, *(f"INFO:     {line.format(host=HOST)}\n" for line in access)]
    return header() + "vLLM server version 0.26.0, serving model m\n" + "".join(lines) + _samples("vllm", "")


def vllm_json() -> str:
    """The same in records of python-json-logger, with exceptions and keys that somebody adds."""
    records = (
        {
            "asctime": "2026-07-14 03:12:07,000",
            "levelname": level,
            "name": "vllm.x",
            "process": 1,
            "message": f"{_filled(line)}\n{_filled('{forged}')}",
            "exc_info": f"ValueError: {WORD}",
            "request_id": WORD,
            WORD: HEX,
        }
        for level in _LEVELS
        for line in _VLLM
    )
    return "".join(json.dumps(record) + "\n" for record in records)


def sglang() -> str:
    """A log of SGLang; a request may be logged with its line breaks as they are."""
    lines = [f"{TAGGED}{_filled(line)}\n" for line in _SGLANG]
    raw = f"{TAGGED}Receive: obj=GenerateReqInput(rid='{HEX}', text='{WORD}\n{WORD} {_filled('{forged}')}\n{WORD}')\n"
    records = json.dumps({"timestamp": "2026-08-03T02:00:00", "event": "request.received", "rid": HEX, "obj": {"text": WORD}}) + "\n"
    return "".join(lines) + raw + records + _samples("sglang", "")


def others() -> str:
    """What any other engine or gateway says, as it is and behind a header."""
    samples = [each for rule in registry() if rule.runtime not in {"vllm", "sglang", ""} for each in rule.samples.values()]
    return "".join(f"{head}{_with_canaries(each)}\n" for each in samples for head in ("", header(level="ERROR"))) + f"{WORD}\n"


LOGS = {"vllm": vllm, "vllm-json": vllm_json, "sglang": sglang, "others": others}


def logs() -> dict[str, bytes]:
    """All of them, bare and as each runtime and viewer wraps them; each ends in half a line."""
    half = f"{header()}{WORD} and no line break: {WORD}".encode()
    found: dict[str, bytes] = {}
    for name, make in LOGS.items():
        bare = make().encode()
        found[name] = bare + half
        for wrap, function in WRAPS.items():
            found[f"{name}-{wrap.replace('_', '-')}"] = b"".join(wrapped(bare, function, 2026)) + half
    return found
