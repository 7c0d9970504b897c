"""Access lines: which are traffic, of which class, and where they stand among the events."""

import pytest

from parsers import access
from tests.parsers.reading import JIT, header, read


def _access(request="POST /v1/chat/completions", code="200 OK", client="10.42.3.17:41022", head="INFO:     "):
    return f'{head}{client} - "{request} HTTP/1.1" {code}\n'


@pytest.mark.parametrize(
    "head", ["INFO:     ", "(APIServer pid=1) INFO:     ", "\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO:     ", "\x1b[32mINFO\x1b[0m:     "]
)
def test_responses_are_counted_by_class(head):
    """From 2xx to 5xx, whatever stands before uvicorn's header."""
    codes = [
        "200 OK",
        "201 Created",
        "307 Temporary Redirect",
        "404 Not Found",
        "400 Bad Request",
        "422 Unprocessable Entity",
        "500 Internal Server Error",
    ]
    assert read("".join(_access(code=code, head=head) for code in codes)).responses == {"2xx": 2, "3xx": 1, "4xx": 3, "5xx": 1}


@pytest.mark.parametrize("request_line", [
    "GET /health", "GET /health?x=1", "GET /healthz", "GET /health_generate", "GET /metrics", "GET /metrics?name=x", "GET /ping", "POST /ping",
    "GET /version", "GET /v1/models", "GET /model_info", "GET /get_model_info", "GET /server_info", "GET /get_server_info",
])  # fmt: skip
def test_probes_and_scrapes_are_no_traffic(request_line):
    """They come whether or not anybody uses the engine."""
    reading = read((_access(request_line) + _access("GET /v1/completions")) * 2)
    assert reading.responses == {"2xx": 2}
    assert reading.log.levels["INFO"] == 4


@pytest.mark.parametrize("request_line", [
    "POST /v1/completions?api-version=1", "POST /v1/completions?next=/health", "GET /?x=HTTP/1.1", "DELETE /v1/responses/resp_1", "GET /v1/models/m", "GET /v1/health",
])  # fmt: skip
def test_a_query_string_does_not_hide_a_request(request_line):
    """The path decides, all of it."""
    assert read(_access(request_line)).responses == {"2xx": 1}


@pytest.mark.parametrize(
    "client",
    [
        "[2001:db8::1]:41022",
        "2001:db8::1:41022",
        pytest.param(
            "",
        ),
    ],
)
def test_any_client_counts(client):
    """IPv6, and none at all behind a Unix socket."""
    assert read(_access(client=client)).responses == {"2xx": 1}


@pytest.mark.parametrize("code", ["100 Continue", "600 x", "99", "2000", "abc", ""])
def test_what_has_no_status_code_is_no_response(code):
    """Only three digits from 2 to 5."""
    assert read(_access(code=code)).responses == {}


def test_the_first_response_of_a_process_comes_in_its_order():
    """Whether traffic came before the next event decides what that means; responses behind it are counted by block."""
    start = header("core.py:116", who="EngineCore pid=318") + "Initializing a V1 LLM engine (v0.26.0) with config: max_seq_len=1\n"
    jit = header("jit_monitor.py:79", level="WARNING") + JIT + "\n"
    assert read(jit + _access() + jit + _access() + jit).kinds == ["Compiled", "HttpResponses", "Compiled", "Compiled", "HttpResponses"]
    again = read(_access() * 2 + jit + start + jit + _access() * 3 + jit)
    old = ["HttpResponses", "Compiled", "HttpResponses"]
    assert again.kinds == [*old, "EngineStarted", "Compiled", "HttpResponses", "Compiled", "HttpResponses"]
    assert again.responses == {"2xx": 5}


def test_responses_of_the_old_process_are_told_before_the_new_one_starts():
    """Else they would count as traffic of the new one."""
    start = header("core.py:116", who="EngineCore pid=318") + "Initializing a V1 LLM engine (v0.26.0) with config: max_seq_len=1\n"
    kinds = read(_access() * 5 + start).kinds
    assert kinds[-1] == "EngineStarted"
    assert read(_access() * 5 + start).responses == {"2xx": 5}


def test_long_requests_are_not_kept():
    """A client that sends long addresses does not fill the memory, nor does its text stay there."""
    requests = access.Requests()
    assert requests.response_class("GET /v1/x?secret=" + "a" * 60_000 + ' HTTP/1.1" 200 OK') == "2xx"
    assert max(map(len, requests.known), default=0) < 1024


def test_a_request_that_was_torn_off_hides_no_other_line():
    """Nothing behind the mark must not be taken for every line without a mark."""
    start = header("core.py:116", who="EngineCore pid=318") + "Initializing a V1 LLM engine (v0.26.0) with config: max_seq_len=1\n"
    torn = 'INFO:     10.42.3.17:41022 - "\n'
    assert read(start + _access() + torn + "INFO:     Application startup complete.\n").kinds[-1] == "EngineReady"
