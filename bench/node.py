"""One daemon for a node with many engines: node.py [--engines 100] [--lines 20] [--seconds 60]

Lays out the logs of so many pods as kubelet does, each with the captured log of a P/D decode engine as its history, and follows
them with `inferlog run`: CPU seconds and memory after the history, while idle, and while each engine writes so many lines a
second (access lines, and a periodic line in ten seconds), scraped every 15 s. CPU time, so that the figures hold on a busy machine.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib import resources
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
SCRAPE_SECONDS = 15
PERIODIC_SECONDS = 10
ACCESS = 'INFO:     10.42.3.17:41022 - "POST /v1/completions HTTP/1.1" 200 OK'
PERIODIC = (
    "(APIServer pid=1) INFO {at} [loggers.py:259] Engine 000: Avg prompt throughput: 812.4 tokens/s, Avg generation throughput: 305.1 tokens/s, "
    "Running: 12 reqs, Waiting: 3 reqs, GPU KV cache usage: 41.2%, Prefix cache hit rate: 33.0%"
)


def lay_out(folder: Path, engines: int) -> list[Path]:
    """The logs of so many pods."""
    history = (resources.files("exporter") / "demo_logs" / "pd-decode.log").read_text(encoding="utf-8").splitlines()
    logs = []
    for number in range(engines):
        uid = f"00000000-0000-4000-8000-{number:012x}"
        log = folder / f"llm_chat-{number:04d}-decode-0_{uid}" / "engine" / "0.log"
        log.parent.mkdir(parents=True)
        log.write_text("".join(f"{stamp()} stdout F {line}\n" for line in history), encoding="utf-8")
        logs.append(log)
    return logs


def stamp() -> str:
    """Now, as the runtime prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", time.gmtime())


class Daemon:
    """The process, as the kernel sees it."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "exporter", "run", "--log", f"{folder}/*/engine/*.log", "--state-file", f"{folder}/../state.json",
             "--web.listen-address", f"127.0.0.1:{self.port}", "--log.level", "warning"],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def cpu(self) -> float:
        """Seconds of user and system time."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self, name: str = "VmRSS") -> float:
        """In MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith(f"{name}:"))) / 1024

    def scrape(self) -> bytes:
        """Empty until the history is read."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
                return bytes(answer.read())
        except OSError:
            return b""


def follow(daemon: Daemon, logs: list[Path], lines: int, seconds: int) -> tuple[float, list[float]]:
    """CPU seconds a minute while each log grows by so many lines a second, and how long scrapes took."""
    files = [log.open("a", encoding="utf-8") for log in logs]
    began, cpu, took = time.monotonic(), daemon.cpu(), []
    for second in range(seconds):
        at = stamp()
        for file in files if lines else []:
            file.write(f"{at} stdout F {ACCESS}\n" * lines)
            if second % PERIODIC_SECONDS == 0:
                file.write(f"{at} stdout F {PERIODIC.format(at=time.strftime('%m-%d %H:%M:%S'))}\n")
            file.flush()
        if second % SCRAPE_SECONDS == 0:
            before = time.monotonic()
            daemon.scrape()
            took.append(time.monotonic() - before)
        time.sleep(max(began + second + 1 - time.monotonic(), 0))
    for file in files:
        file.close()
    return (daemon.cpu() - cpu) * 60 / (time.monotonic() - began), took


def main() -> None:
    """Measure, and print a row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--engines", type=int, default=100)
    parser.add_argument("--lines", type=int, default=20, help="of each engine, a second")
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        logs = lay_out(Path(folder) / "pods", given.engines)
        daemon = Daemon(Path(folder) / "pods")
        try:
            while not (exposition := daemon.scrape()):
                time.sleep(0.1)
            series = sum(not line.startswith(b"#") for line in exposition.splitlines())
            print(f"{given.engines} engines: {series} series, {len(exposition) / 1e6:.1f} MB a scrape")
            print(f"history of {sum(log.stat().st_size for log in logs) / 1e6:.1f} MB: {daemon.cpu():.1f} CPU s, {daemon.memory():.0f} MiB")
            idle, _ = follow(daemon, logs, 0, given.seconds)
            print(f"idle: {idle:.2f} CPU s a minute, with four scrapes")
            busy, took = follow(daemon, logs, given.lines, given.seconds)
            print(f"{given.engines * given.lines} lines/s: {busy:.2f} CPU s a minute, a scrape up to {max(took) * 1000:.0f} ms")
            print(f"memory: {daemon.memory():.0f} MiB, at most {daemon.memory('VmHWM'):.0f} MiB")
        finally:
            daemon.process.terminate()
            daemon.process.wait(30)


if __name__ == "__main__":
    main()
