"""vLLM's periodic line, every VLLM_LOG_STATS_INTERVAL (10 s) while there is throughput, and once after it ended."""

import re

from parsers.events import IntervalStats, Preempted, PrefixHits
from parsers.rules import Series, rule
from parsers.units import PERCENT

# Possessive throughout: no shape of this line needs a second try, and one line in ten of a busy log is this one.
# No possessive group holds an alternative: Python before 3.11.5 gives such a group up too early.
# An empty alternative costs the regex engine a fraction of what an optional group does.
_RATE = r"(\d{1,15}+(?:\.\d{1,9}+|))"
_PERCENT = r"(\d{1,9}+(?:\.\d{1,9}+|))%"


_RATES = rf"Avg prompt throughput: {_RATE} tokens/s, Avg generation throughput: {_RATE} tokens/s, "
_USUAL = r"(\d{1,15}+\.\d)"


@rule(
    anchor="Engine ",
    pattern=(
        rf"Engine (\d{{3}}): Avg prompt throughput: {_USUAL} tokens/s, Avg generation throughput: {_USUAL} tokens/s, "
        rf"Running: (\d{{1,15}}+) reqs, Waiting: (\d{{1,15}}+) reqs, [CG]PU KV cache usage: {_USUAL}%, "
        rf"Prefix cache hit rate: {_USUAL}%(?:, External prefix cache hit rate: {_USUAL}%|)\Z"
    ),
    source=("Avg prompt throughput: %.1f tokens/s", "Avg generation throughput: %.1f tokens/s", "Running: %d reqs", "Waiting: %d reqs"),
    samples={
        "0.26.0": "Engine 000: Avg prompt throughput: 0.8 tokens/s, Avg generation throughput: 96.4 tokens/s, Running: 8 reqs, "
        "Waiting: 0 reqs, GPU KV cache usage: 0.2%, Prefix cache hit rate: 0.0%, External prefix cache hit rate: 100.0%",
    },
    since="0.7",
)
def usual_interval_stats(found: re.Match[str]) -> IntervalStats:
    """One engine's interval in the shape of nearly all such lines, which costs half of what the next rule does."""
    engine, prompt, generation, running, waiting, usage, local, external = found.groups()
    return IntervalStats(
        engine.lstrip("0") or "0",
        float(prompt),
        float(generation),
        float(running),
        float(waiting),
        None,
        None,
        float(usage) * PERCENT,
        "device",
        float(local) * PERCENT,
        float(external) * PERCENT if external else None,
    )


@rule(
    anchor=("Engine ", "# Engines Aggregated: ", "Avg prompt throughput: "),
    pattern=(
        rf"(?:Engine (\d{{1,3}}): |(\d{{1,3}}) Engines Aggregated: |){_RATES}"
        r"Running: (\d{1,15}+) reqs, Waiting: (\d{1,15}+) reqs(?:, Deferred: (\d{1,15}+) reqs|)"
        r"(?:, KV fetch: (\d{1,15}+) waiting to start, (\d{1,15}+) in progress, (\d{1,15}+) completed waiting|)(?:, Preemptions: \d++|)"
        rf"(?:,? (?:\w++ )?(\+ host )?+KV cache usage: {_PERCENT}|)(?:, Prefix cache hit rate: {_PERCENT}|)(?:, Corrupted: \d++ reqs|)"
        rf"(?:, External prefix cache hit rate: {_PERCENT}|)(?:, MM cache hit rate: {_PERCENT}|)"
    ),
    source=("Avg prompt throughput: %.1f tokens/s", "Avg generation throughput: %.1f tokens/s", "Running: %d reqs", "Waiting: %d reqs"),
    samples={
        "0.7.1": "Avg prompt throughput: 0.8 tokens/s, Avg generation throughput: 7.1 tokens/s, Running: 1 reqs, Waiting: 0 reqs GPU "
        "KV cache usage: 0.1%.",
        "0.26.0": "Engine 000: Avg prompt throughput: 1.1 tokens/s, Avg generation throughput: 12.4 tokens/s, Running: 8 reqs, "
        "Waiting: 6 reqs, Deferred: 2 reqs, GPU KV cache usage: 0.9%, Prefix cache hit rate: 0.0%, External prefix cache "
        "hit rate: 100.0%",
        "0.33.0": "Engine 000: Avg prompt throughput: 1.1 tokens/s, Avg generation throughput: 12.4 tokens/s, Running: 8 reqs, "
        "Waiting: 6 reqs, Deferred: 2 reqs, KV fetch: 1 waiting to start, 3 in progress, 0 completed waiting, GPU KV cache "
        "usage: 0.9%, Prefix cache hit rate: 0.0%, External prefix cache hit rate: 100.0%",
    },
    since="0.7",
)
def interval_stats(found: re.Match[str]) -> IntervalStats:
    """One engine's interval, or all engines' with --aggregate-engine-logging. Counts of requests are of the last step.

    `Preemptions` is never printed by 0.14 to 0.33: the counter is reset before it is read.
    """
    engine, engines, prompt, generation, running, waiting, deferred, start, progress, done, host, usage, local, external, multimodal = (
        found.groups()
    )
    return IntervalStats(
        "all" if engines else (engine or "0").lstrip("0") or "0",
        float(prompt),
        float(generation),
        float(running),
        float(waiting),
        float(deferred) if deferred else None,
        float(start) + float(progress) + float(done) if start else None,
        float(usage) * PERCENT if usage else None,
        "device_host" if host else "device",
        float(local) * PERCENT if local else None,
        float(external) * PERCENT if external else None,
        float(multimodal) * PERCENT if multimodal else None,
    )


