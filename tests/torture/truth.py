"""What the reader must show: the writer's own tally, and `inferlog metrics` over the bytes as if they had never been rotated."""

import math
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.torture.processes import INFERLOG
from tests.torture.scraper import parse, source_of
from tests.torture.wrapped import FORMATS

OF_THE_DAEMON = {
    "source_up": "about open files, which a saved log has not",
    "source_lag_bytes": "the same; 0 is awaited before",
    "source_read_bytes_total": "the same; compared with the writer's bytes",
    "source_lost_bytes_total": "the same; must be 0",
    "source_rotations_total": "how many it sees depends on when it looks: two between two looks of an empty file are one",
    "source_truncations_total": "the same",
    "checkpoint_": "about the state file",
    "config_last_reload_": "about the daemon's configuration",
}
"""Families that are not compared with `inferlog metrics`, and why."""


def tally_differences(series: Mapping[str, float], report: Mapping[str, Any]) -> Iterator[str]:
    """Where the exposition is not what the writer put in."""
    for source, each in report.items():
        for family, wanted in (
            ("source_read_bytes_total", each["bytes"]),
            ("source_lost_bytes_total", 0),
            ("source_lag_bytes", 0),
            ("source_faults_total", 0),
        ):
            if (shown := _sum(series, source, family, ())) != wanted:
                yield f"{source}: {family} is {shown:.15g}, written {wanted} ({shown - wanted:+.15g})"
        for name, wanted in each["tally"].items():
            family, _, labels = name[:-1].partition("{")
            shown = _sum(series, source, family, tuple(filter(None, labels.split(","))))
            if not math.isclose(shown, wanted):
                yield f"{source}: {name} is {shown:.15g}, the writer put in {wanted:.15g} ({shown - wanted:+.15g})"


def _sum(series: Mapping[str, float], source: str, family: str, labels: tuple[str, ...]) -> float:
    return sum(
        value
        for name, value in series.items()
        if name.startswith(f"inferlog_{family}{{") and source_of(name) == source and all(f'="{label}"' in name for label in labels)
    )


def of_whole_logs(folder: Path) -> dict[str, float]:
    """The series of the copies that never rotated."""
    logs = [folder / "truth" / f"{name}.log" for name in FORMATS]
    printed = subprocess.run([INFERLOG, "metrics", *logs], stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=300)
    return parse(printed.stdout.decode())[0]


def differences(shown: Mapping[str, float], wanted: Mapping[str, float]) -> Iterator[str]:
    """Series that are not the same, but for those of the daemon alone."""
    left_out = tuple(f"inferlog_{family}" for family in OF_THE_DAEMON)
    for name in sorted(shown.keys() | wanted.keys()):
        if name.startswith(left_out):
            continue
        ours, truth = shown.get(name), wanted.get(name)
        if ours is None or truth is None:
            # A counter is born at 0 when the settings are known at the end of a block, so where blocks end decides on it.
            if not (ours or truth) and name.partition("{")[0].endswith("_total"):
                continue
            yield f"{name} is {_text(ours)}, wanted {_text(truth)}"
        elif not math.isclose(ours, truth, rel_tol=1e-9):
            yield f"{name} is {_text(ours)}, wanted {_text(truth)} ({ours - truth:+.15g})"


def _text(value: float | None) -> str:
    return "absent" if value is None else f"{value:.15g}"
