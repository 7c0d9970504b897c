"""Records that quote what a user sent, or what may hold it: nothing in them, or behind them without a header, is the engine's word."""

import re

from parsers.events import QUOTED, Nothing
from parsers.rules import rule


@rule(
    runtime="sglang",
    anchor=("Receive: obj=", "Receive OpenAI: obj=", "Finish: obj=", '{"timestamp": ', '{"event": '),
    pattern=r"(?:Receive(?: OpenAI)?: obj=|Finish: obj=|\{\"(?:timestamp|event)\": )",
    source=("Receive: obj=%s", "Finish: obj=%s"),
    samples={"sglang 0.5.17": "Receive: obj=GenerateReqInput(rid='9c1f', sampling_params={'max_new_tokens': 16})"},
)
def request_logged(_: re.Match[str]) -> Nothing:
    """With --log-requests, prompts and answers whole."""
    return QUOTED


@rule(
    runtime="sglang",
    anchor=(
        "Error in request: ",
        "[http_server] Error: ",
        "Grammar compilation raised an exception: ",
        "PD rebootstrap prefill failed for rid=",
        "Scheduler debug info:",
        "Pyspy dump for PID ",
    ),
    pattern=(
        r"(?:Error in request: |\[http_server\] Error: |Grammar compilation raised an exception: |PD rebootstrap prefill failed for rid="
        r"|Scheduler debug info:|Pyspy dump for PID )"
    ),
    source=("Error in request: %s", "[http_server] Error: %s", "Grammar compilation raised an exception: %s, ", "Scheduler debug info:"),
    samples={"sglang 0.5.17": "Scheduler debug info:", "sglang 0.5.23": "Scheduler debug info:"},
)
def request_quoted(_: re.Match[str]) -> Nothing:
    """An exception in a user's words, a schema, or the requests at hand with their tokens."""
    return QUOTED
