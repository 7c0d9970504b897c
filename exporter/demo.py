"""The main job on one machine in half a minute: bundled logs, written while the daemon follows them."""

import tempfile
import threading
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import click

from exporter.config import from_flags
from exporter.replay import replay_log
from exporter.serve import serve

_LOGS = {
    "pd-decode": "a real vLLM 0.32 decode engine: transfers, a router that forgets its parameters, a prefill that is killed, broken handshakes",
    "ngram": "a real vLLM 0.32 engine with n-gram speculation",
    "dspark": "vLLM 0.33 with DSpark on eight ranks, from the engine's own format code: a kernel compiles after the engine was ready",
}
_LOOK_AT = (
    "inferlog_kv_cache_size_tokens",
    'inferlog_jit_events_total{...phase="serving"...}',
    "inferlog_kv_transfers_total",
    "inferlog_spec_accepted_tokens_total",
    "inferlog_kv_transfer_failures_total",
    "inferlog_pd_verdict == 1",
)


def run_demo(listen_address: str, *, speed: float) -> None:
    """Serve until Ctrl-C. Raises ConfigError and ListenError."""
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="inferlog-demo-") as folder:
        targets = {name: Path(folder) / f"{name}.log" for name in _LOGS}
        config = from_flags(None, logs=[str(target) for target in targets.values()], listen_address=listen_address, log_level="warning")
        writers = [threading.Thread(target=_write, args=(name, target, speed, stop)) for name, target in targets.items()]
        _explain(listen_address, list(targets.values()), speed)
        for writer in writers:
            writer.start()
        try:
            serve(config, lambda: config)
        finally:
            stop.set()
            for writer in writers:
                writer.join()


def _write(name: str, target: Path, speed: float, stop: threading.Event) -> None:
    with resources.as_file(resources.files("exporter") / "demo_logs" / f"{name}.log") as saved:
        replay_log(saved, target, speed=speed, stop=stop)


def _explain(listen_address: str, targets: Sequence[Path], speed: float) -> None:
    address = f"http://{listen_address if not listen_address.startswith(':') else '127.0.0.1' + listen_address}"
    click.echo(f"Three logs are written now, {speed:g} times as fast as they once were (the longest takes {515 / speed:.0f} s):")
    for (_, about), target in zip(_LOGS.items(), targets, strict=True):
        click.echo(f"  {target}: {about}")
    click.echo(f"\nOpen {address}/metrics and {address}/, and look at")
    for each in _LOOK_AT:
        click.echo(f"  {each}")
    click.echo(f"\nFor example: curl -s {address}/metrics | grep -E 'jit_events|verdict.* 1.0'\nCtrl-C ends it.")
