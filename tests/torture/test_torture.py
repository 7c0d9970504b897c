"""The torture for a bounded time; INFERLOG_TORTURE_SECONDS makes it longer, INFERLOG_TORTURE_SEED repeats one."""

import os
import random
import sys

import pytest

from tests.torture.run import Plan, Torture

SECONDS = float(os.environ.get("INFERLOG_TORTURE_SECONDS") or 60)
SEED = int(os.environ.get("INFERLOG_TORTURE_SEED") or random.SystemRandom().randrange(10**6))


@pytest.mark.slow
@pytest.mark.torture
@pytest.mark.timeout(SECONDS + 240)
def test_nothing_is_lost_or_counted_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """Over kills, rotations of every kind and restarts, what HTTP shows is what was written, and no counter ever falls."""
    torture = Torture(Plan(SECONDS, SEED, kills=round(SECONDS * 0.85), rotations=round(SECONDS * 4.5), terms=round(SECONDS / 10)))
    good = torture.run()
    with capsys.disabled():
        sys.stdout.write(f"\n{torture.summary()}\n")
    assert good, torture.summary()
