"""The `inferlog` command. Each command imports what it needs when it runs: a short one starts in a tenth of a second."""

import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exporter.analysis.commands import analyze_command, backfill_command, capacity_command, check_command
from exporter.export import export
from exporter.refusals import Commands, fail, fail_if_damaged, refuse
from exporter.version import VERSION

if TYPE_CHECKING:
    from exporter.analysis.inputs import SavedLog

_DRIFTED = 1
_LABEL = "INFERLOG_LABEL_"
_ROLES = click.Choice(["prefill", "decode", "both", "none"])
_EXPECTATIONS = click.Choice(["all", "mixed"])


def _duration(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    from exporter.durations import seconds_of

    try:
        return None if value is None else seconds_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _labels(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in values]
    if any(not equals for _, equals, _ in pairs):
        raise click.BadParameter("expected NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _labels_of_the_pod() -> dict[str, str]:
    """Labels from the environment, where a manifest can put what a pod's label says; that label need not be there."""
    return {name.removeprefix(_LABEL): value for name, value in os.environ.items() if name.startswith(_LABEL) and value}


def _saved_logs(files: Sequence[str]) -> "Iterator[SavedLog]":
    """The logs of these files; that some are pieces of one is said."""
    from exporter.analysis.inputs import saved_logs

    for log in saved_logs(files):
        if log.told:
            click.echo(f"inferlog: {log.told}", err=True)
        yield log


def _source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The settings that a source has in the configuration file, as flags."""
    for option in (
        click.option("--pd-role", type=_ROLES, help="Role in a prefill/decode pair; default: learnt from the log."),
        click.option("--pd-expect", type=_EXPECTATIONS, help="Whether each prompt comes by KV transfer (all) or some do (mixed)."),
        click.option(
            "--warmup-grace",
            callback=_duration,
            metavar="DURATION",
            help="How long users may warm up an engine that is ready; default: 10m, immediate for not at all.",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(VERSION, prog_name="inferlog")
def main() -> None:
    """Turn the logs of LLM inference engines into Prometheus metrics."""
    # Whatever the locale says, names of files come out as the bytes that went in, and pages say that they are UTF-8.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    # Nearly every object lives for one line and is freed by its reference count: the cycle collector has nothing to find.
    gc.set_threshold(50_000, 20, 100)


@main.command()
@click.option("--config", "--config.file", "config", type=click.Path(path_type=Path), help="YAML configuration file.")
@click.option("--log", "logs", multiple=True, metavar="PATH_OR_GLOB", help="Log to follow, - for standard input; may be repeated.")
@click.option("--name", help="Name of the source, with one --log; default: the file's name.")
@click.option("--start-at", type=click.Choice(["beginning", "end"]), help="Read the history first (default), or only what is new.")
@_source_options
@click.option(
    "--label",
    "labels",
    multiple=True,
    callback=_labels,
    metavar="NAME=VALUE",
    help=f"A static label; or in the environment {_LABEL}NAME=VALUE.",
)
@click.option("--engine-metrics-url", metavar="URL", help="The engine's own /metrics, with one --log: a second witness.")
@click.option("--web.listen-address", "listen_address", metavar="HOST:PORT", help="Default: :19877.")
@click.option("--web.telemetry-path", "telemetry_path", metavar="PATH", help="Default: /metrics.")
@click.option(
    "--web.config.file",
    "web_config_file",
    type=click.Path(path_type=Path),
    help="Web configuration file of the Prometheus exporters: TLS, basic authentication, headers, rate limit.",
)
@click.option(
    "--web.enable-lifecycle", "enable_lifecycle", is_flag=True, default=None, help="Let POST /-/reload read the configuration again."
)
@click.option(
    "--state-file", type=click.Path(path_type=Path), help="Where to keep what was read and counted; without, a restart reads anew."
)
@click.option("--log.level", "log_level", help="debug, info (default), warning or error.")
@click.option("--log.format", "log_format", help="logfmt (default) or json.")
def run(
    config: Path | None,
    logs: Sequence[str],
    name: str | None,
    start_at: str | None,
    pd_role: str | None,
    pd_expect: str | None,
    labels: dict[str, str],
    engine_metrics_url: str | None,
    warmup_grace: float | None,
    listen_address: str | None,
    telemetry_path: str | None,
    web_config_file: Path | None,
    enable_lifecycle: bool | None,
    state_file: Path | None,
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Follow logs and serve their metrics until SIGTERM."""
    # What comes while the rest is being imported: an orderly end, and a reload of what is not loaded yet.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from exporter.checkpoint import StateFileError
    from exporter.config import Config, ConfigError, from_flags, load
    from exporter.serve import ListenError, serve

    defaults = {
        "name": name, "start_at": start_at, "pd_role": pd_role, "pd_expect": pd_expect, "warmup_grace": warmup_grace,
        "labels": (_labels_of_the_pod() if logs else {}) | labels or None, "engine_metrics_url": engine_metrics_url,
    }  # fmt: skip

    def settings() -> Config:
        return from_flags(
            load(config) if config else None,
            logs=logs,
            listen_address=listen_address,
            telemetry_path=telemetry_path,
            web_config_file=web_config_file,
            enable_lifecycle=enable_lifecycle,
            state_file=state_file,
            log_level=log_level,
            log_format=log_format,
            source_defaults={key: value for key, value in defaults.items() if value is not None},
        )

    try:
        serve(settings(), settings)
    except (ConfigError, ListenError, StateFileError) as error:
        fail(str(error))


@main.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_source_options
def metrics(files: Sequence[str], pd_role: str | None, pd_expect: str | None, warmup_grace: float | None) -> None:
    """Read logs to their end and print the exposition.

    Each FILE is a source of its own, but for the pieces of a rotated log, which are one; - is standard input.
    """
    from exporter import saved
    from exporter.exposition import exposition

    refuse(files)
    settings = {"pd_role": pd_role, "pd_expect": pd_expect, "warmup_grace": warmup_grace}
    given = {key: value for key, value in settings.items() if value is not None}
    snapshots = []
    damages: list[str] = []
    for log in _saved_logs(files):
        source = saved.source_of(log, **given)
        for _ in saved.read_all(log, source, damages.append):
            pass
        snapshots += saved.snapshots(source)
    click.echo(exposition(snapshots), nl=False)
    fail_if_damaged(damages)


@main.command(short_help="Print what logs tell, one JSON object a line.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--follow", is_flag=True, help="Go on as the log grows.")
def events(files: Sequence[str], follow: bool) -> None:
    """Print what the logs tell, one JSON object a line. Text and ids of users are never in it."""
    from exporter import saved
    from exporter.event_lines import event_line, followed

    if follow and len(files) > 1:
        fail("--follow takes one FILE")
    refuse(files)
    damages: list[str] = []
    for log in _saved_logs(files):
        source = saved.source_of(log)
        for found in followed(log.path, source) if follow else saved.read_all(log, source, damages.append):
            for each in found:
                click.echo(event_line(source.name, each, source.clock))
    fail_if_damaged(damages)


main.add_command(analyze_command(_source_options))
main.add_command(backfill_command(_source_options))
main.add_command(capacity_command)
main.add_command(check_command)
main.add_command(export)


@main.command(short_help="Compare what a release prints with what the rules rest on.")
@click.argument("releases", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="WHEEL_OR_DIR...")
@click.option("--all", "every", is_flag=True, help="Tell of the living rules, too.")
@click.option("--facts", type=click.Path(dir_okay=False, path_type=Path), help="Data file to take what these releases print into.")
def drift(releases: Sequence[Path], every: bool, facts: Path | None) -> None:
    """Compare what releases of engines and libraries print with what the rules rest on.

    Reads wheels, archives and source trees; runs nothing of them. Exits with 1 when a rule of a supported signal has no living literal.
    """
    from exporter.drift.compare import compare
    from exporter.drift.facts import Facts
    from exporter.drift.release import Release, ReleaseError
    from exporter.drift.report import report

    known, broken = Facts.load(facts) if facts and facts.exists() else Facts(), False
    for path in releases:
        try:
            release = Release(path)
            comparison = compare(release)
            known.add(release)
        except (ReleaseError, OSError) as error:
            fail(str(error))
        for line in report(comparison, every=every):
            click.echo(line)
        broken = broken or bool(comparison.broken)
    if facts:
        known.dump(facts)
    if broken:
        sys.exit(_DRIFTED)


@main.command(short_help="Write a saved log again, in its own time.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--to", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The log to write.")
@click.option("--speed", type=click.FloatRange(min=0), default=1.0, show_default=True, help="Times as fast as written; 0 does not wait.")
def replay(file: Path, target: Path, speed: float) -> None:
    """Write a saved log again, line by line in the time that its headers tell; of a packed one what is in it."""
    from exporter.analysis.inputs import DamagedError
    from exporter.replay import replay_log

    if target.exists() and target.samefile(file):
        fail(f"{target}: would be written over the log")
    try:
        replay_log(file, target, speed=speed)
    except DamagedError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or target}: {error.strerror}")


@main.command(short_help="Serve bundled logs while they are written.")
@click.option("--web.listen-address", "listen_address", metavar="HOST:PORT", default="127.0.0.1:19877", show_default=True)
@click.option("--speed", type=click.FloatRange(min=0.1), default=20.0, show_default=True, help="Times as fast as the logs were written.")
def demo(listen_address: str, speed: float) -> None:
    """Serve bundled logs that are written while you watch: a P/D decode engine, n-gram and DSpark speculation."""
    from exporter.config import ConfigError
    from exporter.demo import run_demo
    from exporter.serve import ListenError

    try:
        run_demo(listen_address, speed=speed)
    except ConfigError as error:
        fail(str(error))
    except ListenError as error:
        fail(f"{error}: inferlog demo --web.listen-address 127.0.0.1:PORT takes another port")
