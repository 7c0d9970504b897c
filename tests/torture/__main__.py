"""`python -m tests.torture --seconds 60 --seed 1 --kills 50 --rotations 250`: exit code 1 when a byte was lost or counted twice."""

import argparse
import random
import signal
import sys

from tests.torture.run import Plan, Torture


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description="Rotate and kill without mercy, and compare over HTTP.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--kills", type=int, default=0, help="SIGKILLs within the time")
    parser.add_argument("--terms", type=int, default=0, help="SIGTERMs within the time")
    parser.add_argument("--rotations", type=int, default=250, help="about so many, over all logs")
    parser.add_argument("--rate", type=float, default=600, help="lines a second, over all logs")
    parser.add_argument("--scrapes-a-second", type=float, default=20)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # so that the children are ended, too
    torture = Torture(Plan(**vars(parser.parse_args())))
    good = torture.run()
    sys.stdout.write(f"{torture.summary()}\n")
    sys.exit(not good)


if __name__ == "__main__":
    main()
