"""From a line that is written to a counter that has risen."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.corpus import corpus
from bench.process import Daemon, workspace
from bench.report import Bar, Section
from bench.sizes import MB, Sizes

_LINE = b"(EngineCore pid=1090) WARNING 08-01 00:00:01 [scheduler.py:2813] Recovered from KV load failure: 1 request(s) rescheduled (512 tokens affected).\n"
_COUNTER = b"kv_recomputed_requests_total"
_SLOW, _FAST = 10, 50_000
_PAUSE_SECONDS = 0.01
_LONGEST_SECONDS = 20.0
_HEAD = 5 * MB
_MOST_MS = {_SLOW: 50, _FAST: 250}


def _trials(daemon: Daemon, log: Path, trials: int) -> list[float]:
    """Milliseconds of so many lines, one a tenth of a second."""
    base = daemon.value(_COUNTER)
    took = []
    with log.open("ab", buffering=0) as file:
        for number in range(1, trials + 1):
            time.sleep(1 / _SLOW)
            before = time.perf_counter()
            file.write(_LINE)
            while daemon.value(_COUNTER) < base + number:
                if time.perf_counter() - before > _LONGEST_SECONDS:
                    raise TimeoutError(f"line {number} did not become visible")
                time.sleep(0.001)
            took.append((time.perf_counter() - before) * 1000)
    assert daemon.value(_COUNTER) == base + trials, "a line was counted twice"
    return sorted(took)


@contextmanager
def _crowd(log: Path, rate: int) -> Iterator[list[int]]:
    """Somebody else writes so many lines a second: access lines and requests, as in a typical log. What was written, at its end."""
    lines = [
        line for line in corpus("typical", _HEAD).path.read_bytes().splitlines(keepends=True) if b"] Rec" in line or b"INFO:  " in line
    ]
    lines = [line for line in lines if b"Recovered" not in line]
    batch = int(rate * _PAUSE_SECONDS)
    batches = [b"".join(lines[at : at + batch]) for at in range(0, len(lines) - batch, batch)]
    ending, written = threading.Event(), [0]

    def write() -> None:
        began = time.monotonic()
        with log.open("ab", buffering=0) as file:
            for number, data in enumerate(itertools.cycle(batches)):
                if ending.wait(max(began + number * _PAUSE_SECONDS - time.monotonic(), 0)):
                    return
                file.write(data)
                written[0] = number * batch

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield written
    finally:
        ending.set()
        writer.join()


def measure(sizes: Sizes) -> Section:
    """At a quiet engine and at one that prints as fast as a log may."""
    section = Section(
        "From a line to its metric",
        f"{sizes.trials} lines are appended to a log that is followed, ten a second, and /metrics is read again and again until the counter has "
        f"risen, so that each time holds a scrape. In the second row another {_FAST:,} lines a second are written to the same log.",
        ("lines a second", "median ms", "p90 ms", "p99 ms", "longest ms", "CPU s of the daemon"),
    )
    for rate in (_SLOW, _FAST):
        with workspace() as folder:
            log = folder / "engine.log"
            log.write_bytes(corpus("typical", _HEAD).path.read_bytes())
            with Daemon([log], folder) as daemon:
                daemon.until_ready()
                daemon.settle()
                before, began = daemon.cpu, time.monotonic()
                if rate == _SLOW:
                    took, written = _trials(daemon, log, sizes.trials), [sizes.trials]
                else:
                    with _crowd(log, rate) as written:
                        took = _trials(daemon, log, sizes.trials)
                seconds, cpu = time.monotonic() - began, daemon.cpu - before
        p99 = _at(took, 0.99)
        found = (_at(took, 0.5), _at(took, 0.9), p99, took[-1])
        section.rows.append((f"{written[0] / seconds:,.0f}", *(f"{ms:.1f}" for ms in found), f"{cpu:.1f} in {seconds:.0f} s"))
        section.bars.append(Bar(f"visible at {rate:,} lines/s, p99", f"under {_MOST_MS[rate]} ms", f"{p99:.0f} ms", p99 < _MOST_MS[rate]))
    return section


def _at(ordered: list[float], share: float) -> float:
    return ordered[max(-(-int(share * 100) * len(ordered) // 100) - 1, 0)]
