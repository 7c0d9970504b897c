"""What each rule's real sample line changes in the exposition, one golden file for each module of rules."""

from collections import defaultdict

import pytest

from exporter.families import FAMILIES
from exporter.source import Source
from parsers.events import Nothing
from parsers.rules import Rule, Scope, registry
from tests.conftest import DATA
from tests.parsers.reading import TAGGED, gateway_header

HEADER = "(EngineCore pid=318) {level} 07-14 03:12:15 [file.py:1] "
BARE_HEADER = "I0714 03:12:15.000000 file.cc:1] "  # without a process, as bare lines are
EVERYWHERE = "log_lines_total"
"""Changed by any line: not worth repeating for each."""

ADDS_ZERO = ("finished after 0.00s,",)
"""Samples whose number is 0."""

# Lines of one process around a sample, where it alone changes nothing: those before it and those behind.
READY = "INFO:     Application startup complete.\n"
CORE = "(EngineCore pid=318) INFO 07-14 03:{} [file.py:1] {}\n"
STATS = "Engine 000: Avg prompt throughput: 900.0 tokens/s, Avg generation throughput: 12.4 tokens/s, Running: 1 reqs, Waiting: 0 reqs"
DECODE = "non-default args: {'kv_transfer_config': KVTransferConfig(kv_connector='NixlConnector', kv_role='kv_consumer')}"
SKIPPED = "Skipping KV post-processing for failed request cmpl-2"
RECOVERED = "Recovered from KV load failure: 1 request(s) rescheduled (4096 tokens affected)."
STARTED = CORE.format("12:14", "vLLM server version 0.32.0, serving model m")
SGLANG_STARTED = TAGGED + "server_args=ServerArgs(model_path='/models/m', tp_size=1)\n"
ASKED = '"processing request" requestID="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0001"'
FORWARDED = '"request_start" request_id="6f0c8f5e-2f1b-4b3b-9a69-1f5d5b8a0001" routing_strategy="pd"'
ANSWERED = (
    'http_request{method=POST uri=/generate version=HTTP/1.1 request_id="r" status_code=200}: smg::response: finished processing request'
)
BUILD = (
    "2026-07-14 03:12:{} - INFO - flashinfer.jit: {} JIT ops: batch_prefill_with_kv_cache_dtype_q_bf16_dtype_kv_bf16_dtype_o_bf16_dtype_idx_i32"
    "_head_dim_qk_128_head_dim_vo_128_posenc_0_use_swa_False_use_logits_cap_False_f16qk_False_sm90\n"
)
AROUND = {
    "attention_compiled": (CORE.format("12:14", "JIT compiling decode_q8kv4"), ""),
    "broadcast_stuck": (READY, ""),
    "deepgemm_warmed": (
        TAGGED + "Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=7168, K=2048, num_groups=1 with all Ms.\n",
        "",
    ),
    "compiling_begins": (STARTED, ""),
    "request_received": ("", f"{gateway_header('aibrix')}{FORWARDED}\n"),
    "request_forwarded": (f"{gateway_header('aibrix')}{ASKED}\n", ""),
    "draft_capture_began": ("", CORE.format("12:19", "Graph capturing finished in 46 secs, took 2.31 GiB")),
    "flashinfer_build": (BUILD.format("02,000", "Loading"), BUILD.format("30,000", "Finished loading")),
    "hybrid_allocator": (
        CORE.format("12:14", "vLLM server version 0.26.0, serving model m") + CORE.format("12:14", DECODE),
        CORE.format("12:20", SKIPPED) + CORE.format("12:20", RECOVERED) + CORE.format("12:30", STATS),
    ),
    "hyper_connections_begin": (SGLANG_STARTED, ""),
    "kv_cache_dtype": (CORE.format("12:14", "vLLM server version 0.26.0, serving model m"), ""),
    "load_skipped": (STARTED, CORE.format("12:30", STATS)),
    "loading_begins": (STARTED, ""),
    "peer_changed": (CORE.format("12:14", "NIXL compatibility check passed (hash: 3f0c8a5b)"), ""),
    "ranks_meet": (STARTED, ""),
    "router_started": ("", f"{gateway_header('sglang_router')}{ANSWERED}\n"),
    "role_deprecated": (CORE.format("12:14", "vLLM server version 0.26.0, serving model m"), ""),
    "sglang_capture_begins": (SGLANG_STARTED, ""),
    "sglang_loading_begins": (SGLANG_STARTED, ""),
    "sglang_ranks_meet": (SGLANG_STARTED, ""),
    "stack_dumped": (READY, ""),
    "triton_autotune_took": (
        "Triton autotuning for function fused_moe_kernel,\nwith key as (8,),\n",
        "",
    ),
    "warmup_begins": (STARTED, ""),
}

MODULES: dict[str, list[Rule]] = defaultdict(list)
for _rule in registry():
    MODULES[_rule.build.__module__.removeprefix("parsers.")].append(_rule)


def _log(rule: Rule, sample: str) -> str:
    if Scope.GATEWAY in rule.scope:
        return f"{gateway_header(rule.runtime)}{sample}\n"
    if rule.runtime == "sglang" and Scope.RECORD in rule.scope:
        return f"{TAGGED}{sample}\n"
    warning, info = HEADER.format(level="WARNING"), HEADER.format(level="INFO")
    if Scope.RECORD in rule.scope:
        return f"{info}{sample}\n"
    if Scope.EXCEPTION in rule.scope:
        return f"{warning}Traceback (most recent call last):\r\n{warning}{sample}\n"
    return f"{BARE_HEADER}{sample}\n"


def _exposed(log: str) -> set[str]:
    source = Source("golden", year=2026)
    source.engine.seen = True  # so that the log without the sample has series, too
    source.feed(log.encode())
    lines = set()
    for family, labels, value in source.samples(None):
        if value and family != EVERYWHERE:
            pairs = ",".join(f'{name}="{label}"' for name, label in zip(FAMILIES[family].labels, labels, strict=True))
            lines.add(f"{family}{{{pairs}}} {float(value)}")
    return lines


def _changed(rule: Rule, sample: str) -> list[str]:
    """The series that have another value for the sample."""
    before, behind = AROUND.get(rule.name, ("", ""))
    return sorted(_exposed(before + _log(rule, sample) + behind) - _exposed(before + behind))


def _means_nothing(rule: Rule, sample: str) -> bool:
    found = rule.pattern.match(sample)
    assert found
    return isinstance(rule.build(found), Nothing)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_samples_give_the_golden_exposition(module: str, pytestconfig: pytest.Config) -> None:
    """A sample line, fed alone, always raises the same series to the same values."""
    text = ""
    for rule in MODULES[module]:
        for version, sample in rule.samples.items():
            changed = _changed(rule, sample)
            assert changed or _means_nothing(rule, sample) or sample in ADDS_ZERO, (
                f"{rule.name}: without its handler the golden file would be the same"
            )
            text += "\n".join([f"# {rule.name} {version}", *changed, "", ""])
    golden = DATA / "rules" / f"{module}.prom"
    if pytestconfig.getoption("--update-goldens"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text
