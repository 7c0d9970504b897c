"""`make bench`: measures, prints tables, and writes docs/performance.md, of which `--only` makes some parts anew."""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench import guarded, latency, linear, node, report, resident, spikes, stages, throughput
from bench.corpus import CORPORA, ROOT
from bench.report import Section
from bench.sizes import MB, QUICK, Sizes

PARTS: dict[str, Callable[[Sizes], Section]] = {
    "throughput": throughput.measure,
    "stages": stages.measure,
    "wrapped": throughput.measure_wrapped,
    "hostile": spikes.measure,
    "latency": latency.measure,
    "resident": resident.measure,
    "scrape": resident.measure_scrapes,
    "guarded": guarded.measure,
    "backlog": resident.measure_backlog,
    "node": node.measure,
    "linear": linear.measure,
}
_PAGE = ROOT / "docs" / "performance.md"


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: about two minutes, and no page is written")
    parser.add_argument("--only", action="append", choices=PARTS, default=[], metavar="PART", help=f"{', '.join(PARTS)}; may be repeated")
    parser.add_argument("--runs", type=int, help="of each command")
    for name in ("typical", "dense", "captured", "hostile", "backlog"):
        parser.add_argument(f"--{name}", type=int, metavar="MB", help="size of that log")
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG", help="measure reading these, and nothing else")
    return parser.parse_args()


def main() -> int:
    """The parts that were asked for; 1 when a bar is not met."""
    given = arguments()
    sizes = QUICK if given.quick else Sizes()
    megabytes = {name: getattr(given, name) * MB for name in ("typical", "dense", "captured", "hostile", "backlog") if getattr(given, name)}
    sizes = replace(sizes, **megabytes, **({"runs": given.runs} if given.runs else {}))
    if given.logs:
        print(throughput.own_logs(given.logs, sizes.runs).text())
        return 0
    parts: dict[str, Section] = {}
    for name in given.only or PARTS:
        began, when = time.monotonic(), report.today()
        parts[name] = section = PARTS[name](sizes)
        section.when = when
        report.say(f"{name}: {time.monotonic() - began:.0f} s")
        print(section.text(), flush=True)
    print(report.bars_table(list(parts.values())), flush=True)
    if sizes == Sizes():
        known = report.keep(parts, CORPORA / "measured.json")
        if known.keys() >= PARTS.keys():
            _PAGE.write_text(report.page([known[name] for name in PARTS], throughput.PEER), encoding="utf-8")
    return int(any(bar.met is False for section in parts.values() for bar in section.bars))


if __name__ == "__main__":
    sys.exit(main())
