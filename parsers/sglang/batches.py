"""SGLang's periodic lines: one a prefill batch, and one every `--decode-log-interval` decode steps. An idle engine prints none."""

import re

from parsers.events import DecodeBatch, PrefillBatch
from parsers.rules import Series, rule
from parsers.units import PERCENT

# `, ` stands between the fields, and once within one: `est uncap acc len: 3.66 [3.58, 3.74]`.
_FIELD = re.compile(r"(#?[A-Za-z][\w+.()/ -]{0,48}): (nan|-?\d{1,15}(?:\.\d{1,9})?|True|False)(?=%|,| |$)", re.ASCII)
_BODY = r"(?: \[\d{1,15}\])?[,.] ([^\[\n]*+(?:\[(?!\d{4}-\d\d-\d\d )[^\[\n]*+)*)"
# What one line has in any release, by the kind of line: queues are named differently by both.
_PREFILL_QUEUES = {
    "#queue-req": "waiting",
    "#unbootstrapped-req": "bootstrap",
    "#prealloc-req": "bootstrap",
    "#bootstrap-req": "bootstrap",
    "#inflight-req": "inflight",
    "#transferring-req": "inflight",
}
_DECODE_QUEUES = {
    "#queue-req": "waiting",
    "#prealloc-req": "prealloc",
    "#transfer-req": "transfer",
    "#host-receive-req": "host_receive",
    "#retracted-req": "retracted",
}
_USAGE = {
    "token usage": "device",
    "full token usage": "full",
    "swa token usage": "swa",
    "mamba usage": "mamba",
    "gpu token usage": "device",
    "cpu token usage": "host",
}
_VERIFIED = {"cap len": "cap", "block accept len": "block"}
_ESTIMATE = re.compile(r"est uncap acc len: (\d{1,9}\.\d{1,9}) \[(\d{1,9}\.\d{1,9}), (\d{1,9}\.\d{1,9})\]", re.ASCII)
_IDLE = ("#running-req", "#queue-req", "#pending-token", "#cached-token", "#bootstrap-req", "#inflight-req")


def _fields(body: str) -> dict[str, float]:
    """The numbers of a line; what is no number in this interval (`nan`) is left out."""
    return {name: float(value) for name, value in _FIELD.findall(body) if value[-1].isdigit()}


def _told(name: str, body: str, fields: dict[str, float]) -> float | None:
    """What any line of the kind has. Of a number that none can be, only the name."""
    if name not in fields and f"{name}: " not in body:
        raise ValueError  # torn
    return fields.get(name)


def _named(fields: dict[str, float], names: dict[str, str]) -> dict[str, float]:
    return {name: fields[field] for field, name in names.items() if field in fields}


def _verified(body: str, fields: dict[str, float]) -> dict[str, float]:
    """The lengths of DSpark's blocks, in those of its modes that print them."""
    if "cap len" not in fields and "est uncap" not in body:
        return {}
    found = _named(fields, _VERIFIED)
    if estimate := _ESTIMATE.search(body):
        found |= zip(("uncapped", "uncapped_low", "uncapped_high"), map(float, estimate.groups()), strict=True)
    return found


@rule(
    runtime="sglang",
    anchor="Prefill batch",
    pattern="Prefill batch" + _BODY,
    source=("#new-seq: %s", "#new-token: %s", "#cached-token: %s"),
    samples={
        "sglang 0.4.2": "Prefill batch. #new-seq: 2, #new-token: 632, #cached-token: 126, cache hit rate: 80.75%, token usage: 0.00, #running-req: "
        "0, #queue-req: 0",
        "sglang 0.5.3": "Prefill batch. #new-seq: 1, #new-token: 103, #cached-token: 1, token usage: 0.00, #running-req: 0, #queue-req: 0, "
        "#prealloc-req: 2, #inflight-req: 1, ",
        "sglang 0.4.9": "Prefill batch. #new-seq: 1, #new-token: 256, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0",
        "sglang 0.5.12": "Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, "
        "#prealloc-req: 35, #inflight-req: 1, cuda graph: False, input throughput (token/s): 5.19",
        "sglang 0.5.17": "Prefill batch, #new-seq: 2, #new-token: 512, #cached-token: 128, token usage: 0.12, #running-req: 0, #queue-req: 0, "
        "#pending-token: 0, #bootstrap-req: 4, #inflight-req: 3, #optimistic-req: 1, cuda graph: False, input throughput (token/s): 512.00",
        "sglang 0.5.23": "Prefill batch, #new-seq: 1, #new-token: 300, #cached-token: 4096, token usage: 0.12, #running-req: 0, #queue-req: 0, "
        "#pending-token: 0, #replay-token: 128, cuda graph: False, input throughput (token/s): 428.00",
    },
    emits=[Series("prefill_tokens_total", {"kind": kind}) for kind in ("computed", "cached")]
    + [Series("probe_batches_total"), Series("probe_tokens_total")],
)
def prefill_batch(found: re.Match[str]) -> PrefillBatch:
    """One prefill batch, or one chunk of it. Before 0.5.23 the new tokens of each request are rounded up to whole pages."""
    fields = _fields(found[1])
    requests = _told("#new-seq", found[1], fields)
    hits = fields.get("cache hit rate")
    return PrefillBatch(
        requests,
        _told("#new-token", found[1], fields),
        fields.get("#cached-token"),
        fields.get("#running-req"),
        _named(fields, _PREFILL_QUEUES),
        _named(fields, _USAGE),
        fields.get("input throughput (token/s)"),
        hits * PERCENT if hits is not None else None,
        idle=requests == 1 and not any(fields.get(name) for name in _IDLE),
    )


@rule(
    runtime="sglang",
    anchor="Decode batch",
    pattern="Decode batch" + _BODY,
    source=("#running-req: %s", "gen throughput (token/s): %.2f"),
    samples={
        "sglang 0.5.3": "Decode batch. #running-req: 1, #token: 137, token usage: 0.00, pre-allocated usage: 0.00, #prealloc-req: 0, "
        "#transfer-req: 1, #retracted-req: 0, cuda graph: True, gen throughput (token/s): 1.06, #queue-req: 0, ",
        "sglang 0.4.9": "Decode batch. #running-req: 2, #token: 700, token usage: 0.01, accept len: 2.41, cuda graph: True, gen throughput "
        "(token/s): 88.12, #queue-req: 0",
        "sglang 0.5.17": "Decode batch, #running-req: 5, #token: 1234, token usage: 0.12, pre-allocated usage: 0.02, #prealloc-req: 2, "
        "#transfer-req: 3, #retracted-req: 1, cuda graph: True, gen throughput (token/s): 200.00, #queue-req: 0",
        "sglang 0.5.23": "Decode batch, #running-req: 6, #full token: 51200, full token usage: 0.02, #swa token: 20480, swa token usage: 0.08, "
        "accept len: 3.10, accept rate: 0.42, cap len: 4.50, block accept len: 3.60, est uncap acc len: 3.66 [3.58, 3.74], cuda graph: "
        "True, gen throughput (token/s): 500.00, #queue-req: 0",
    },
)
def decode_batch(found: re.Match[str]) -> DecodeBatch:
    """The running batch. The throughput is over the time since the line before, idle time included."""
    fields = _fields(found[1])
    return DecodeBatch(
        _told("#running-req", found[1], fields),
        _named(fields, _DECODE_QUEUES),
        _named(fields, _USAGE),
        fields.get("gen throughput (token/s)"),
        fields.get("accept len"),
        fields.get("accept rate"),
        pair="#retracted-req" in fields,
        verified=_verified(found[1], fields),
    )
