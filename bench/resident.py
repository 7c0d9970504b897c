"""What the daemon costs that has nothing to read: to start, to wait, to answer. And one that is far behind."""

import os
import time
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from statistics import median

from bench.corpus import corpus
from bench.process import INFERLOG, Daemon, memory, run, workspace
from bench.report import Bar, Section
from bench.sizes import MB, Sizes

_HEAD = MB // 2
_MOST_START, _MOST_IDLE, _MOST_SCRAPE_MS, _MOST_MIB = 0.7, 0.05, 6.0, 64
_SERIES = (500, 5000)
_EACH_SECONDS = 0.05
_MINUTE = 60
_LONGEST_SECONDS = 600
AS_PROMETHEUS = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", "Accept-Encoding": "gzip"}


def series_of(exposition: bytes) -> int:
    """How many there are."""
    return sum(not line.startswith(b"#") for line in exposition.splitlines())


def copies(folder: Path, count: int) -> list[Path]:
    """So many logs of small engines."""
    text = corpus("dense", _HEAD).path.read_bytes()
    logs = [folder / f"engine-{number}.log" for number in range(count)]
    for log in logs:
        log.write_bytes(text)
    return logs


def measure(sizes: Sizes) -> Section:
    """Start and idle, with one log."""
    section = Section(
        "Beside a quiet engine",
        f"`inferlog run` with a state file and one log of half a MB. Start: until /-/ready answers, median of {sizes.starts}. Idle: nothing is "
        "written and nobody scrapes. Log sources only: each optional source of evidence costs what its own page says.",
        ("what", "measured"),
    )
    with workspace() as folder:
        [log] = copies(folder, 1)
        started = []
        for number in range(sizes.starts + 1):
            state = folder / str(number)
            state.mkdir()
            with Daemon([log], state) as daemon:
                started.append(daemon.until_ready())
        start = median(started[1:])  # the first one compiles what is not compiled yet
        with Daemon([log], folder) as daemon:
            daemon.until_ready()
            daemon.settle(5)
            before, began = daemon.cpu, time.monotonic()
            time.sleep(sizes.idle_seconds)
            idle = (daemon.cpu - before) * _MINUTE / (time.monotonic() - began)
            pid = daemon.process.pid
            resident, threads, files = memory(pid), len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
    section.rows += [
        ("start, CPU s until ready", f"{start:.2f}"),
        (f"idle over {sizes.idle_seconds} s, CPU s a minute", f"{idle:.3f}"),
        ("resident memory, MiB", f"{resident:.0f}"),
        ("threads, open files", f"{threads}, {files}"),
    ]
    section.bars += [
        Bar("ready to serve", f"within {_MOST_START} CPU s", f"{start:.2f} s", start <= _MOST_START),
        Bar("idle", f"under {_MOST_IDLE} CPU s a minute", f"{idle:.3f} s", idle < _MOST_IDLE),
    ]
    return section


def _each(daemon: Daemon, scrapes: int, headers: dict[str, str]) -> float:
    """CPU milliseconds of one scrape."""
    for _ in range(3):
        daemon.get(headers=headers)
    before = daemon.cpu
    for _ in range(scrapes):
        assert daemon.get(headers=headers)[0] == HTTPStatus.OK
    return (daemon.cpu - before) * 1000 / scrapes


def measure_scrapes(sizes: Sizes) -> Section:
    """By number of series; then of one engine with a password and TLS."""
    section = Section(
        "A scrape",
        f"CPU of the daemon for each of {sizes.scrapes} scrapes, one after the other over a connection that is kept. Prometheus asks for "
        "OpenMetrics and gzip.",
        ("logs", "series", "plain text, CPU ms", "as Prometheus asks, CPU ms", "us a series"),
    )
    with workspace() as folder:
        of_one = series_of(run([*INFERLOG, "metrics", str(copies(folder, 1)[0])]).output.encode())
    for wanted in _SERIES:
        with workspace() as folder:
            logs = copies(folder, max(1, round(wanted / of_one)))
            with Daemon(logs, folder) as daemon:
                daemon.until_ready()
                daemon.settle()
                series = series_of(daemon.get()[1])
                plain, asked = (_each(daemon, sizes.scrapes, headers) for headers in ({}, AS_PROMETHEUS))
            section.rows.append((str(len(logs)), f"{series:,}", f"{plain:.2f}", f"{asked:.2f}", f"{asked * 1000 / series:.1f}"))
            if wanted == _SERIES[0]:
                for what, ms in (("plain", plain), ("as Prometheus asks", asked)):
                    of_500 = ms * wanted / series
                    section.bars.append(
                        Bar(
                            f"a scrape of 500 series, {what}",
                            f"under {_MOST_SCRAPE_MS:.0f} ms of CPU",
                            f"{of_500:.1f} ms",
                            of_500 < _MOST_SCRAPE_MS,
                        )
                    )
    return section


def measure_backlog(sizes: Sizes) -> Section:
    """A log that another one of two gigabytes takes the place of, while somebody scrapes twenty times a second."""
    section = Section(
        "Far behind",
        "The daemon follows an empty log; a file of this size takes its place in one moment, as after a mount that was away. Every 50 ms "
        "/metrics is read until all of it is counted; each answer is of a state that was saved before.",
        ("MB", "CPU s", "seconds", "scrapes", "median ms", "longest ms", "peak MiB", "values"),
    )
    log = corpus("typical", sizes.backlog)
    with workspace() as folder:
        followed, come = folder / "engine.log", folder / "come"
        followed.touch()
        os.link(log.path, come)
        come.touch()  # the gauges of a log that was last written an hour ago have expired
        with Daemon([followed], folder) as daemon:
            daemon.until_ready()
            daemon.settle()
            before, began = daemon.cpu, time.monotonic()
            come.replace(followed)
            took: list[float] = []
            while daemon.value(b"log_lines_total") < log.truth.lines and time.monotonic() - began < _LONGEST_SECONDS:
                took += _scrape_in_turn(daemon)
            cpu, seconds, peak = daemon.cpu - before, time.monotonic() - began, daemon.peak
            wrong = log.truth.wrong(daemon.get()[1].decode())
    values = f"{len(wrong)} WRONG" if wrong else f"{len(log.truth.values)} right"
    figures = (median(took) * 1000, max(took) * 1000)
    section.rows.append(
        (
            f"{log.truth.bytes / MB:.0f}",
            f"{cpu:.1f}",
            f"{seconds:.1f}",
            str(len(took)),
            *(f"{ms:.0f}" for ms in figures),
            f"{peak:.0f}",
            values,
        )
    )
    section.bars.append(
        Bar("peak memory behind a backlog", f"under {_MOST_MIB} MiB, values right", f"{peak:.0f} MiB", peak < _MOST_MIB and not wrong)
    )
    return section


def _scrape_in_turn(daemon: Daemon) -> Sequence[float]:
    took = []
    for _ in range(10):
        before = time.monotonic()
        daemon.get(headers=AS_PROMETHEUS)
        took.append(time.monotonic() - before)
        time.sleep(max(_EACH_SECONDS - took[-1], 0))
    return took
