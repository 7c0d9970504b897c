"""What the worst line costs: each line of the hostile log on its own through the whole pipeline, in a process of its own.

`python -m bench.spikes BYTES` prints for each kind of line how many there were and the CPU milliseconds of the dearest, as JSON.
"""

import gc
import json
import sys
import time
from collections import Counter, defaultdict
from itertools import chain

from bench import hostile
from bench.process import run
from bench.report import Bar, Section
from bench.sizes import MB, Sizes
from bench.throughput import _values, ours, warm
from bench.truth import Truth

_TRIES = 3
_WORTH_A_SECOND_LOOK = 0.002
_BLOCK = 256 * 1024
_LEAST_SPEED, _MOST_MS = 300, 100


def worst_by_kind(size: int) -> dict[str, tuple[int, int, float, float]]:
    """By kind of line: how many, the longest in bytes, MB per CPU second, and the CPU seconds of the dearest."""
    from exporter.source import Source

    gc.set_threshold(50_000, 20, 100)  # as the command does
    source, truth, done = Source("spikes", year=2026), Truth(), 0
    count: Counter[str] = Counter()
    longest: defaultdict[str, int] = defaultdict(int)
    bytes_of: Counter[str] = Counter()
    total: defaultdict[str, float] = defaultdict(float)
    worst: defaultdict[str, float] = defaultdict(float)
    for kind, line in chain(hostile.longest(1), hostile.lines(1, truth)):
        data = line.encode("utf-8", "surrogateescape") + b"\n"
        seconds = _seconds(source, data)
        if seconds > max(worst[kind], _WORTH_A_SECOND_LOOK):  # a page that had to be fetched is not the line's fault
            seconds = min(seconds, *(_seconds(source, data) for _ in range(_TRIES)))
        count[kind] += 1
        bytes_of[kind] += len(data)
        total[kind] += seconds
        longest[kind] = max(longest[kind], len(data))
        worst[kind] = max(worst[kind], seconds)
        done += len(data)
        if done >= size:
            return {kind: (count[kind], longest[kind], bytes_of[kind] / MB / total[kind], worst[kind]) for kind in sorted(count)}
    raise AssertionError


def _seconds(source: object, data: bytes) -> float:
    """One line, fed as a reader feeds it: in blocks."""
    feed = source.feed  # type: ignore[attr-defined]
    before = time.process_time()
    for start in range(0, len(data), _BLOCK):
        feed(data[start : start + _BLOCK])
    return time.process_time() - before


def measure(sizes: Sizes) -> Section:
    """The hostile log as a whole, and its worst lines."""
    from bench.corpus import corpus

    section = Section(
        "Hostile logs",
        "Long, torn, quoted, forged, binary and redrawn lines (bench/hostile.py), with real signals among them that must count and forged ones "
        "that must not. Below, each line on its own through the whole pipeline: the speed of its kind, one at a time, and the dearest of each.",
        ("lines", "how many", "longest, bytes", "MB per CPU s", "dearest line, CPU ms", "values"),
    )
    log = corpus("hostile", sizes.hostile)
    warm(log.path)
    costs = [ours(log.path) for _ in range(sizes.runs)]
    cpu = sorted(cost.cpu_seconds for cost in costs)[len(costs) // 2]
    speed, values = log.truth.bytes / MB / cpu, _values(log, costs)
    section.rows.append(("the whole log", str(log.truth.lines), "", f"{speed:.0f}", "", values))
    found = json.loads(run([sys.executable, "-m", "bench.spikes", str(sizes.spikes)]).output)
    section.rows += [
        (kind, str(count), str(longest), f"{mb:.0f}", f"{seconds * 1000:.1f}", "") for kind, (count, longest, mb, seconds) in found.items()
    ]
    dearest = max(seconds for *_, seconds in found.values()) * 1000
    section.bars += [
        Bar(
            "hostile log",
            f"at least {_LEAST_SPEED} MB per CPU second, values right",
            f"{speed:.0f}",
            speed >= _LEAST_SPEED and "WRONG" not in values,
        ),
        Bar("hostile lines", f"none takes over {_MOST_MS} ms of CPU", f"{dearest:.0f} ms", dearest <= _MOST_MS),
    ]
    return section


if __name__ == "__main__":
    print(json.dumps(worst_by_kind(int(sys.argv[1]))))
