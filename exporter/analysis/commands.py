"""The commands about saved logs. Each imports what it needs when it runs."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from exporter.refusals import fail, fail_if_damaged, refuse
from exporter.source_names import STDIN

FINDINGS = 1
_BAR_BYTES = 16 * 1024 * 1024
"""Below this a progress bar would only flicker."""


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
    if path is None or str(path) == STDIN:
        yield sys.stdout
        return
    try:
        with path.open("w", encoding="utf-8", errors="surrogateescape") as file:
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

        Each FILE is an engine or a gateway of its own, but for the pieces of a rotated log, which are one. Gzip and Zstandard are read as
        they are, - is standard input. Ends with 0 where nothing critical was found, 1 where something was, 2 when it was not used as it
        should.
        """
        from exporter.analysis.analyze import analyze as read
        from exporter.analysis.inputs import saved_logs

        refuse(files, target)
        given = {key: value for key, value in settings.items() if value is not None}
        logs = saved_logs(list(files), year)
        with progress([log.size for log in logs]) as tick:
            report = read(logs, zone=zone, tick=tick, **given)
        with output(target) as out:
            if form == "json":
                out.write(report.model_dump_json(indent=2) + "\n")
            elif form == "html":
                from exporter.analysis.html import page

                out.write(page(report))
            else:
                from exporter.analysis.text import write

                write(report, out)
        damages = [f"{file.path}: damaged, the rest could not be read ({file.damaged})" for file in report.files if file.damaged]
        if report.worst == "critical":
            for damage in damages:
                click.echo(f"inferlog: {damage}", err=True)
            sys.exit(FINDINGS)
        fail_if_damaged(damages)
        if report.tells_nothing:
            fail("no engine or gateway that is known speaks here: inferlog check says why")

    return analyze


