"""The lines of gateways: klog's values, errors of several lines, zap, Rust's spans, and what a client may forge in them."""

import json

import pytest

from parsers.events import NOTHING
from parsers.gateway.causes import PREFILL, REASONS, reason, redacted
from parsers.gateway.heads import klog_text
from parsers.gateway.klog import Fields
from parsers.gateway_events import GatewayAnswered, GatewayFailed, GatewayKvParams, GatewayMode, GatewayPrefilled, GatewayRouted
from parsers.lines import LINE_LIMIT
from parsers.rules import Scope, registry
from tests.parsers.reading import gateway_header, header, read, utc

KLOG = gateway_header("aibrix")
KLOG_ERROR = gateway_header("aibrix", level="E")
RUST = gateway_header("sglang_router", level="E")
REQUEST = 'http_request{method=POST uri=/v1/chat/completions version=HTTP/1.1 module="smg" request_id="r1"}: '
ROUTER = "smg::routers::http::pd_router: /build/src/routers/http/pd_router.rs:170: "
SELECTED = '"selected prefill/decode pods" request_id="a" prefill_pod="p" decode_pod="d"\n'


# -- klog's values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a="1" b=2 c=true', {"a": "1", "b": "2", "c": "true"}),
        (' request_id="6f0c" err="say \\"hi\\" request_id=\\"forged\\"" n=1', {"request_id": "6f0c", "err": 'say \\"hi\\" request_id=\\"forged\\"', "n": "1"}),
        ('a="ends in a backslash\\\\" b="2"', {"a": "ends in a backslash\\\\", "b": "2"}),
        ('a="" b=<nil> c={"x":1}', {"a": "", "b": "<nil>", "c": "{"}),
        ('a="torn', {}),
        ('a="1" torn', {"a": "1"}),
        ('a="1" a="2"', {"a": "1"}),
        ("", {}),
        ("no values here a=1", {}),
    ],
    ids=["kinds", "a quoted key", "backslashes", "odd values", "torn in a value", "torn in a key", "twice", "nothing", "prose"],
)  # fmt: skip
def test_values_are_read_in_order(text, expected):
    """What stands inside of a value is no key, and what is torn ends the line."""
    assert Fields(text, 0) == expected


@pytest.mark.parametrize("key", ["request_id", "requestID", "requestId", "x-request-id"])
def test_a_request_has_one_id_however_it_is_spelt(key):
    """AIBrix spells the key in three ways, llm-d's picker in a fourth."""
    assert Fields(f'model="m" {key}="6f0c"', 0).request == "6f0c"


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("100.1ms", 0.1001),
        ("1h2m3.5s", 3723.5),
        ("310µs", 0.00031),
        ("310μs", 0.00031),
        ("12ns", 1.2e-8),
        ("1m0s", 60.0),
        ("0s", 0.0),
        ("-35.2ms", None),
        ("-2562047h47m16.854775808s", None),
        ("2562047h47m16.854775807s", None),
        ("", None),
        ("soon", None),
        ("1.2.3s", None),
    ],
)
def test_go_durations_that_are_possible_have_seconds(duration, seconds):
    """A time that was never set makes a duration negative or saturates it: such a number would poison a mean."""
    assert Fields(f'd="{duration}"', 0).seconds("d") == (None if seconds is None else pytest.approx(seconds))


# -- why a request failed ----------------------------------------------------------------------------------------------

POST = 'Post "http://10.0.0.11:8000/v1/completions": '
CHAIN = "prefill request failed for request 6f0c: prefill request failed for request 6f0c, pod dsv4-prefill-head-abcde: "


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (f"failed to execute http prefill request: {POST}context deadline exceeded", "prefill_timeout"),
        (f"{CHAIN}failed to execute http prefill request: {POST}context deadline exceeded", "prefill_timeout"),
        (
            f"failed to execute http prefill request: {POST}net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
            "prefill_timeout",
        ),
        (f"{CHAIN}failed to execute http prefill request: {POST}context canceled", ""),
        (f"failed to execute http prefill request: {POST}dial tcp 10.0.0.11:8000: connect: connection refused", "prefill_unreachable"),
        (f"failed to execute http prefill request: {POST}EOF", "prefill_unreachable"),
        ("http prefill request failed with status 500: context deadline exceeded", "prefill_rejected"),
        ("failed to filter prefill/decode pods for request 6f0c: prefill pods are not ready: prefill=0, decode=1", "no_prefill"),
        ("failed to filter prefill/decode pods for request 6f0c: decode pods are not ready: prefill=2, decode=0", "no_decode"),
        ("failed to filter prefill/decode pods for request 6f0c: prefill or decode pods are not ready: prefill=0, decode=0", "no_prefill"),
        ("failed to filter prefill/decode pods for request 6f0c: prefill or decode pods are not ready: prefill=1, decode=0", "no_decode"),
        ("failed to filter prefill/decode pods for request 6f0c: target prefill  pod is nil", "no_pair"),
        (
            "failed to filter prefill/decode pods for request 6f0c: no prompt-length bucket matches prompt length 9 and no combined pods available",
            "no_pair",
        ),
        ("failed to filter prefill/decode pods for request 6f0c: decode scoring failed", "no_pair"),
        ("engine validation failed for request 6f0c: different engines", "no_pair"),
        ("no ready pods for routing", "no_pod"),
        ("somebody wrote: prefill pods are not ready: prefill=0, decode=1", PREFILL),
        ("", PREFILL),
    ],
)
def test_a_reason_is_the_gateways_own_word(error, expected):
    """It is read from the beginning; what a pod or a user said comes behind it, and a client that went away is no failure."""
    assert reason(error, PREFILL) == expected
    assert not expected or expected in REASONS


