"""Cost grows with bytes, and with nothing else: not with the number of rules, of files, or of starts that an engine has behind it.

`python -m bench.linear RULES LOG` reads a log with so many rules and prints the CPU seconds of its lines alone.
"""

import os
import re
import sys
import time
from functools import partial
from pathlib import Path

from bench.corpus import Corpus, corpus
from bench.process import INFERLOG, Daemon, run, workspace
from bench.report import Bar, Section
from bench.sizes import MB, Sizes
from bench.throughput import warm
from parsers.events import Event

_RULES = (60, 120, 240)
_FILES = (1, 10, 100)
_STARTS = (1, 11, 101)
_CHUNK = 256 * 1024
_LINES_OF_A_START = 11
_MOST = 1.2
"""Times the cheapest: what busy machines do to equal work."""


def read_with(rules: int, log: Path) -> float:
    """CPU seconds of the lines of a log, with so many rules: those that the log needs, and others."""
    from exporter.source import Source
    from parsers import rules as table

    needed = _rules_met(log)
    others = [rule for rule in table.registry() if rule.name not in needed]
    assert len(others) + len(needed) >= rules, f"there are no {rules} rules"
    kept = {rule.name for rule in others[: rules - len(needed)]} | needed
    table._REGISTRY[:] = [rule for rule in table.registry() if rule.name in kept]  # noqa: SLF001 - nothing else takes rules away
    table.dispatch.cache_clear()
    source = Source("linear", year=2026)
    with log.open("rb") as file:
        source.feed(file.read(_CHUNK))  # compiles the patterns
        before = time.process_time()
        while data := file.read(_CHUNK):
            source.feed(data)
        return time.process_time() - before


def _rules_met(log: Path) -> set[str]:
    """The rules that a log's lines match."""
    from exporter.source import Source
    from parsers import rules as table

    source = Source("linear", year=2026)
    met: set[str] = set()
    builds = {rule.name: rule.build for rule in table.registry()}

    def noting(name: str) -> table.Build:
        def note_and_build(found: re.Match[str]) -> Event:
            met.add(name)
            return builds[name](found)

        return note_and_build

    for rule in table.registry():
        object.__setattr__(rule, "build", noting(rule.name))  # a rule is frozen
    with log.open("rb") as file:
        source.feed(file.read(8 * MB))
    for rule in table.registry():
        object.__setattr__(rule, "build", builds[rule.name])
    return met


def _of_rules(log: Corpus, rules: int) -> float:
    return float(run([sys.executable, "-m", "bench.linear", str(rules), str(log.path)]).output)


def _of_files(log: Corpus, files: int) -> float:
    """CPU seconds of a daemon for a log in so many pieces, each a source of its own: twice what their second halves add."""
    with workspace() as folder:
        lines = log.path.read_bytes().splitlines(keepends=True)
        start, each = lines[:_LINES_OF_A_START], -(-len(lines) // files)
        logs = [folder / f"{number}.log" for number in range(files)]
        pieces = [lines[number * each : (number + 1) * each] for number in range(files)]
        for path, piece in zip(logs, pieces, strict=True):
            path.write_bytes(b"".join(start + piece[: each // 2]))
        with Daemon(logs, folder) as daemon:
            daemon.until_ready()
            before = daemon.until_quiet()
            for path, piece in zip(logs, pieces, strict=True):
                with path.open("ab") as file:
                    file.writelines(piece[each // 2 :])
            return (daemon.until_quiet() - before) * 2


def _of_starts(log: Corpus) -> float:
    return run([*INFERLOG, "metrics", str(log.path)]).cpu_seconds


def measure(sizes: Sizes) -> Section:
    """The same lines each time."""
    section = Section(
        "What the cost grows with",
        f"CPU seconds for a log of {sizes.linear / MB:.0f} MB, the cheapest of {sizes.runs} by turns: with fewer rules than there are (the typical log, lines only), in "
        "more files (the typical log, each piece a source of its own; twice what its second half adds), and behind more starts of "
        "the engine (the dense log).",
        ("what", "CPU s", "to the first"),
    )
    typical = corpus("typical", sizes.linear)
    histories = [corpus("dense", sizes.linear, starts=starts) for starts in _STARTS]
    warm(typical.path)
    rows = (
        ("rules", [(f"{count} rules", partial(_of_rules, typical, count)) for count in _RULES]),
        ("files", [(f"{count} files", partial(_of_files, typical, count)) for count in _FILES]),
        ("starts", [(f"after {count - 1} starts", partial(_of_starts, log)) for count, log in zip(_STARTS, histories, strict=True)]),
    )
    for what, each in rows:
        costs = [[measure_one() for _, measure_one in each] for _ in range(sizes.runs)]
        times = [min(column) for column in zip(*costs, strict=True)]
        section.rows += [(label, f"{cpu:.2f}", f"{cpu / times[0]:.2f}") for (label, _), cpu in zip(each, times, strict=True)]
        growth = max(times[1:]) / times[0]
        section.bars.append(Bar(f"more {what}", f"the same cost (up to {_MOST:.2f}x)", f"{growth:.2f}x", growth <= _MOST))
    return section


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(read_with(int(sys.argv[1]), Path(sys.argv[2])))
