"""The writer's process: prints at a bounded rate, rotates when its dice say so, and obeys lines of JSON on its standard input."""

import argparse
import json
import os
import random
import select
import sys
import time
from pathlib import Path
from typing import Any

from tests.torture.lines import EngineLog
from tests.torture.rotation import LEAST_SECONDS_APART, ROTATING, RotatingLog
from tests.torture.wrapped import FORMATS, TALLIED

TICK_SECONDS = 0.02
BURST_SHARE, BURST_PAUSE_SECONDS = 0.03, 0.1
MOST_AT_ONCE_BYTES = 100_000
PATIENCE_SECONDS = 2.0
"""How long a log is silent to let the reader catch up before a rotation that needs it."""


class Printer:
    """One source: an engine, the way its lines are wrapped, and the log that they go to."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        self.dice = random.Random(f"{seed}-{name}")
        self.engine = EngineLog(random.Random(f"{seed}-{name}-lines"))
        self.lines_of = FORMATS[name]()
        self.log: RotatingLog = ROTATING[name](folder / name, name, self.dice)
        self._due = 0.0
        self._waiting: tuple[str, float] | None = None
        self._rotated = 0.0
        self.restart_engine()  # with a header in it: until one was read, the series bear no runtime

    def write(self, lines: float) -> None:
        """As many lines as are due by now."""
        if self._waiting:
            return
        self._due = min(self._due + lines, 2000)
        while self._due > 0:
            printed = self.lines_of(self.engine)
            self._due -= len(printed)
            self.log.write(printed)
        if self.dice.random() < 0.3:
            self.log.complete()

    def restart_engine(self) -> None:
        """The engine starts anew: gauges from before are forgotten."""
        self.log.complete()
        self.engine.restarts_due = 2  # the first one may still count as part of a start that was under way
        while self.engine.restarts_due:
            self.log.write(self.lines_of(self.engine))

    def rotate(self, *, reading: bool) -> None:
        """Begin one rotation of a random kind."""
        if self._waiting:
            return
        kind = self.dice.choice(self.log.kinds)
        if kind in self.log.needs_catching_up:
            if reading:
                self.log.complete()
                self._waiting = (kind, time.monotonic() + PATIENCE_SECONDS)
                return
            kind = "copytruncate"
        self._now(kind)

    def go_on(self) -> None:
        """Do what had to wait for the reader; when it does not come, in a way that loses nothing either."""
        if self._waiting and (self.log.caught_up or time.monotonic() > self._waiting[1]):
            kind, self._waiting = self._waiting[0], None
            self._now(kind if self.log.caught_up else "copytruncate")

    def settle(self) -> None:
        self._waiting = None
        self.log.complete()

    def _now(self, kind: str) -> None:
        pause = self._rotated + LEAST_SECONDS_APART - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        self.log.rotate(kind, self._more_than_before() if self.dice.random() < 0.3 else [])
        self._rotated = time.monotonic()

    def _more_than_before(self) -> list[bytes]:
        """So many lines that a log that was truncated is longer than before when the reader looks: its size tells nothing."""
        size, lines = self.log.path.stat().st_size, list[bytes]()
        if size > MOST_AT_ONCE_BYTES:
            return lines
        while size >= 0:
            printed = self.lines_of(self.engine)
            lines += printed
            size -= sum(map(len, printed))
        return lines

    def report(self, name: str) -> dict[str, Any]:
        tally = dict(self.engine.tally) if name in TALLIED else {}
        return {"lines": self.log.lines, "bytes": self.log.written, "rotations": dict(self.log.rotations), "tally": tally}


class Writer:
    """All sources, and whether there is a reader at this moment."""

    def __init__(self, folder: Path, seed: int, rate: float, rotations: float) -> None:
        self.printers = {name: Printer(folder, name, seed) for name in FORMATS}
        self.dice = random.Random(f"{seed}-rotations")
        self.rate, self.rotations = rate, rotations
        self.reading, self.calm = False, True
        self._burst, self._bursting = 0, ""
        self._wanted = 0.0
        self._half_order = b""

    def run(self) -> None:
        """Until the end of the standard input."""
        before = time.monotonic()
        next_rotation = before
        while self._obey():
            now = time.monotonic()
            for each in self.printers.values():
                each.write(self.rate / len(self.printers) * min(now - before, 0.2) * self.dice.random() * 2)
                each.go_on()
            if self.calm:
                next_rotation = now
            else:
                self._wanted += self.rotations * (now - before)
            if now > next_rotation:
                self._rotate()
                next_rotation = now + self._pause()
            before = now

    def _pause(self) -> float:
        """To the next rotation; now and then a burst of ten a second begins."""
        if self._burst:
            return BURST_PAUSE_SECONDS
        if self.dice.random() < BURST_SHARE:
            self._burst, self._bursting = 10, self.dice.choice(list(self.printers))
        done = sum(sum(each.log.rotations.values()) for each in self.printers.values())
        return self.dice.expovariate(self.rotations) * (1.5 if done > self._wanted else 0.5)

    def _rotate(self) -> None:
        name = self._bursting if self._burst else self.dice.choice(list(self.printers))
        self._burst = max(0, self._burst - 1)
        printer = self.printers[name]
        if name != "records" and self.dice.random() < 0.1 and printer.log.zip_one(unread=not self.reading):
            return
        # A rotation that waits for the reader ends a burst.
        printer.rotate(reading=self.reading and not self._burst)

    def _obey(self) -> bool:
        while select.select([sys.stdin.fileno()], [], [], TICK_SECONDS)[0]:
            data = os.read(sys.stdin.fileno(), 65536)
            if not data:
                return False
            *orders, self._half_order = (self._half_order + data).split(b"\n")
            for each in orders:
                answer = self._do(json.loads(each))
                if answer is not None:
                    sys.stdout.write(json.dumps(answer) + "\n")
                    sys.stdout.flush()
        return True

    def _do(self, order: dict[str, Any]) -> dict[str, Any] | None:
        match order:
            case {"seen": seen}:
                for name, number in seen.items():
                    self.printers[name].log.seen = number
                return None
            case {"reading": reading}:
                self.reading = reading
            case {"calm": calm}:
                self.calm = calm
            case {"restart": _}:
                for each in self.printers.values():
                    each.restart_engine()
            case {"finish": _}:
                self.rate, self.calm = 0, True
                for each in self.printers.values():
                    each.settle()
                    each.log.truth.flush()
                return {name: each.report(name) for name, each in self.printers.items()}
        return {}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--rotations", type=float, required=True)
    given = parser.parse_args()
    Writer(given.folder, given.seed, given.rate, given.rotations).run()


if __name__ == "__main__":
    main()
