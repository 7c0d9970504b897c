"""CPU seconds and peak memory of `inferlog metrics` on a corpus: throughput.py [CORPUS...] [--wrap cri]... [--runs 3] [--bytes 100000000]

Without a CORPUS it takes the real logs of tests/data, one after the other until they make so many bytes. CPU time is user
and system of the whole process, start and exposition included, so the figure holds on a busy machine; quote the median,
and ratios to another program only from the same run. With --wrap each corpus is also read in that wrapping (cri, docker, compose ...),
and the last column is its lines per CPU second to those of the bare one, in the same run.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
CORPORA = Path(__file__).parent / "corpora"
MEGA = 1_000_000
KIB_PER_MIB = 1024
SAMPLE_SECONDS = 0.005


class Run(NamedTuple):
    """One run of the command."""

    cpu_seconds: float
    peak_mib: float


def captured_corpus(size: int) -> Path:
    """The captured logs of engines, repeated until they make `size` bytes."""
    logs = sorted(log for engine in ("sglang", "vllm") for log in (ROOT / "tests" / "data").glob(f"{engine}-*/captured-*.log"))
    target = CORPORA / f"captured-{size}.log"
    if not target.exists():
        CORPORA.mkdir(exist_ok=True)
        parts = [log.read_bytes().rstrip(b"\n") + b"\n" for log in logs]
        with target.open("wb") as corpus:
            while corpus.tell() < size:
                corpus.writelines(parts)
    return target


def wrapped_corpus(corpus: Path, wrap: str) -> Path:
    """A corpus as a container runtime or a viewer keeps it."""
    sys.path.insert(0, str(ROOT))
    from tests.wrappings import WRAPS, wrapped

    target = CORPORA / f"{corpus.stem}-{wrap}{corpus.suffix}"
    CORPORA.mkdir(exist_ok=True)
    with target.open("wb") as lines:
        lines.writelines(wrapped(corpus.read_bytes(), WRAPS[wrap], time.gmtime().tm_year))
    return target


def measure(corpus: Path) -> Run:
    """One run of `inferlog metrics`; raises CalledProcessError when it fails."""
    command = [sys.executable, "-m", "exporter", "metrics", str(corpus)]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, cwd=ROOT)
        peak = 0.0
        while True:
            peak = max(peak, _peak_mib(process.pid))
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(SAMPLE_SECONDS)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Run(usage.ru_utime + usage.ru_stime, peak)


def _peak_mib(pid: int) -> float:
    """VmHWM: unlike ru_maxrss it leaves out what the process was before exec."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found[0]) / KIB_PER_MIB if found else 0.0


def main() -> None:
    """Print a row for each corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="*", type=Path, metavar="CORPUS")
    parser.add_argument("--wrap", action="append", default=[], metavar="NAME")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=100 * MEGA)
    options = parser.parse_args()
    width = min(shutil.get_terminal_size().columns, 110)
    print(f"{'corpus':{width - 54}} {'MB':>8} {'CPU s':>8} {'MB/CPU s':>10} {'peak MiB':>10} {'to bare':>9}")
    for corpus in options.corpora or [captured_corpus(options.bytes)]:
        files = [corpus, *(wrapped_corpus(corpus, wrap) for wrap in options.wrap)]
        bare = 0.0
        for file, runs in zip(files, in_turns(files, options.runs), strict=True):
            cpu, size = statistics.median(run.cpu_seconds for run in runs), file.stat().st_size / MEGA
            bare = bare or cpu  # the same lines: the ratio of the times is that of lines per second
            peak = max(run.peak_mib for run in runs)
            print(f"{file.name:{width - 54}} {size:8.1f} {cpu:8.2f} {size / cpu:10.1f} {peak:10.1f} {bare / cpu:9.2f}")


def in_turns(files: list[Path], runs: int) -> Iterator[list[Run]]:
    """Some runs of each file, one after the other, so that a busy moment of the machine meets all of them."""
    yield from map(list, zip(*([measure(file) for file in files] for _ in range(runs)), strict=True))


if __name__ == "__main__":
    main()
