"""One daemon for a node with many engines, whose pods' logs lie as kubelet lays them."""

import time
from importlib import resources
from pathlib import Path

from bench.process import Daemon, memory, workspace
from bench.report import Section
from bench.resident import AS_PROMETHEUS, series_of
from bench.sizes import MB, Sizes

_ENGINES = (1, 100)
_LINES = 20
_SCRAPE_SECONDS = 15
_PERIODIC_SECONDS = 10
_MINUTE = 60
_ACCESS = 'INFO:     10.42.3.17:41022 - "POST /v1/completions HTTP/1.1" 200 OK'
_PERIODIC = (
    "(APIServer pid=1) INFO {at} [loggers.py:335] Engine 000: Avg prompt throughput: 812.4 tokens/s, Avg generation throughput: 305.1 tokens/s, "
    "Running: 12 reqs, Waiting: 3 reqs, GPU KV cache usage: 41.2%, Prefix cache hit rate: 33.0%"
)


def _lay_out(folder: Path, engines: int) -> list[Path]:
    """The logs of so many pods, each with the log of a decode engine as its history."""
    history = (resources.files("exporter") / "demo_logs" / "pd-decode.log").read_text(encoding="utf-8").splitlines()
    logs = []
    for number in range(engines):
        log = folder / f"llm_chat-{number:04d}-decode-0_00000000-0000-4000-8000-{number:012x}" / "engine" / "0.log"
        log.parent.mkdir(parents=True)
        log.write_text("".join(f"{_stamp()} stdout F {line}\n" for line in history), encoding="utf-8")
        logs.append(log)
    return logs


def _stamp() -> str:
    """Now, as the runtime prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", time.gmtime())


def _a_minute(daemon: Daemon, logs: list[Path], lines: int, seconds: int) -> tuple[float, float]:
    """CPU seconds a minute while each log grows by so many lines a second, and the longest scrape."""
    files = [log.open("a", encoding="utf-8") for log in logs]
    began, cpu, longest = time.monotonic(), daemon.cpu, 0.0
    for second in range(seconds):
        at = _stamp()
        for file in files if lines else ():
            file.write(f"{at} stdout F {_ACCESS}\n" * lines)
            if second % _PERIODIC_SECONDS == 0:
                file.write(f"{at} stdout F {_PERIODIC.format(at=time.strftime('%m-%d %H:%M:%S'))}\n")
            file.flush()
        if second % _SCRAPE_SECONDS == 0:
            before = time.monotonic()
            daemon.get(headers=AS_PROMETHEUS)
            longest = max(longest, time.monotonic() - before)
        time.sleep(max(began + second + 1 - time.monotonic(), 0))
    for file in files:
        file.close()
    return (daemon.cpu - cpu) * _MINUTE / (time.monotonic() - began), longest


def measure(sizes: Sizes) -> Section:
    """One engine, and a hundred."""
    section = Section(
        "A node",
        f"The pods' logs under one glob, each with the log of a decode engine as its history; then {sizes.node_seconds} s without a line and "
        f"{sizes.node_seconds} s with {_LINES} lines a second of each engine, scraped every {_SCRAPE_SECONDS} s.",
        ("engines", "series", "history", "idle, CPU s a minute", "writing, CPU s a minute", "longest scrape, ms", "resident, peak MiB"),
    )
    for engines in _ENGINES:
        with workspace() as folder:
            logs = _lay_out(folder / "pods", engines)
            with Daemon([f"{folder}/pods/*/engine/*.log"], folder) as daemon:
                start = daemon.until_ready()
                daemon.settle()
                series, size = series_of(daemon.get()[1]), sum(log.stat().st_size for log in logs) / MB
                idle, _ = _a_minute(daemon, logs, 0, sizes.node_seconds)
                busy, longest = _a_minute(daemon, logs, _LINES, sizes.node_seconds)
                mib = f"{memory(daemon.process.pid):.0f}, {daemon.peak:.0f}"
        history = f"{start:.1f} CPU s for {size:.1f} MB"
        section.rows.append((str(engines), f"{series:,}", history, f"{idle:.2f}", f"{busy:.2f}", f"{longest * 1000:.0f}", mib))
    return section
