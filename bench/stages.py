"""Where the time of reading goes: what stands between the bars and the figures.

`python -m bench.stages LOG` prints the CPU seconds of each stage for one log.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.corpus import corpus
from bench.process import run
from bench.report import Section
from bench.sizes import MB, Sizes
from bench.throughput import empty_start, warm

_CHUNK = 256 * 1024


def _cpu(do: Callable[[], object]) -> float:
    before = time.process_time()
    do()
    return time.process_time() - before


def _blocks(data: bytes) -> list[bytes]:
    return [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]


def _read(log: Path) -> list[bytes]:
    with log.open("rb", buffering=0) as file:
        return list(iter(lambda: file.read(_CHUNK), b""))


def _split(blocks: Iterable[bytes]) -> None:
    from parsers.lines import LineBuffer

    buffer = LineBuffer()
    for block in blocks:
        buffer.feed(block)


def _silent(blocks: Iterable[bytes]) -> tuple[bytes, int]:
    """The lines that make no event, and how many others there are."""
    from parsers.numbered import NumberedHead, NumberedLog

    log = NumberedLog(2026)
    told: set[int] = set()
    for block in blocks:
        told |= {head.line for _, head in log.feed(block) if isinstance(head, NumberedHead)}
    lines = b"".join(blocks).splitlines(keepends=True)
    return b"".join(line for number, line in enumerate(lines, 1) if number not in told), len(told)


def stages(log: Path) -> dict[str, float]:
    """CPU seconds by stage, and how many lines and events there are."""
    from exporter.source import Source

    found: dict[str, float] = {}
    blocks: list[bytes] = []
    found["read"] = _cpu(lambda: blocks.extend(_read(log)))
    found["lines"] = _cpu(lambda: _split(blocks))
    source, parse, apply, events = Source("stages", year=2026), 0.0, 0.0, 0
    for block in blocks:
        began = time.process_time()
        told = source.parse(block, None, "")
        between = time.process_time()
        source.apply(told, None)
        parse, apply, events = parse + between - began, apply + time.process_time() - between, events + len(told)
    silent, speaking = _silent(blocks)
    quiet = Source("stages", year=2026)
    quiet.parse(blocks[0], None, "")  # with an engine that is known
    found["silent"] = _cpu(lambda: [quiet.parse(block, None, "") for block in _blocks(silent)]) - _cpu(lambda: _split(_blocks(silent)))
    return found | {"rules": parse - found["lines"] - found["silent"], "state": apply, "events": events, "speaking": speaking}


def measure(sizes: Sizes) -> Section:
    """Of the logs of saved logs, smaller ones."""
    section = Section(
        "Where the time goes",
        "CPU seconds for each 100 MB, by stage: reading the file; cutting it into lines of text; lines that tell nothing (access lines are "
        "counted, prompts are passed over); matching rules and making events of the others; and what the engine's state, its verdict and its counters make of those. "
        "The last column is rules and state for each line that tells something. The start is beside them, once.",
        ("log", "start", "read", "cut", "silent lines", "rules", "state", "lines that tell", "us each"),
    )
    start = empty_start(sizes.runs)
    for name in ("typical", "dense", "captured"):
        log = corpus(name, sizes.linear)
        warm(log.path)
        found = json.loads(run([sys.executable, "-m", "bench.stages", str(log.path)]).output)
        scale = 100 * MB / log.truth.bytes
        seconds = [f"{found[stage] * scale:.2f}" for stage in ("read", "lines", "silent", "rules", "state")]
        share = found["speaking"] / log.truth.lines
        each = (found["rules"] + found["state"]) / found["speaking"] * 1e6
        section.rows.append((name, f"{start:.2f}", *seconds, f"{share:.1%}", f"{each:.1f}"))
    return section


if __name__ == "__main__":
    print(json.dumps(stages(Path(sys.argv[1]))))
