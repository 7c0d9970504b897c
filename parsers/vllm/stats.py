"""vLLM's periodic line, every VLLM_LOG_STATS_INTERVAL (10 s) while there is throughput, and once after it ended."""

import re

from parsers.events import IntervalStats
from parsers.rules import rule
from parsers.units import PERCENT

# Possessive throughout: no shape of this line needs a second try, and one line in ten of a busy log is this one.
_RATE = r"(\d++(?:\.\d++)?+)"
_PERCENT = r"(\d++(?:\.\d++)?+)%"


@rule(
    anchor=("Engine ", "# Engines Aggregated: "),
    pattern=(
        rf"(?:Engine (\d{{1,4}})|\d{{1,4}} Engines Aggregated): Avg prompt throughput: {_RATE} tokens/s, Avg generation throughput: {_RATE} tokens/s"
        r", Running: (\d++) reqs, Waiting: (\d++) reqs(?:, Deferred: (\d++) reqs)?+"
        r"(?:, KV fetch: (\d++) waiting to start, (\d++) in progress, (\d++) completed waiting)?+(?:, Preemptions: \d++)?+"
        rf"(?:, \w++( \+ host)?+ KV cache usage: {_PERCENT})?+(?:, Prefix cache hit rate: {_PERCENT})?+(?:, Corrupted: \d++ reqs)?+"
        rf"(?:, External prefix cache hit rate: {_PERCENT})?+(?:, MM cache hit rate: {_PERCENT})?+"
    ),
    source=("Avg prompt throughput: %.1f tokens/s", "Avg generation throughput: %.1f tokens/s", "Running: %d reqs", "Waiting: %d reqs"),
    samples={
        "0.26.0": "Engine 000: Avg prompt throughput: 1.1 tokens/s, Avg generation throughput: 12.4 tokens/s, Running: 8 reqs, Waiting: 6 reqs, "
        "Deferred: 2 reqs, GPU KV cache usage: 0.9%, Prefix cache hit rate: 0.0%, External prefix cache hit rate: 100.0%",
        "0.33.0": "Engine 000: Avg prompt throughput: 1.1 tokens/s, Avg generation throughput: 12.4 tokens/s, Running: 8 reqs, Waiting: 6 reqs, "
        "Deferred: 2 reqs, KV fetch: 1 waiting to start, 3 in progress, 0 completed waiting, GPU KV cache usage: 0.9%",
    },
)
def interval_stats(found: re.Match[str]) -> IntervalStats:
    """One engine's interval, or all engines' with --aggregate-engine-logging. Counts of requests are of the last step.

    `Preemptions` is never printed by 0.14 to 0.33: the counter is reset before it is read.
    """
    engine, prompt, generation, running, waiting, deferred, start, progress, done, host, usage, local, external, multimodal = found.groups()
    return IntervalStats(
        "all" if engine is None else engine.lstrip("0") or "0",
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
