"""One run: a writer that rotates, a reader that is killed, a scraper that watches, and the comparison at the end."""

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.torture import truth
from tests.torture.processes import ProcessError, Reader, WriterProcess
from tests.torture.scraper import Scraper

FRESH_SECONDS = 60.0
"""Gauges expire two minutes after their line: the engines start anew so long before the end, and no gauge is older."""

STARVED_SECONDS = 8.0
"""Without any scrape for so long the reader is left alone until it has caught up: files must not pile up for ever."""

DEADLINE_SECONDS = 90.0
"""In which the reader has to start, or to catch up at the end."""


MOST_SHOWN = 60
"""Differences in the summary."""


class Plan(NamedTuple):
    """How long, and how much of everything."""

    seconds: float
    seed: int
    kills: int
    rotations: int
    terms: int
    rate: float = 600.0
    scrapes_a_second: float = 20.0


class Torture:
    """Runs a plan in a directory of its own, which stays when something was wrong."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.dice = random.Random(plan.seed)
        self.folder = Path(tempfile.mkdtemp(prefix=f"inferlog-torture-{plan.seed}-"))
        self.faults: list[str] = []
        self.kills = self.terms = 0
        self.report: dict[str, Any] = {}
        self.writer = WriterProcess(self.folder, plan.seed, plan.rate, max(plan.rotations, 1) / plan.seconds)
        self.reader = Reader(self.folder)
        self.scraper = Scraper(self.reader.port, 1 / plan.scrapes_a_second, self.writer.tell)
        self._fed = time.monotonic()
        self._scrapes_then = 0
        self._restarted = plan.seconds < FRESH_SECONDS * 1.6

    def run(self) -> bool:
        """Whether nothing was lost, nothing counted twice, and no counter fell."""
        try:
            self._torment()
            self._judge()
        except ProcessError as error:
            self.faults.append(str(error))
            with suppress(ProcessError):
                self.report = self.report or self.writer.order(finish=True)
        finally:
            self.scraper.stop()
            self.reader.close()
            self.writer.close()
        self.faults = [*self.scraper.faults, *self.faults]
        if self.faults:
            (self.folder / "differences").write_text("\n".join(self.faults), encoding="utf-8")
        else:
            shutil.rmtree(self.folder)
        return not self.faults

    # -- the torment ---------------------------------------------------------------------------------------------------

    def _torment(self) -> None:
        self._start()
        self.scraper.start()
        # What a first start reads is the history that it finds, without the rotated files: so nothing happens before.
        self._wait(self._shows_lines, "the first metrics")
        self._read_and_calm(reading=True, calm=self.plan.rotations == 0)
        end = time.monotonic() + self.plan.seconds
        while (left := end - time.monotonic()) > 0:
            if not self._restarted and left < FRESH_SECONDS:
                self._restarted = True
                self.writer.order(restart=True)
            stops = self.plan.kills + self.plan.terms - self.kills - self.terms
            if stops <= 0:
                self._live(min(1.0, left))
                continue
            self._live(min(self._life(left / stops), left))
            self._stop()
            self._pause()
            self._start()

    def _life(self, mean: float) -> float:
        """How long this life lasts: often too short for a start, and now and then long enough to follow live."""
        if self.dice.random() < 0.25:
            return self.dice.uniform(0, 0.8)
        return self.dice.uniform(0.2, max(0.4, 1.8 * mean))

    def _live(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.25))
            self._check()
        if self.scraper.scrapes != self._scrapes_then:
            self._fed, self._scrapes_then = time.monotonic(), self.scraper.scrapes
        elif time.monotonic() - self._fed > STARVED_SECONDS:
            self._wait(lambda: self.scraper.shown_in == self.reader.lives, "metrics, undisturbed")

    def _stop(self) -> None:
        terms_left = self.plan.terms - self.terms
        share = terms_left / max(1, terms_left + self.plan.kills - self.kills)
        # Before it answers, its handler is not installed yet, and SIGTERM is as good as SIGKILL.
        if self.scraper.answered_in == self.reader.lives and self.dice.random() < share * 1.5:
            self.terms += 1
            self._terminate()
        else:
            self.kills += 1
            self.reader.kill()

    def _terminate(self) -> None:
        if fault := self.reader.terminate():
            self.faults.append(fault)

    def _pause(self) -> None:
        seconds = self.dice.choice((0, 0, 0, 0, 0, 0.1, 0.3, 1.0))
        if seconds:
            self._read_and_calm(reading=False, calm=self.plan.rotations == 0)
            time.sleep(seconds)
            self._read_and_calm(reading=True, calm=self.plan.rotations == 0)

    # -- the judgement -------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        self.report = self.writer.order(finish=True)
        self._catch_up("all that was written")
        wanted = truth.of_whole_logs(self.folder)
        self._compare("", wanted)
        if self.kills + self.terms:
            # As if it had never died: the restored state alone must show the same.
            for stop, word in ((self.reader.kill, "kill"), (self._terminate, "SIGTERM")):
                stop()
                self._start()
                self._catch_up(f"the same after a {word} at rest")
                self._compare(f"after a {word} at rest, ", wanted)
        self._terminate()

    def _compare(self, when: str, wanted: dict[str, float]) -> None:
        series = self.scraper.series
        found = [*truth.tally_differences(series, self.report), *truth.differences(series, wanted)]
        self.faults += [when + each for each in found]

    def _catch_up(self, what: str) -> None:
        written = {name: each["bytes"] for name, each in self.report.items()}

        def done() -> bool:
            return (
                self.scraper.shown_in == self.reader.lives
                and self.scraper.read_bytes() == written
                and not any(self.scraper.lag_bytes().values())
            )

        try:
            self._wait(done, what, 20.0 if self.scraper.shown_in else DEADLINE_SECONDS)
        except ProcessError as error:
            self.faults.append(f"{error}: read {self.scraper.read_bytes()}, lag {self.scraper.lag_bytes()}, written {written}")

    # -- both ----------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.reader.start()
        self.scraper.life = self.reader.lives

    def _read_and_calm(self, *, reading: bool, calm: bool) -> None:
        self.writer.order(reading=reading)
        self.writer.order(calm=calm)

    def _shows_lines(self) -> bool:
        return len(self.scraper.read_bytes()) > 0 and all(self.scraper.read_bytes().values())

    def _check(self) -> None:
        self.reader.check()
        if self.scraper.error is not None:
            raise ProcessError(f"the scraper ended: {self.scraper.error!r}")

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float = DEADLINE_SECONDS) -> None:
        until = time.monotonic() + seconds
        while not condition():
            self._check()
            if time.monotonic() > until:
                raise ProcessError(f"waited {seconds:g} s for {what}")
            time.sleep(0.02)

    def summary(self) -> str:
        """The figures, and what was wrong."""
        kinds: Counter[str] = Counter()
        for each in self.report.values():
            kinds.update(each["rotations"])
        lines, size = (sum(each[key] for each in self.report.values()) for key in ("lines", "bytes"))
        zipped = sum(number for kind, number in kinds.items() if kind.startswith("gzip"))
        head = (
            f"seed {self.plan.seed}: {self.kills} kills, {self.terms} SIGTERMs (slowest end {self.reader.slowest_term:.2f} s), "
            f"{kinds.total() - zipped} rotations, {zipped} files compressed\n"
            f"  {', '.join(f'{kind} {number}' for kind, number in sorted(kinds.items()))}\n"
            f"  {lines} lines, {size} bytes; {self.scraper.scrapes} scrapes with metrics, {self.scraper.unavailable} with 503, "
            f"{self.scraper.refused} without an answer"
        )
        if not self.faults:
            return f"{head}\n0 lost, 0 double, no counter fell"
        listed = "\n".join(f"  {each}" for each in self.faults[:MOST_SHOWN])
        return f"{head}\nFAILED, {len(self.faults)} differences, all of them in {self.folder}/differences, the first ones:\n{listed}"
