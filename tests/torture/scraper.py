"""Reads /metrics all the time, as Prometheus would, and remembers every counter: none may ever fall or vanish."""

import http.client
import re
import threading
import time
from collections.abc import Callable

_SOURCE = re.compile(r'source="([^"]*)"')
MOST_FAULTS = 200


def parse(text: str) -> tuple[dict[str, float], set[str]]:
    """Our series by their text, and those of them that are counters."""
    series: dict[str, float] = {}
    counters: set[str] = set()
    kind = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            kind = line.rpartition(" ")[2]
        elif line.startswith("inferlog_"):
            name, _, value = line.rpartition(" ")
            series[name] = float(value)
            if kind == "counter":
                counters.add(name)
    return series, counters


def source_of(series: str) -> str:
    found = _SOURCE.search(series)
    return found[1] if found else ""


def by_source(series: dict[str, float], family: str) -> dict[str, int]:
    """The value of an unlabelled family of each source."""
    return {source_of(name): int(value) for name, value in series.items() if name.startswith(f"inferlog_{family}{{")}


class Scraper:
    """A thread that scrapes; `on_read` is told how many bytes of each source the reader has read."""

    def __init__(self, port: int, every: float, on_read: Callable[[dict[str, int]], None]) -> None:
        self._port, self._every, self._on_read = port, every, on_read
        self.scrapes = self.refused = self.unavailable = 0
        self.series: dict[str, float] = {}
        self.life = 0
        self.answered_in = 0
        """The life of the reader that answered last, with 200 or with 503."""
        self.shown_in = 0
        """The life of the reader that showed metrics last."""
        self.faults: list[str] = []
        self.error: BaseException | None = None
        self._highest: dict[str, float] = {}
        self._counters: set[str] = set()
        self._began = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scraper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(20)

    def read_bytes(self) -> dict[str, int]:
        return by_source(self.series, "source_read_bytes_total")

    def lag_bytes(self) -> dict[str, int]:
        return by_source(self.series, "source_lag_bytes")

    def _run(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._stopping.is_set():
            began, life = time.monotonic(), self.life
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
                connection.request("GET", "/metrics")
                answer = connection.getresponse()
                self._take(answer.status, answer.read().decode(), life)
            except (OSError, http.client.HTTPException):  # dead, or killed in the middle of an answer
                self.refused += 1
                if connection is not None:
                    connection.close()
                connection = None
            except BaseException as error:  # noqa: BLE001 - the main thread must hear of it
                self.error = error
                return
            self._stopping.wait(max(0.0, self._every - (time.monotonic() - began)))
        if connection is not None:
            connection.close()

    def _take(self, status: int, text: str, life: int) -> None:
        self.answered_in = life
        if status == http.client.SERVICE_UNAVAILABLE:  # it reads the history
            self.unavailable += 1
            return
        if status != http.client.OK:
            self._fault(f"/metrics answered {status}", life)
            return
        series, counters = parse(text)
        self.scrapes += 1
        self._counters |= counters
        for name in self._highest.keys() - series.keys():
            self._fault(f"vanished: {name}, was {self._highest.pop(name):.15g}", life)
        for name in counters:
            value, highest = series[name], self._highest.get(name, 0.0)
            if value < highest:
                self._fault(f"fell: {name} from {highest:.15g} to {value:.15g}", life)
            self._highest[name] = value
        self.series, self.shown_in = series, life
        self._on_read(self.read_bytes())

    def _fault(self, text: str, life: int) -> None:
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(f"{time.monotonic() - self._began:.1f} s, life {life}: {text}")
