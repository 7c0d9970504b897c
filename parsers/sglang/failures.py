"""Deaths and stalls of an SGLang engine, and requests that it sends back or cuts."""

import re

from parsers.events import EngineFailure, HealthCheckFailed, Retracted, Truncated
from parsers.rules import Scope, Series, rule

_LINE = Scope.RECORD | Scope.BARE


def _failure(*kinds: str) -> list[Series]:
    return [Series("engine_failures_total", {"kind": kind}) for kind in kinds]


@rule(
    runtime="sglang",
    anchor=("Scheduler hit an exception: ", "TpModelWorkerClient hit an exception: "),
    pattern=r"(?:Scheduler|TpModelWorkerClient) hit an exception: [^\n]*+",
    source=("Scheduler hit an exception: %s",),
    samples={
        "sglang 0.5.5": "Scheduler hit an exception: Traceback (most recent call last):",
        "sglang 0.5.17": "Scheduler hit an exception: Traceback (most recent call last):",
        "sglang 0.5.23": "Scheduler hit an exception: Traceback (most recent call last):",
    },
    scope=_LINE,
    emits=_failure("scheduler_exception"),
)
def scheduler_failed(_: re.Match[str]) -> EngineFailure:
    """A rank ends; the others follow with exceptions of their own."""
    return EngineFailure("scheduler_exception")


@rule(
    runtime="sglang",
    anchor=(
        "DetokenizerManager hit an exception: ",
        "TokenizerManager hit an exception: ",
        "DataParallelController hit an exception: ",
        "MultiDetokenizerRouter hit an exception: ",
        "MultiTokenizerRouter hit an exception: ",
        "GrpcRequestManager hit an exception: ",
    ),
    pattern=r"(?:(?:Multi)?(?:Det|T)okenizer(?:Manager|Router)|MultiDetokenizerRouter|DataParallelController|GrpcRequestManager) hit an exception: [^\n]*+",
    source=(
        "DetokenizerManager hit an exception: %s",
        "TokenizerManager hit an exception: %s",
        "DataParallelController hit an exception: %s",
        "GrpcRequestManager hit an exception: %s",
    ),
    samples={
        "sglang 0.5.5": "GrpcRequestManager hit an exception: Traceback (most recent call last):",
        "sglang 0.5.17": "DetokenizerManager hit an exception: Traceback (most recent call last):",
    },
    scope=_LINE,
    emits=_failure("worker_died"),
)
def manager_failed(_: re.Match[str]) -> EngineFailure:
    """A process around the scheduler ends."""
    return EngineFailure("worker_died")


@rule(
    runtime="sglang",
    anchor="Subprocess ",
    pattern=r"Subprocess [\w.-]{1,64} \(pid=\d{1,9}\) crashed with exit code -?\d{1,9}\.[^\n]{0,200}",
    source="crashed with exit code %s. Triggering SIGQUIT for cleanup...",
    samples={
        "sglang 0.5.17": "Subprocess scheduler_0 (pid=412) crashed with exit code -6. Triggering SIGQUIT for cleanup...",
        "sglang 0.5.23": "Subprocess scheduler_0 (pid=412) crashed with exit code -6. Triggering SIGQUIT for cleanup...",
    },
    scope=_LINE,
    emits=_failure("worker_died"),
    since="0.5.10",
)
def subprocess_crashed(_: re.Match[str]) -> EngineFailure:
    """A process ended without a word, as in native code."""
    return EngineFailure("worker_died")


@rule(
    runtime="sglang",
    anchor=("Received sigquit from a child process.", "SIGQUIT received. "),
    pattern=r"(?:Received sigquit from a child process\.|SIGQUIT received\. signum=)[^\n]{0,200}",
    source=("Received sigquit from a child process. It usually means the child failed.", "SIGQUIT received. "),
    samples={
        "sglang 0.5.4": "Received sigquit from a child process. It usually means the child failed.",
        "sglang 0.5.17": "Received sigquit from a child process. It usually means the child failed.",
        "sglang 0.5.23": "Received sigquit from a child process. It usually means the child failed.",
    },
    scope=_LINE,
    emits=_failure("engine_dead", "startup_failed"),
)
def child_failed(_: re.Match[str]) -> EngineFailure:
    """The main process ends the engine, since a child asked for it."""
    return EngineFailure("engine_dead")


