"""Warnings and errors of SGLang's that begin like a failure and are hints at most: another line tells what came of them."""

import re

from parsers.events import NOTHING, Nothing
from parsers.rules import rule


@rule(
    runtime="sglang",
    anchor=("Some requests timed out when bootstrapping, ", "Some requests fail to receive KV Cache transfer done signal "),
    pattern=r"Some requests (?:timed out when bootstrapping, which means |fail to receive KV Cache transfer done signal after bootstrapping\.)",
    source=(
        "Some requests timed out when bootstrapping, ",
        "Some requests fail to receive KV Cache transfer done signal after bootstrapping. ",
    ),
    samples={
        "sglang 0.5.17": "Some requests timed out when bootstrapping, which means prefill instances fail to receive the KV indices from the decode "
        "instance of this request. If a greater mean TTFT is acceptable, you can 'export SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT=600' "
        "(10 minutes) to relax the timeout condition. ",
        "sglang 0.5.23": "Some requests fail to receive KV Cache transfer done signal after bootstrapping. If a greater mean TTFT is acceptable, "
        "you can 'export SGLANG_DISAGGREGATION_WAITING_TIMEOUT=600' (10 minutes) to relax the timeout condition. ",
    },
    since="0.5.3",
)
def timeout_hint(_: re.Match[str]) -> Nothing:
    """Once in a process' life; each request that times out has a line of its own end."""
    return NOTHING


@rule(
    runtime="sglang",
    anchor=(
        "Error fetching prefill server info from bootstrap: ",
        "Error fetching prefill info from bootstrap: ",
        "Failed to get prefill server info: ",
        "Failed to query dp_ranks: ",
    ),
    pattern=r"(?:Error fetching prefill (?:server )?info from bootstrap|Failed to get prefill server info|Failed to query dp_ranks): ",
    source=("Error fetching prefill server info from bootstrap: %s", "Failed to get prefill server info: "),
    samples={
        "sglang 0.5.17": "Error fetching prefill server info from bootstrap: HTTPConnectionPool(host='10.0.0.12', port=8998): Max retries exceeded "
        "with url: /route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1 (Caused by "
        "NewConnectionError('<urllib3.connection.HTTPConnection object at 0x7f1e2c0d9a90>: Failed to establish a new connection: [Errno "
        "111] Connection refused'))",
    },
)
def bootstrap_hint(_: re.Match[str]) -> Nothing:
    """Why a handshake is about to fail."""
    return NOTHING
