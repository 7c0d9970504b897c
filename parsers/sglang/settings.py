"""SGLang's arguments: a repr of a dataclass, or since 0.5.23 of a dict, with secrets in it. Only known keys are read."""

import re
from typing import NamedTuple

from parsers.units import base_name, label

_NAMES = {
    "served_model_name": "model",
    "model_path": "model_path",
    "tp_size": "tp",
    "pp_size": "pp",
    "dp_size": "dp",
    "ep_size": "ep",
    "kv_cache_dtype": "kv_cache_dtype",
    "page_size": "block_size",
    "max_running_requests": "max_running_requests",
    "chunked_prefill_size": "max_batched_tokens",
    "context_length": "max_model_len",
    "speculative_algorithm": "spec_method",
    "speculative_num_draft_tokens": "draft_tokens",
    "disaggregation_mode": "kv_role",
    "disaggregation_transfer_backend": "kv_connector",
    "nnodes": "nodes",
    "node_rank": "node_rank",
}
_NUMBERS = frozenset(
    (
        "tp",
        "pp",
        "dp",
        "ep",
        "block_size",
        "max_running_requests",
        "max_batched_tokens",
        "max_model_len",
        "draft_tokens",
        "nodes",
        "node_rank",
    )
)
_WHOLE = re.compile(r"\d{1,15}", re.ASCII)
# Strings are skipped whole, so that what a user put into one is never taken for an argument.
_TOKEN = re.compile(
    r"""(?P<quoted>'[^'\\]*+(?:\\.[^'\\]*+)*'|"[^"\\]*+(?:\\.[^"\\]*+)*")|(?P<open>[{\[(])|(?P<close>[}\])])|(?P<next>, ?)|(?P<sign>[=:] ?)|(?P<word>[^\s'"{}\[\](),=:]++)|(?P<torn>['"])""",
    re.ASCII,
)


class Arguments(NamedTuple):
    """What is known of a launch; `whole` when the text was not cut."""

    settings: dict[str, str]
    whole: bool
    further_node: bool


def arguments(text: str) -> Arguments:
    """The settings in the repr of SGLang's arguments."""
    given, whole = _given(text)
    values = {}
    for name, setting in _NAMES.items():
        value = given.get(name, "")
        if value in ("", "None", "auto", "null") or (setting in _NUMBERS and not _WHOLE.fullmatch(value)):
            continue
        values[setting] = base_name(value) if setting in ("model", "model_path") else label(value)
    if "spec_method" in values:
        values["spec_method"] = values["spec_method"].lower()
        if "draft_tokens" in values:
            values["draft_length"] = str(max(0, int(values["draft_tokens"]) - 1))  # one of them is the model's own
    values.pop("draft_tokens", None)
    if "kv_role" not in values:
        values.pop("kv_connector", None)  # it has a default, and is not used by an engine of its own
    further_node = int(values.pop("nodes", "1")) > 1 and int(values.pop("node_rank", "0")) > 0
    values.pop("node_rank", None)
    return Arguments(values, whole, further_node)


def _given(text: str) -> tuple[dict[str, str], bool]:
    """The arguments of the outermost bracket whose value is a number, a word or a text; and whether that bracket closes."""
    found: dict[str, str] = {}
    depth = 0
    name = value = ""
    signed = False
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "torn":
            break
        if kind == "open":
            depth += 1
            if depth > 1:
                name = ""  # an argument that is an object
        elif kind in ("close", "next"):
            if depth == 1 and name and signed:
                found.setdefault(name, value)
            if depth == 1:
                name, value, signed = "", "", False
            depth -= kind == "close"
            if depth == 0:
                return found, True
        elif depth == 1 and kind == "sign":
            signed = True
        elif depth == 1 and kind in ("quoted", "word"):
            plain = token[0][1:-1] if kind == "quoted" else token[0]
            if signed:
                value = plain
            else:
                name = plain
    return found, False
