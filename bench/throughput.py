"""Reading saved logs to their end: ours and mtail in turns on the same files, and what grep needs to look for the same words."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench import report
from bench.corpus import Corpus, corpus
from bench.process import INFERLOG, Cost, run
from bench.report import Bar, Section
from bench.sizes import MB, Sizes

PROGRAMS = {"mtail": Path(__file__).with_name("signals.mtail"), "mtail, fastest": Path(__file__).with_name("fastest.mtail")}
"""The one that the bars are about, and one that gives up what costs mtail most."""
PEER_SIGNALS = frozenset(
    line.split()[1] for line in PROGRAMS["mtail"].read_text(encoding="utf-8").splitlines() if line.startswith(("counter ", "gauge "))
)
_MOST_MIB = 64
_LEAST_SHARE = 0.5
_COLUMNS = ("log", "reader", "CPU s", "MB per CPU s", "k lines per CPU s", "peak MiB", "values", "to mtail")
_RATIOS = {"typical": (10, 15), "dense": (8, 12), "captured": (10, 15)}

PEER = shutil.which("mtail")


def ours(log: Path) -> Cost:
    """`inferlog metrics`, with everything that the daemon does but serving."""
    return run([*INFERLOG, "metrics", str(log)])


def peers(log: Path, program: str = "mtail") -> Cost:
    """mtail's `--one_shot`."""
    assert PEER
    options = ("--one_shot", "--one_shot_format", "prometheus", "--address", "127.0.0.1", "--port", "0")
    with tempfile.TemporaryDirectory() as scratch:
        return run([PEER, *options, "--log_dir", scratch, "--progs", str(PROGRAMS[program]), "--logs", str(log)])


def empty_start(runs: int = 3) -> float:
    """CPU seconds of `inferlog metrics` on a log without a line."""
    with tempfile.NamedTemporaryFile() as log:
        return median(ours(Path(log.name)).cpu_seconds for _ in range(runs))


def warm(log: Path) -> None:
    """Read a file once: no run must pay for the disk."""
    with log.open("rb") as file:
        while file.read(4 * MB):
            pass


def _row(log: Corpus, name: str, reader: str, costs: Sequence[Cost], values: str, ratio: str) -> tuple[str, ...]:
    cpu = median(cost.cpu_seconds for cost in costs)
    return (
        name,
        reader,
        f"{cpu:.2f}",
        f"{log.truth.bytes / MB / cpu:.0f}",
        f"{log.truth.lines / 1000 / cpu:.0f}",
        f"{max(cost.peak_mib for cost in costs):.0f}",
        values,
        ratio,
    )


def _values(log: Corpus, costs: Sequence[Cost], prefix: str = "inferlog_", only: frozenset[str] | None = None) -> str:
    wrong = {each for cost in costs for each in log.truth.wrong(cost.output, prefix, only)}
    for each in sorted(wrong):
        report.say(f"{log.path.name}: {each}")
    checked = len(log.truth.values if only is None else only & log.truth.values.keys())
    return f"{len(wrong)} of {checked} WRONG" if wrong else f"{checked} right" if checked else "none known"


def _literals() -> bytes:
    """The words that the rules begin with."""
    from parsers import stream  # noqa: F401 - registers them
    from parsers.rules import NUMBER_KEY, registry

    return "".join(sorted({f"{anchor}\n" for rule in registry() for anchor in rule.anchors if anchor[0] != NUMBER_KEY})).encode()


def _grep(log: Path) -> Cost:
    """grep for all literals of the rules at once: it finds the lines and understands none."""
    with tempfile.NamedTemporaryFile() as words:
        words.write(_literals())
        words.flush()
        return run(["grep", "-a", "-c", "-F", "-f", words.name, str(log)], LC_ALL="C")