@click.command("capacity", short_help="Say what fits into the KV pool and into one step.")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@click.option("--pool-tokens", type=click.IntRange(1), help="Size of the KV pool; default: as the logs tell.")
@click.option("--max-model-len", type=click.IntRange(1), help="The longest request; default: as the logs tell.")
@click.option(
    "--max-batched-tokens", type=click.IntRange(1), help="max_num_batched_tokens, or the chunk of a prefill; default: as the logs tell."
)
@click.option("--max-running-requests", type=click.IntRange(1), help="max_num_seqs; default: as the logs tell.")
@click.option("--prompt-tokens", type=click.IntRange(1), help="Length of a prompt.")
@click.option(
    "--scan-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Take the files of a folder for the prompt."
)
@click.option(
    "--ext", "extensions", multiple=True, metavar=".EXT", help="Of these files only; may be repeated. Default: usual ones of text and code."
)
@click.option(
    "--characters-per-token",
    type=click.FloatRange(0.1, 100),
    help="For the estimate of --scan-dir; default: 4. CJK characters are one token each.",
)
@click.option(
    "--tokenizer",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A tokenizer.json to count with; needs the library tokenizers.",
)
@click.option("--output-tokens", type=click.IntRange(0), default=1024, show_default=True, help="Length of an answer.")
@click.option("--concurrency", type=click.IntRange(1), default=1, show_default=True, help="Requests at a time.")
@click.option(
    "--sweep", "table", metavar="CSV", help="A measured table (docs/saved-logs.md); example: the one of two DGX Sparks that is shipped."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def capacity_command(
    files: Sequence[str], prompt_tokens: int | None, scan_dir: Path | None, extensions: Sequence[str], characters_per_token: float | None,
    tokenizer: Path | None, output_tokens: int, concurrency: int, table: str | None, as_json: bool, **given: int | None,
) -> None:  # fmt: skip
    """Say what fits: requests of a length into the KV pool, prompts into one step, and what a measured table tells of their time.

    FILE is a log whose start-up lines tell the ceilings; of several engines the smallest count, and the pieces of a rotated log are one. What
    nothing tells is "not known".
    """
    import json

    from exporter.analysis import prompt_size, sweep
    from exporter.analysis.ceilings import of_logs
    from exporter.analysis.room import answer, lines

    if prompt_tokens is not None and scan_dir:
        fail("--prompt-tokens and --scan-dir are two prompts")
    refuse(files)
    basis, damages = None, list[str]()
    try:
        ceilings = of_logs(files, damages.append).with_given(**given)
        rows = sweep.load(table) if table else None
        if scan_dir:
            size = prompt_size.scanned(
                scan_dir, extensions or prompt_size.EXTENSIONS, characters_per_token or prompt_size.CHARACTERS_PER_TOKEN, tokenizer
            )
            prompt_tokens, basis = size.tokens, f"{size.files:,} files, {size.basis}"
    except sweep.SweepError as error:
        fail(f"{table}: {error}")
    except prompt_size.SizeError as error:
        fail(str(error))
    told = answer(ceilings, prompt_tokens, output_tokens, concurrency, rows, basis)
    if as_json:
        click.echo(json.dumps(told.public(), indent=2))
    else:
        for name, text in lines(told):
            click.echo(f"{name:<20}{text}")
    fail_if_damaged(damages)


@click.command("check", short_help="Say how much of logs is understood, and why one sees nothing.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(files: Sequence[str], as_json: bool) -> None:
    """Say how much of logs is understood: by which rules, what was not, which expected signals are missing, and why one may see nothing.

    Of lines that no rule knows it prints the module and at most six words, up to the first quote, bracket, colon or digit.
    """
    import json

    from exporter.analysis.check import check, lines_of
    from exporter.analysis.inputs import saved_logs

    refuse(files)
    logs = saved_logs(list(files))
    with progress([log.size for log in logs]) as tick:
        checked = [check(log, tick) for log in logs]
    if as_json:
        click.echo(json.dumps([each.public() for each in checked], indent=2))
    else:
        click.echo("\n\n".join("\n".join(lines_of(each)) for each in checked))
    fail_if_damaged([damage for each in checked for damage in each.damages])


def _labels(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    import re

    found = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) or name.startswith("__") or name in ("source", "runtime"):
            raise click.BadParameter(f'"{text}" is not NAME=VALUE with a name that is free')
        found[name] = value
    return found


def _interval(context: click.Context, parameter: click.Parameter, value: str) -> float:
    from exporter.durations import seconds_of

    try:
        seconds = seconds_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if seconds < 1:
        raise click.BadParameter("at least a second")
    return seconds


def backfill_command(source_options: Callable[..., Any]) -> click.Command:
    """`inferlog backfill`, with the settings of a source as options."""

    @click.command("backfill", short_help="Write saved logs as OpenMetrics, for yesterday on a dashboard.")
    @click.argument("files", nargs=-1, required=True, metavar="FILE...")
    @click.option("-o", "--output", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The file to write.")
    @click.option("--interval", callback=_interval, default="15s", show_default=True, metavar="DURATION", help="Time between scrapes.")
    @click.option(
        "--label", "labels", multiple=True, callback=_labels, metavar="NAME=VALUE",
        help="A label that a scrape would have added, as namespace or pod; may be repeated. job is inferlog and instance backfill unless given.",
    )  # fmt: skip
    @source_options
    @log_options
    def backfill(
        files: Sequence[str], target: Path, interval: float, labels: dict[str, str], year: int | None, zone: float | None, **settings: Any
    ) -> None:  # fmt: skip
        """Write what would have been scraped as OpenMetrics, with the times of the logs.

        `promtool tsdb create-blocks-from openmetrics FILE DIR` makes blocks of it for Prometheus. What is assumed of times is told.
        """
        from exporter.analysis.backfill import Backfill, assumed, guessed_zone
        from exporter.analysis.inputs import saved_logs

        refuse(files, target)
        given = {key: value for key, value in settings.items() if value is not None}
        scrapes, damages = 0, list[str]()
        logs = saved_logs(list(files), year)
        with (
            Backfill(interval, {"job": "inferlog", "instance": "backfill", **labels}) as fill,
            progress([log.size for log in logs]) as tick,
        ):
            for log in logs:
                guess = guessed_zone(log) if zone is None else None
                if told := assumed(log, guess):
                    click.echo(f"{log.path}: {told}", err=True)
                filled = fill.read(log, zone=guess.zone if guess else zone, tick=tick, **given)
                scrapes += filled.scrapes
                click.echo(f"{log.path}: {filled.scrapes:,} scrapes of source {filled.source}", err=True)
                damages += filled.damages
            if not scrapes:
                fail("no line with a time is in these logs: there is nothing to write")
            with output(target) as out:
                fill.write(out)
        fail_if_damaged(damages)

    return backfill