def test_what_is_kept_of_an_error_names_nobody():
    """Between the lines of a value only the gateway's literals are remembered."""
    assert redacted(f"{CHAIN}http prefill request failed with status 500: secret") == "http prefill request failed with status 500"
    assert redacted("secret") == ""


# -- errors of several lines -------------------------------------------------------------------------------------------

SEVERAL = f"""{KLOG_ERROR}"prefill_request_failed" err=<
\thttp prefill request failed with status 500: {{"error":
\t{{"message":"x"}}}}
 > request_id="6f0c" llm_engine="vllm" elapsed="2.1s"
"""
FAILED = [GatewayFailed("prefill_rejected", "6f0c")]


@pytest.mark.parametrize("chunks", [[SEVERAL], SEVERAL.splitlines(keepends=True), list(SEVERAL)], ids=["whole", "lines", "characters"])
def test_an_error_of_several_lines_is_one_record(chunks):
    """Its reason stands in the first line of the value, the request behind the last."""
    reading = read(*chunks)
    assert reading.events == FAILED
    assert reading.heads[0].time == pytest.approx(utc(2026, 6, 17, 17, 9, 33) + 0.100001)
    assert reading.log.levels["ERROR"] == 1
    assert reading.log.levels["unknown"] == 3
    assert not sum(reading.log.unrecognised.values())


@pytest.mark.parametrize(
    "inside",
    [
        KLOG_ERROR + SELECTED.strip(),
        header() + "Application startup complete.",
        "INFO:     Application startup complete.",
        "[2026-08-03 02:00:00 TP0] The server is fired up and ready to roll!",
        f' > request_id="forged"\t{KLOG_ERROR}{SELECTED.strip()}',
        json.dumps({"message": "Application startup complete.", "level": "INFO"}),
        "x" * (LINE_LIMIT * 4),
    ],
    ids=["klog", "vLLM", "uvicorn", "SGLang", "an end", "JSON", "endless"],
)
def test_nothing_in_a_value_is_a_record(inside):
    """klog puts a tab before each line of it."""
    log = SEVERAL.replace(" > ", f"\t{inside}\n > ")
    assert read(log).events == FAILED


def test_an_error_that_never_ends_is_skipped():
    """The next record is read, and the one that was given up stands out."""
    for rest in ("", "\thttp prefill request failed with status 500: x\n"):
        reading = read(f'{KLOG_ERROR}"prefill_request_failed" err=<\n{rest}{KLOG}{SELECTED}')
        assert reading.events == [GatewayRouted("pd", "a")]
        assert reading.log.unrecognised["ERROR"] == 1


def test_an_error_of_thousands_of_lines_is_given_up():
    """A value without end must not swallow the log."""
    log = f'{KLOG_ERROR}"prefill_request_failed" err=<\n' + "\tx\n" * 10_000 + KLOG + SELECTED
    assert read(log).events == [GatewayRouted("pd", "a")]


def test_another_value_of_several_lines_changes_nothing():
    """The record before it was complete."""
    log = f'{gateway_header("llm-d", level="E")}"prefill request failed" err="prefill returned 503" request_id="a" body=<\n\tx\n\ty\n >\n{KLOG}{SELECTED}'
    reading = read(log)
    assert reading.events == [GatewayFailed("prefill_rejected", "a"), GatewayRouted("pd", "a")]
    assert not sum(reading.log.unrecognised.values())


def test_an_unknown_error_of_several_lines_is_one_unrecognised_record():
    """Nothing of it is kept meanwhile."""
    reading = read(f'{KLOG_ERROR}"secret" err=<\n', '\tsecret\n > requestID="secret"\n')
    assert reading.log.unrecognised["ERROR"] == 1
    assert reading.events == []


# -- other ways to log -------------------------------------------------------------------------------------------------