def measure(sizes: Sizes) -> Section:
    """Typical, dense, and captured logs."""
    section = Section(
        "Saved logs",
        f"`inferlog metrics` and mtail with bench/signals.mtail by turns, median of {sizes.runs}. That program is tuned as an operator would, "
        "and the bars are about it; bench/fastest.mtail gives up the processes and ends each line at its first match. grep counts the lines with one of the rules' "
        "literals (`-c -F`), and is the floor. The start of Python is in our CPU seconds. `captured` are the logs of real engines in "
        "tests/data, repeated: no mix that anything was tuned on; of it only the number of lines is known.",
        _COLUMNS,
    )
    start = empty_start(sizes.runs)
    section.rows.append(("(empty)", "inferlog", f"{start:.2f}", "", "", "", "", ""))
    peak = 0.0
    for name, size in (("typical", sizes.typical), ("dense", sizes.dense), ("captured", sizes.captured)):
        log = corpus(name, size)
        warm(log.path)
        mine: list[Cost] = []
        theirs: list[Cost] = []
        for turn in range(sizes.runs):
            readers = [(ours, mine), (peers, theirs)] if PEER else [(ours, mine)]
            for reader, costs in readers[:: -1 if turn % 2 else 1]:
                costs.append(reader(log.path))
        ratio = median(their.cpu_seconds / my.cpu_seconds for my, their in zip(mine, theirs, strict=True)) if theirs else None
        peak = max(peak, *(cost.peak_mib for cost in mine))
        label = f"{name}, {log.truth.bytes / MB:.0f} MB"
        values = _values(log, mine)
        section.rows.append(_row(log, label, "inferlog", mine, values, f"{ratio:.1f}x" if ratio else ""))
        if theirs:
            section.rows.append(_row(log, label, "mtail", theirs, _values(log, theirs, "", PEER_SIGNALS), "1"))
            best = peers(log.path, "mtail, fastest")
            share = median(cost.cpu_seconds for cost in theirs) / best.cpu_seconds
            section.rows.append(_row(log, label, "mtail, fastest", [best], _values(log, [best], "", PEER_SIGNALS), f"{share:.1f}x"))
        else:
            section.rows.append((label, "mtail", "not installed", "", "", "", "", ""))
        section.rows.append(_row(log, label, "grep", [_grep(log.path)], "", ""))
        least, goal = _RATIOS[name]
        demanded = f"at least {least}x mtail per CPU second (goal {goal}x), values right"
        met = None if ratio is None else ratio >= least and "WRONG" not in values
        section.bars.append(Bar(f"{name} log", demanded, f"{ratio:.1f}x" if ratio else "mtail is not installed", met))
    section.bars.append(Bar("peak memory, saved logs", f"under {_MOST_MIB} MiB", f"{peak:.0f} MiB", peak < _MOST_MIB))
    return section


def measure_wrapped(sizes: Sizes) -> Section:
    """The same lines bare, as containerd keeps them and as Docker does."""
    section = Section(
        "Wrapped logs",
        f"The same lines bare and in a container runtime's wrapping, by turns, median of {sizes.runs}; speed without the start of Python.",
        ("log", "MB", "CPU s", "MB per CPU s", "k lines per CPU s", "of the bare speed in lines", "values"),
    )
    kinds = ("typical", "typical-cri", "typical-docker")
    logs = [corpus(kind, sizes.wrapped) for kind in kinds]
    start = empty_start(sizes.runs)
    costs: list[list[Cost]] = [[] for _ in kinds]
    for _ in range(sizes.runs):
        for log, found in zip(logs, costs, strict=True):
            warm(log.path)
            found.append(ours(log.path))
    times = [max(median(cost.cpu_seconds for cost in each) - start, 1e-3) for each in costs]
    for kind, log, each, cpu in zip(kinds, logs, costs, times, strict=True):
        size, share, values = log.path.stat().st_size / MB, times[0] / cpu, _values(log, each)
        section.rows.append(
            (kind, f"{size:.0f}", f"{cpu:.2f}", f"{size / cpu:.0f}", f"{log.truth.lines / 1000 / cpu:.0f}", f"{share:.2f}", values)
        )
        if log is not logs[0]:
            met = share >= _LEAST_SHARE and "WRONG" not in values
            section.bars.append(Bar(f"{kind.partition('-')[2]}-wrapped", "at least half the bare speed, values right", f"{share:.2f}", met))
    return section


def own_logs(logs: Sequence[Path], runs: int) -> Section:
    """Logs of somebody's own, of which no truth is known."""
    section = Section("Your logs", f"Median of {runs}.", ("log", "MB", "CPU s", "MB per CPU s", "peak MiB"))
    for log in logs:
        warm(log)
        costs = [ours(log) for _ in range(runs)]
        cpu, size = median(cost.cpu_seconds for cost in costs), log.stat().st_size / MB
        peak = max(cost.peak_mib for cost in costs)
        section.rows.append((log.name, f"{size:.1f}", f"{cpu:.2f}", f"{size / cpu:.1f}", f"{peak:.0f}"))
    return section
