"""How a command says in one line that it could not do what was asked: with the code 2, as 1 is an answer of some."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from exporter.source_names import STDIN

REFUSED = 2
_INTERRUPTED, _NOBODY_READS = 130, 141
"""What a shell says of a command that a signal ended; 1 would be a finding of `analyze`."""


def fail(message: str) -> NoReturn:
    """End with one line."""
    click.echo(f"inferlog: {message}", err=True)
    sys.exit(REFUSED)


def fail_if_damaged(damages: Sequence[str]) -> None:
    """End so where not all of a log could be read; what came before has been told."""
    if damages:
        fail("; ".join(damages))


def refuse(files: Sequence[str], target: Path | None = None) -> None:
    """End where standard input is to be read twice, or a log would be written over by what it tells."""
    if list(files).count(STDIN) > 1:
        fail("standard input can be read once")
    if target and target.exists() and any(Path(file).exists() and target.samefile(file) for file in files):
        fail(f"{target}: would be written over the log")
    if target and not target.parent.is_dir():
        fail(f"{target}: No such file or directory")


class Commands(click.Group):
    """Ended with one line where something cannot be read or written; by Ctrl-C, or a reader that had enough, without a word."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
        except BrokenPipeError:
            sys.stdout = None  # nothing may be flushed at exit
            sys.exit(_NOBODY_READS)
        except OSError as error:
            try:
                sys.stdout.flush()
            except OSError:
                sys.stdout = None  # as above
            fail(": ".join(filter(None, (error.filename and str(error.filename), error.strerror or str(error)))))
