"""The commands about saved logs. Each imports what it needs when it runs."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

FINDINGS = 1
USAGE_ERROR = 2
_BAR_BYTES = 16 * 1024 * 1024
"""Below this a progress bar would only flicker."""


def fail(message: str) -> NoReturn:
    """End with one line and the code for a wrong use."""
    click.echo(f"inferlog: {message}", err=True)
    sys.exit(USAGE_ERROR)


def _zone(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    from exporter.durations import zone_seconds

    try:
        return None if value is None else zone_seconds(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What lines do not tell of their times."""
    for option in (
        click.option("--year", type=click.IntRange(2000, 2100), help="Year of the last line; default: of the file's last change."),
        click.option("--timezone", "zone", callback=_zone, metavar="OFFSET", help='Zone of the printed times, such as "+08:00".'),
    ):
        command = option(command)
    return command


@contextmanager
def progress(sizes: Sequence[int | None]) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal while long input is read."""
    total = sum(size or 0 for size in sizes)
    if total < _BAR_BYTES or not sys.stderr.isatty():
        yield lambda read: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    with Progress(BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=total)
        yield lambda read: bar.advance(task, read)


@contextmanager
def output(path: Path | None) -> Iterator[Any]:
    """A file that was asked for, or standard output."""
    if path is None:
        yield sys.stdout
        return
    try:
        with path.open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        fail(f"{path}: {error.strerror}")


def analyze_command(source_options: Callable[..., Any]) -> click.Command:
    """`inferlog analyze`, with the settings of a source as options."""

    @click.command("analyze")
    @click.argument("files", nargs=-1, required=True, metavar="FILE...")
    @source_options
    @log_options
    @click.option("--format", "form", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
    @click.option("-o", "--output", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
    def analyze(
        files: Sequence[str], year: int | None, zone: float | None, form: str, target: Path | None, **settings: Any
    ) -> None:  # fmt: skip
        """Say what happened in saved logs, what is wrong and what to do.

        Each FILE is an engine or a gateway of its own; gzip and Zstandard are read as they are, - is standard input. Ends with 0 where
        nothing critical was found, 1 where something was, 2 when it was not used as it should.
        """
        from exporter.analysis.analyze import analyze as read
        from exporter.analysis.inputs import saved_logs

        if list(files).count("-") > 1:
            fail("standard input can be read once")
        given = {key: value for key, value in settings.items() if value is not None}
        try:
            logs = saved_logs(list(files), year)
            with progress([log.size for log in logs]) as tick:
                report = read(logs, zone=zone, tick=tick, **given)
        except OSError as error:
            fail(f"{error.filename or 'standard input'}: {error.strerror}")
        with output(target) as out:
            if form == "json":
                out.write(report.model_dump_json(indent=2) + "\n")
            elif form == "html":
                from exporter.analysis.html import page

                out.write(page(report))
            else:
                from exporter.analysis.text import write

                write(report, out)
        sys.exit(FINDINGS if report.worst == "critical" else 0)

    return analyze
