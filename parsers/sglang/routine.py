"""Warnings and errors of SGLang's that begin like a failure and are hints at most: another line tells what came of them."""

import re

from parsers.events import NOTHING, Nothing
from parsers.rules import rule


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
