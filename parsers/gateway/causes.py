"""Why a request failed, in AIBrix's own words; what a pod or a user said behind them is not looked at."""

import re

_ID = r"[\w.-]{1,253}"
_WRAPPED = (
    rf"(?:(?:prefill request failed for request|failed to filter prefill/decode pods for request|engine validation failed for request)"
    rf" {_ID}(?:, pod {_ID})?: ){{0,4}}"
)
_CAUSE = re.compile(
    _WRAPPED + r"(?P<cause>failed to execute http prefill request|http prefill request failed with status [1-5]\d\d"
    r"|(?:prefill or decode|prefill|decode) pods are not ready: prefill=\d{1,6}, decode=\d{1,6}"
    r"|target (?:prefill|decode) {1,2}pod is nil|no prompt-length bucket matches prompt length \d{1,9} and no combined pods available"
    r"|no (?:ready )?pods for routing)",
    re.ASCII,
)
_OF_THE_ENGINES = re.compile(rf"(?:failed to filter prefill/decode pods|engine validation failed) for request {_ID}: ", re.ASCII)
_TIMED_OUT = ("context deadline exceeded", "(Client.Timeout exceeded while awaiting headers)")
_CLIENT_GONE = "context canceled"
_EXECUTED = "failed to execute http prefill request"

PREFILL = "prefill_other"
"""What is known when the line says that the prefill failed, and its words say no more."""

REASONS = (
    "no_pod", "no_prefill", "no_decode", "no_pair", "prefill_timeout", "prefill_unreachable", "prefill_rejected", PREFILL,
    "decode_unreachable", "decode_rejected", "not_allowed", "other",
)  # fmt: skip


def redacted(error: str) -> str:
    """The gateway's own words in the first line of an error, without ids, addresses and what a pod answered."""
    found = _CAUSE.match(error)
    return found["cause"] if found else ""


def reason(error: str, otherwise: str) -> str:
    """The reason in an error, `otherwise` when it is none of the known ones; empty when the client went away."""
    found = _CAUSE.match(error)
    if found is None:
        return "no_pair" if _OF_THE_ENGINES.match(error) else otherwise
    cause = found["cause"]
    if cause == _EXECUTED:
        if error.endswith(_CLIENT_GONE):
            return ""
        return "prefill_timeout" if error.endswith(_TIMED_OUT) else "prefill_unreachable"
    if cause.startswith("http "):
        return "prefill_rejected"
    if "not ready" in cause:
        return "no_prefill" if cause.startswith("prefill pods") or "prefill=0," in cause else "no_decode"
    return "no_pod" if cause.endswith("pods for routing") else "no_pair"