GO_RULES = [rule for rule in registry() if Scope.GATEWAY in rule.scope and rule.runtime in ("aibrix", "llm-d", "")]


def _zap(sample):
    """A sample of klog's as message and fields."""
    message, _, rest = sample[1:].partition('"')
    return message, {key: value.replace('\\"', '"') for key, value in Fields(rest, 0).items()}


@pytest.mark.parametrize(
    "rule", [rule for rule in GO_RULES if rule.name not in ("gateway_settings", "prefill_named_kv")], ids=lambda rule: rule.name
)
def test_zap_says_the_same(rule):
    """As JSON and for people."""
    for sample in rule.samples.values():
        message, fields = _zap(sample)
        error = fields.pop("err", None)
        fields |= {"error": error} if error else {}
        expected = rule.build(rule.pattern.match(klog_text(message, fields)))
        record = {"level": "error", "ts": "2026-06-17T17:09:33Z", "caller": "proxy/x.go:117", "msg": message, **fields}
        console = f"2026-06-17T17:09:33.077+0800\tERROR\tworkloads/x.go:189\t{message}\t{json.dumps(fields)}"
        for line in (json.dumps(record), console):
            reading = read(line + "\n")
            assert reading.told == [repr(expected)] * (expected is not NOTHING)
            assert not sum(reading.log.unrecognised.values())


def test_the_parameters_of_a_prefill_in_zaps_json():
    """As an object, not as text."""
    record = {
        "level": "Level(-5)",
        "ts": "2026-06-17T17:09:33Z",
        "logger": "proxy server on port 8000",
        "msg": "received prefiller response",
    }
    assert read(json.dumps(record | {"kv_transfer_params": {"remote_port": 5600}}) + "\n").events == [GatewayKvParams("injected", None)]
    assert read(json.dumps(record | {"kv_transfer_params": None}) + "\n").events == []


REPORTED = {
    "rbg": '{"level":"ERROR","time":"2026-07-08T09:47:41.879Z","caller":"workloads/rolebasedgroup_controller.go:544","message":"Failed to reconcile '
    'workload","error":"RoleInstanceSet.workloads.x-k8s.io \\"stress-rbg-0000-role-1\\" not found"}',
    "rbg 0.4": "2025-10-28T11:16:17.077+0800\tERROR\tworkloads/rolebasedgroup_controller.go:189\tFailed to reconcile workload\t"
    '{"controller": "workloads-rolebasedgroup", "namespace": "default", "name": "rbg-example", "error": "sts rbg-example-role-2 has no revision"}',
    "controller-runtime": "2020-11-17T09:07:28.109Z\tERROR\tcontroller\tReconciler error\t"
    '{"name": "example", "error": "Operation cannot be fulfilled on rabbitmqclusters.rabbitmq.com \\"example\\": the object has been modified; '
    'please apply your changes to the latest version and try again"}',
    "llm-d": '{"level":"error","ts":"2026-01-26T07:30:35Z","logger":"proxy server on port 8000","msg":"http: proxy error",'
    '"decoderURL":"http://localhost:8200","error":"context canceled","stacktrace":"net/http.(*conn).serve"}',
    "aibrix": 'E0303 00:05:28.686093       1 gateway.go:502] "client closed stream (EOF) before completion" requestID="89b2bf28" model="m"',
}


@pytest.mark.parametrize("line", REPORTED.values(), ids=REPORTED)
def test_what_passes_by_itself_is_no_unknown_error(line):
    """Controllers that try again, and clients that went away."""
    reading = read(f"{line}\n" * 20)
    assert reading.events == []
    assert reading.log.levels["ERROR"] == 20
    assert not sum(reading.log.unrecognised.values())


def test_a_controller_that_cannot_go_on_stands_out():
    """Only what is known to pass is known."""
    error = 'create rbg error: rolebasedgroups.workloads.x-k8s.io is forbidden: User "x" cannot create resource'
    record = {
        "level": "ERROR",
        "time": "2025-09-02T01:12:47.892Z",
        "caller": "workloads/x.go:97",
        "message": "Reconciler error",
        "error": error,
    }
    assert read(json.dumps(record) + "\n").log.unrecognised["ERROR"] == 1


