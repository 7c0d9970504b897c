"""Records that quote what a user sent: neither a traceback nor an exception in them is a failure of the engine."""

import re

from parsers.events import QUOTED, Nothing
from parsers.rules import rule


@rule(
    anchor=("Chat template rejected the request: ", "Error in preprocessing prompt inputs", "Error in applying chat template from request"),
    pattern=r"(?:Chat template rejected the request: |Error in (?:preprocessing prompt inputs|applying chat template from request))",
    source=(
        "Chat template rejected the request: %s",
        "Error in preprocessing prompt inputs",
        "Error in applying chat template from request",
    ),
    samples={
        "0.10.2": "Error in preprocessing prompt inputs",
        "0.33.0": "Chat template rejected the request: Unexpected role 'judge'",
    },
    since="0.6",
)
def prompt_refused(_: re.Match[str]) -> Nothing:
    """A prompt that could not be rendered, in the words of the template or of the exception."""
    return QUOTED


@rule(
    anchor=("HTTPException caught. ", "RequestValidationError caught. ", "Exception caught. "),
    pattern=r"(?:HTTPException|RequestValidationError|Exception) caught\. Request id: ",
    source=(
        "HTTPException caught. Request id: %s",
        "RequestValidationError caught. Request id: %s",
        "Exception caught. Request id: %s",
    ),
    samples={
        "0.26.0": "HTTPException caught. Request id: chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de",
        "0.33.0": "RequestValidationError caught. Request id: None",
    },
    since="0.18",
)
def request_refused(_: re.Match[str]) -> Nothing:
    """With --log-error-stack, the exception that a request was answered with."""
    return QUOTED


@rule(
    anchor=("Error in extracting tool call from response", "Error trying to handle streaming tool call", "Error in create_messages: "),
    pattern=r"Error (?:in extracting tool call from response|trying to handle streaming tool call|in create_messages: )",
    source=(
        "Error in extracting tool call from response.",
        "Error trying to handle streaming tool call.",
        "Error in create_messages: %s",
    ),
    samples={
        "0.26.0": "Error in extracting tool call from response.",
        "0.33.0": "Error trying to handle streaming tool call.",
    },
    since="0.6",
)
def answer_unreadable(_: re.Match[str]) -> Nothing:
    """What a model wrote is no tool call, or a request of another API failed."""
    return QUOTED


@rule(
    anchor="Request ",
    pattern=r"Request \S{1,256} failed (?:\((?:bad request|input error)\)|due to )",
    source=(
        "Request %s failed (bad request).",
        "Request %s failed (bad request): %s.",
        "Request %s failed (input error): %s.",
        "Request %s failed due to %s.",
    ),
    samples={
        "0.10.2": "Request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de failed (bad request).",
        "0.33.0": "Request chatcmpl-5f1c0a7e2d6b4a8f-8b21c9de failed (input error): This model's maximum context length is 2048 tokens.",
    },
    since="0.8",
)
def request_failed(_: re.Match[str]) -> Nothing:
    """One request's end with --enable-log-requests."""
    return QUOTED