@rule(
    runtime="sglang",
    anchor=(
        "Scheduler watchdog timeout ",
        "DetokenizerManager watchdog timeout ",
        "TokenizerManager watchdog timeout ",
        "Watchdog timeout (self.",
    ),
    pattern=r"(?:[\w ]{1,64} watchdog|Watchdog) timeout \(self\.watchdog_timeout=[\d.]{1,16}[^\n]{0,64}",
    source=(" watchdog timeout ", "Watchdog timeout ("),
    samples={
        "sglang 0.5.3": "Watchdog timeout (self.watchdog_timeout=300)",
        "sglang 0.5.17": "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
        "sglang 0.5.23": "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    },
    scope=_LINE,
    emits=_failure("watchdog_timeout"),
)
def watchdog_timeout(_: re.Match[str]) -> EngineFailure:
    """A process made no step for so long; a soft watchdog only reports it."""
    return EngineFailure("watchdog_timeout")


@rule(
    runtime="sglang",
    anchor=tuple(
        f"{error}{what}"
        for what in ("Prefill out of memory.", "Decode out of memory.", "Out of memory. Try to lower your batch size.")
        for error in ("", "RuntimeError: ")
    ),
    pattern=r"(?:RuntimeError: )?(?:Prefill out|Decode out|Out) of memory\. Try to lower your batch size\.",
    source=("Prefill out of memory. Try to lower your batch size.", "Decode out of memory. Try to lower your batch size."),
    samples={
        "sglang 0.5.17": "Prefill out of memory. Try to lower your batch size.",
        "sglang 0.5.23": "Decode out of memory. Try to lower your batch size.",
    },
    scope=_LINE | Scope.EXCEPTION,
    emits=_failure("kv_pool_exhausted"),
)
def pool_exhausted(_: re.Match[str]) -> EngineFailure:
    """The KV pool, not the device, ran out of room in the middle of a batch."""
    return EngineFailure("kv_pool_exhausted")


@rule(
    runtime="sglang",
    anchor="retract_decode: aborted ",
    # A client may choose the id; all that can stand behind it means the same.
    pattern=(
        r"retract_decode: aborted (?:last request [^\n]{1,256}? due to OOM"
        r"|request [^\n]{1,256}?: (?:Retraction host KV pool exhausted|Retracted under decode memory pressure without a KV backup))[^\n]*+"
    ),
    source=("retract_decode: aborted last request %s due to OOM",),
    samples={
        "sglang 0.5.17": "retract_decode: aborted last request 3f9a5c0e8b6d4a17a3f2c9d0e1b2a3c4 due to OOM",
        "sglang 0.5.23": "retract_decode: aborted request 3f9a5c0e8b6d4a17a3f2c9d0e1b2a3c4: Retraction host KV pool exhausted. Aborting the request.",
    },
    scope=_LINE,
    emits=_failure("kv_pool_exhausted"),
    since="0.5.10",
)
def retracted_for_good(_: re.Match[str]) -> EngineFailure:
    """A request that had to leave the KV pool and cannot come back: there is no room even for the last one, or for its KV elsewhere."""
    return EngineFailure("kv_pool_exhausted")


@rule(
    runtime="sglang",
    anchor=(
        "Exception: Capture cuda graph failed: ",
        "Exception: Capture frozen-KV MTP cuda graph failed: ",
        "RuntimeError: Capture prefill CUDA graph failed: ",
        "RuntimeError: Initialization failed. Please see the error messages above.",
        "RuntimeError: Not enough memory.",
        "RuntimeError: Loaded weights leave no ",
        "ValueError: Loaded weights leave no ",
    ),
    pattern=(
        r"(?:(?:Runtime|Value)Error: (?:Not enough memory\. Please try to increase --mem-fraction-static"
        r"|Loaded weights leave no GPU memory for the KV cache|Initialization failed\. Please see the error messages above\.)"
        r"|(?:Exception|RuntimeError): Capture (?:frozen-KV MTP |prefill )?(?:cuda|CUDA) graph failed: )"
    ),
    source=(
        "Not enough memory. Please try to increase --mem-fraction-static.",
        "Loaded weights leave no GPU memory for the KV cache under ",
        "Initialization failed. Please see the error messages above.",
        "Capture cuda graph failed: %s",
    ),
    samples={
        "sglang 0.5.17": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "sglang 0.5.23": "RuntimeError: Capture prefill CUDA graph failed: CUDA error: out of memory",
    },
    scope=Scope.EXCEPTION,
    emits=_failure("startup_failed"),
)
def sglang_start_failed(_: re.Match[str]) -> EngineFailure:
    """The start ends, most of the time since nothing is left for the KV pool."""
    return EngineFailure("startup_failed")


@rule(
    runtime="sglang",
    anchor="Initialization failed. warmup error: ",
    pattern=r"Initialization failed\. warmup error: [^\n]*+",
    source="Initialization failed. warmup error: %s",
    samples={"sglang 0.5.17": "Initialization failed. warmup error: Traceback (most recent call last):"},
    scope=_LINE,
    emits=_failure("startup_failed"),
)
def first_request_failed(_: re.Match[str]) -> EngineFailure:
    """The engine's own first request failed, and it ends."""
    return EngineFailure("startup_failed")


@rule(
    runtime="sglang",
    anchor="Health check failed. Server couldn't get a response from detokenizer ",
    pattern=r"Health check failed\. Server couldn't get a response from detokenizer for last ",
    source="Health check failed. Server couldn't get a response from detokenizer for last ",
    samples={
        "sglang 0.5.17": "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 06:59:39. "
        "last_heartbeat time: 06:58:51",
        "sglang 0.5.23": "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 06:59:39. "
        "last_heartbeat time: 06:58:51",
    },
    emits=[Series("health_check_failures_total")],
)
def health_check_failed(_: re.Match[str]) -> HealthCheckFailed:
    """A probe got no token within SGLANG_HEALTH_CHECK_TIMEOUT (20 s)."""
    return HealthCheckFailed()


@rule(
    runtime="sglang",
    anchor="KV cache pool is full. Retract requests. ",
    pattern=r"KV cache pool is full\. Retract requests\. #retracted_reqs: (\d{1,9})",
    source="KV cache pool is full. Retract requests. ",
    samples={
        "sglang 0.5.17": "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 4096, #new_token_ratio: 0.2000 -> 0.6100",
        "sglang 0.5.23": "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 4096, #new_token_ratio: 0.2000 -> 0.6100",
    },
    emits=[Series("requests_retracted_total")],
)
def retracted(found: re.Match[str]) -> Retracted:
    """Running requests go back to the queue; all ranks of an engine say so."""
    return Retracted(float(found[1]))


@rule(
    runtime="sglang",
    anchor=("Request length is longer than the KV cache pool size ", "Requested token count ("),
    pattern=(
        r"(?:Request length is longer than the KV cache pool size or the max context length\. Truncated\."
        r"|Requested token count \(\d{1,15} input \+ \d{1,15} new\) exceeds the model's context length \(\d{1,15} tokens\)\. Truncating )"
    ),
    source=("Request length is longer than the KV cache pool size or ", "Truncating max_new_tokens."),
    samples={
        "sglang 0.5.17": "Requested token count (5000 input + 8192 new) exceeds the model's context length (8192 tokens). Truncating max_new_tokens.",
    },
    emits=[Series("requests_truncated_total")],
)
def truncated(_: re.Match[str]) -> Truncated:
    """A prompt or an answer is cut, with --allow-auto-truncate."""
    return Truncated()