@rule(
    anchor="Avg prompt throughput: ",
    pattern=_RATES
    + r"Running: (\d{1,15}+) reqs, Swapped: (\d{1,15}+) reqs, Pending: (\d{1,15}+) reqs"
    + rf", GPU KV cache usage: {_PERCENT}(?:, CPU KV cache usage: {_PERCENT}|)",
    source=("Running: %d reqs, Swapped: %d reqs", "Pending: %d reqs, GPU KV cache usage: %.1f%%", "CPU KV cache usage: %.1f%%."),
    samples={
        "0.5": "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Swapped: 0 reqs, "
        "Pending: 0 reqs, GPU KV cache usage: 0.0%, CPU KV cache usage: 0.0%.",
    },
    until="0.11",
)
def v0_interval_stats(found: re.Match[str]) -> IntervalStats:
    """The V0 engine's line, which it prints while idle, too; pending requests are waiting ones."""
    prompt, generation, running, swapped, pending, usage, host_usage = found.groups()
    return IntervalStats(
        "0",
        float(prompt),
        float(generation),
        float(running),
        float(pending),
        kv_usage=float(usage) * PERCENT,
        swapped=float(swapped),
        host_usage=float(host_usage) * PERCENT if host_usage else None,
    )


@rule(
    anchor="Prefix cache hit rate: ",
    pattern=rf"Prefix cache hit rate: GPU: {_PERCENT}",
    source="Prefix cache hit rate: GPU: %.2f%%, CPU: %.2f%%",
    samples={"0.6.3": "Prefix cache hit rate: GPU: 94.35%, CPU: 0.00%"},
    since="0.6",
    until="0.11",
)
def v0_prefix_hits(found: re.Match[str]) -> PrefixHits:
    """The V0 engine's hit rate since its start."""
    return PrefixHits(float(found[1]) * PERCENT)


@rule(
    anchor="Sequence group ",
    pattern=r"Sequence group \S{1,256} is preempted by [^\n]{0,400}total_(?:num_cumulative_preemption|cumulative_preemption_cnt)=(\d{1,15})",
    source="Sequence group %s is preempted by %s mode because there is not enough KV cache space.",
    samples={
        "0.6.6": "Sequence group chatcmpl-5f1c0a7e2d6b4a8f is preempted by PreemptionMode.RECOMPUTE mode because there is not enough "
        "KV cache space. This can affect the end-to-end performance. Increase gpu_memory_utilization or "
        "tensor_parallel_size to provide more KV cache memory. total_num_cumulative_preemption=51",
    },
    since="0.4",
    until="0.10",
    emits=[Series("requests_preempted_total")],
)
def v0_preempted(found: re.Match[str]) -> Preempted:
    """Every fiftieth preemption of the V0 engine, with the number so far."""
    return Preempted(float(found[1]))