# -- SGLang's router and vLLM's proxy ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (REQUEST + ROUTER + "Failed to select PD pair error=No available prefill workers (all circuits open or un", GatewayFailed("no_prefill", "r1")),
        (REQUEST + ROUTER + "Failed to select PD pair error=No available decode workers (all circuits open or unhealthy)", GatewayFailed("no_decode", "r1")),
        (ROUTER + "Failed to select PD pair error=Failed to select prefill worker", GatewayFailed("no_prefill", None)),
        (ROUTER + "Failed to select PD pair error=overloaded", GatewayFailed("no_pair", None)),
        (REQUEST + ROUTER + "Decode request failed decode_url=http://10.0.0.2 error=x", GatewayFailed("decode_unreachable", "r1")),
        (REQUEST + ROUTER + "Prefill server returned error status prefill_url=http://10.0.0.1 status=503 Service Unavailable", GatewayFailed("prefill_rejected", "r1")),
        (REQUEST + ROUTER + "Prefill server returned error status prefill_url=http://10.0.0.1 status=400 Bad Request", None),
        (
            ("http_request{method=POST uri=/generate version=HTTP/1.1}:http_request{method=POST uri=/generate version=HTTP/1.1 request_id=req-a "
            "status=200 OK latency=1.489607ms}: sglang_router_rs::response: src/middleware.rs:169: finished processing request"),
            GatewayAnswered(200, "req-a", True),
        ),
        (
            'http_request{method=POST uri=/v1/embeddings version=HTTP/1.1 request_id="r" status_code=400 latency=9}: smg::response: request failed with client error',
            GatewayAnswered(400, "r", False),
        ),
        ('http_request{method=GET uri=/health version=HTTP/1.1 request_id="r" status_code=503}: smg::response: request failed with server error', None),
        ('http_request{method=POST uri=/workers version=HTTP/1.1 request_id="r" status_code=200}: smg::response: finished processing request', None),
        ("smg::server: src/server.rs:794: Starting router on 0.0.0.0:30000 | mode: Regular { worker_urls: [] } | policy: Random", GatewayMode(pd=False)),
    ],
)  # fmt: skip
def test_lines_of_the_router(line, expected):
    """With the request's spans and without, of old releases and new."""
    reading = read(f"{RUST}{line}\n")
    assert reading.told == ([repr(expected)] if expected else [])
    assert reading.log.levels["ERROR"] == 1
    assert not sum(reading.log.unrecognised.values())


@pytest.mark.parametrize(
    "forged",
    [
        f"}}: {ROUTER}Failed to select PD pair error=x",
        f'\\"}}: {ROUTER}Failed to select PD pair error=x',
        f"x\\n2026-06-17 17:09:33 ERROR {ROUTER}Failed to select PD pair error=x",
    ],
)
def test_a_client_cannot_forge_a_line_in_its_id(forged):
    """Rust escapes the quotes of what a client sent."""
    line = f'http_request{{method=POST uri=/generate version=HTTP/1.1 request_id="{forged}"}}: smg::request: started processing request\n'
    assert read(RUST + line).events == []


def test_the_proxy_prefills_and_says_no_more():
    """A miss and a client without a conversation are normal."""
    lines = ("[6f0c] conv=: cache MISS", "conv=c: cached D blocks (remote_request_id=x, blocks=3)", "[6f0c] Prefill done in 123ms")
    reading = read("".join(f"{gateway_header('vllm_proxy', level='W')}{line}\n" for line in lines))
    assert reading.events == [GatewayPrefilled(0.123, None, decided=True)]
    assert not sum(reading.log.unrecognised.values())


# -- beside an engine --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "runtime"),
    [
        (KLOG + SELECTED, "aibrix"),
        (f'{gateway_header("llm-d")}"fallback to decode" request_id="a"\n', "llm-d"),
        (RUST + ROUTER + "Decode request failed\n", "sglang_router"),
        (f"{gateway_header('vllm_proxy')}[a] Prefill done in 1ms\n", "vllm_proxy"),
        (header() + "Application startup complete.\n" + KLOG + SELECTED, "vllm"),
        (f'{KLOG}"something else" request_id="a"\n', ""),
        (REPORTED["rbg"] + "\n", ""),
    ],
)
def test_a_log_is_of_whoever_is_known_first(log, runtime):
    """A header of klog's alone is any Go program's."""
    assert read(log).log.runtime == runtime


def test_a_user_who_quotes_a_gateway_in_a_prompt_counts_for_nothing():
    """Behind an engine's header, and within a body that a gateway logs."""
    body = json.dumps(KLOG + SELECTED)
    assert read(header("request_logger.py:66") + f"Received request cmpl-1: prompt: {KLOG}{SELECTED}").kinds.count("GatewayRouted") == 0
    assert read(f'{gateway_header("llm-d")}"sending request to prefiller" logger="proxy server" url="x" body={body}\n').events == []


@pytest.mark.parametrize("text", [SELECTED, SEVERAL[len(KLOG_ERROR) :], REQUEST + ROUTER + "Decode request failed\n"])
def test_a_torn_line_is_counted_and_skipped(text):
    """At any of its characters."""
    for prefix in (KLOG_ERROR, RUST):
        for end in range(len(prefix) + len(text.rstrip())):
            reading = read((prefix + text)[:end])
            assert not reading.log.rule_errors
            assert len(reading.events) <= 1
