"""The answers about engines from a daemon of its own, while the log grows and over a restart."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import CORE, RANK0, READY, Running, arguments, core, line, logo, wait_for
from .test_daemon import append
from .test_jit import begins, ends, monitor

pytestmark = pytest.mark.slow

Start = Callable[..., Running]


def told(daemon: Running, path: str) -> dict[str, Any]:
    """What is said of the only engine."""
    (engine,) = json.loads(daemon.get(path)[1])["engines"]
    return dict(engine)


def process(version: str, tokens: str, at: str) -> str:
    """The first words of a process."""
    lines = [
        logo(version, at),
        arguments("'max_model_len': 4096", at),
        core(version, at),
        line(f"GPU KV cache size: {tokens} tokens", CORE, at),
    ]
    return "".join(f"{each}\n" for each in lines)


def test_a_start_is_followed_to_its_readiness(run: Start, tmp_path: Path) -> None:
    """Each line shows at once, as in a scrape."""
    log = tmp_path / "engine.log"
    log.write_text(process("0.26.0", "640", "03:12:00"))
    daemon = run("--log", str(log), "--warmup-grace", "immediate").wait_ready()
    assert ("starting", "unknown") == (told(daemon, "/engine/startup")["state"], told(daemon, "/engine/startup")["phase"])
    assert 503 == daemon.get("/engine/ready")[0]

    append(log, line("Starting to load model /models/m...", RANK0, "03:12:30") + "\n")
    assert "load_weights" == told(daemon, "/engine/startup")["phase"]
    assert 1 == daemon.value("inferlog_engine_startup_phase", phase="load_weights")

    append(log, line("x", at="03:15:00") + f"\n{READY}\n")
    assert [200, 200] == [daemon.get(path)[0] for path in ("/engine/ready", "/engine/ready?strict=1")]

    append(log, monitor(at="03:16:00") + f"\n{begins('03:16:00')}\n")
    assert [200, 503] == [daemon.get(path)[0] for path in ("/engine/ready", "/engine/ready?strict=1")]
    assert not told(daemon, "/api/v1/status")["quiescent"]["value"]

    append(log, ends("03:16:09") + "\n")
    assert [200, 200] == [daemon.get(path)[0] for path in ("/engine/ready", "/engine/ready?strict=1")]
    assert {"service": 1} == told(daemon, "/api/v1/status")["jit"]["incidents"]
    assert ["hc_pre_kernel"] == [each["kernel"] for each in told(daemon, "/api/v1/events")["jit_kernels"]]
    assert "1 in service" in daemon.get("/")[1]


def test_what_changed_survives_a_kill(run: Start, tmp_path: Path) -> None:
    """And so does readiness: a probe is not failed by a restart of the exporter."""
    log, state = tmp_path / "engine.log", tmp_path / "state.json"
    log.write_text(process("0.26.0", "2,493,464", "03:12:00") + f"{READY}\n" + process("0.32.0", "640", "05:12:00") + f"{READY}\n")
    daemon = run("--log", str(log), "--state-file", str(state)).wait_ready()
    before = told(daemon, "/api/v1/status")
    assert {"version", "kv_cache_size_tokens"} == before["changed_since_previous_start"].keys()
    daemon.kill()

    log.unlink()
    daemon = run("--log", str(log), "--state-file", str(state))
    wait_for(lambda: daemon.get("/engine/ready")[0], "the daemon to listen")
    assert 200 == daemon.get("/engine/ready")[0]
    after = told(daemon, "/api/v1/status")
    assert before["changed_since_previous_start"] == after["changed_since_previous_start"]
    assert before["previous_process"] == after["previous_process"]
