"""The pod that users apply, run for real: only the names of the images are others."""

import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.exporter.conftest import inferlog, parsed, wait_for

from .conftest import IMAGE, ROOT, Podman, rendered

pytestmark = [pytest.mark.image, pytest.mark.slow, pytest.mark.timeout(360)]

CASE = ROOT / "exporter" / "demo_logs" / "pd-decode.log"
ENGINE_IMAGE = "localhost/engine-stand-in:test"
# Under the name of the engine's command, so that the manifest's command runs it: a captured log at once, then it waits.
ENGINE = """#!/bin/sh
inferlog replay /case.log --to /dev/stdout --speed 0
exec sleep 3600
"""
DOCKERFILE = f"""FROM {IMAGE}
USER 0
COPY case.log /
COPY vllm /usr/local/bin/
ENTRYPOINT []
"""
# More output of the engine: written into the pipe that is its standard output.
PRINT = """
import os, sys, time
for pid in filter(str.isdigit, os.listdir("/proc")):
    if open(f"/proc/{{pid}}/comm").read() == "sleep\\n":
        pipe = os.open(f"/proc/{{pid}}/fd/1", os.O_WRONLY)
block = b"".join(b"INFO 11-30 00:00:00 [stand_in.py:1] line %09d %s\\n" % (n, b"x" * 80) for n in range(500))
began = time.monotonic()
for _ in range({blocks}):
    rest = block
    while rest:
        rest = rest[os.write(pipe, rest):]
print(time.monotonic() - began)
"""
BLOCK_LINES = 500
BOUND = 3 * ((32 << 20) + (1 << 16))
"""What logtee.py keeps by default."""
FLOOD = 6 * BOUND // (BLOCK_LINES * 125)


class Pod:
    """The pod and its two containers."""

    def __init__(self, podman: Podman, name: str) -> None:
        self.podman = podman
        self.engine, self.sidecar = f"{name}-engine", f"{name}-inferlog"
        self.logs = Path(podman("volume", "inspect", "logs", "--format", "{{.Mountpoint}}").strip())

    def metrics(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """What the sidecar says, nothing while it does not answer."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open("http://127.0.0.1:19877/metrics", timeout=10) as answer:
                return parsed(answer.read().decode())
        except OSError:
            return {}

    def value(self, family: str) -> float:
        """The sum of a family."""
        return sum(value for (name, _), value in self.metrics().items() if name == family)

    def print(self, blocks: int) -> float:
        """Let the engine print so much; how long that took it, in seconds."""
        return float(self.podman("exec", self.engine, "python3", "-c", PRINT.format(blocks=blocks), timeout=240))

    def room(self) -> int:
        """What the log takes now."""
        total = 0
        for each in self.logs.glob("engine.log*"):
            try:
                total += each.stat().st_size
            except FileNotFoundError:  # just now renamed
                continue
        return total


@pytest.fixture(scope="module")
def pod(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    """Of the overlay `sidecar-plain`: podman knows no init container that stays."""
    folder = tmp_path_factory.mktemp("pod")
    (folder / "case.log").write_bytes(CASE.read_bytes())
    (folder / "vllm").write_text(ENGINE)
    (folder / "vllm").chmod(0o755)
    (folder / "Dockerfile").write_text(DOCKERFILE)
    podman.build(folder, ENGINE_IMAGE)
    text = rendered("overlays/sidecar-plain")
    text, engines = re.subn(r"image: vllm/vllm-openai:\S+", f"image: {ENGINE_IMAGE}", text)
    text, sidecars = re.subn(r"image: inferlog:\S+", f"image: {IMAGE}", text)
    assert (engines, sidecars) == (1, 1)
    applied = folder / "applied.yaml"
    applied.write_text(text)
    podman("play", "kube", "--down", str(applied), check=False)  # of a run that was ended
    podman("play", "kube", str(applied))
    try:
        yield Pod(podman, "vllm-pod-0")
    finally:
        podman("play", "kube", "--down", str(applied), check=False)
        podman("volume", "rm", "--force", "inferlog-logtee", "logs", "inferlog-state", check=False)
        podman("rmi", "--force", ENGINE_IMAGE, check=False)


def counters(series: dict[tuple[str, frozenset[tuple[str, str]]], float]) -> dict[Any, float]:
    """What the log alone decides, without the source's name."""
    return {
        (name, frozenset(pair for pair in labels if pair[0] != "source")): value
        for (name, labels), value in series.items()
        if re.fullmatch(r"inferlog_(?:engine|kv|jit|spec|startup|config|http|prefill|requests|max|pd|log|unrecognised)_.*", name)
        and "source" in dict(labels)
        and not re.search(r"timestamp|_seconds$|_state$|_ready$|age", name)
    }


def test_the_sidecar_tells_what_the_log_says(pod: Pod) -> None:
    """The same as `inferlog metrics` of the same log."""
    wait_for(lambda: pod.value("inferlog_source_read_bytes_total") == CASE.stat().st_size, "the whole log to be read", 60)
    expected = counters(parsed(inferlog("metrics", str(CASE)).stdout.decode()))
    found = counters(pod.metrics())
    assert found == expected
    assert len(found) > 100


def test_the_sidecar_has_no_rights(pod: Pod) -> None:
    """Another user, no capability, nothing to write but its state."""
    inside = """
import os
print(os.getuid(), os.getgid(), next(line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")))
for path in ("/x", "/logs/x", "/opt/inferlog/x", "/var/lib/inferlog/x"):
    try:
        open(path, "w").close()
        print(path)
    except OSError:
        pass
"""
    assert pod.podman("exec", pod.sidecar, "python", "-c", inside).splitlines() == ["10001 10001 0000000000000000", "/var/lib/inferlog/x"]


def test_the_engines_own_output_is_untouched(pod: Pod) -> None:
    """What `kubectl logs` shows."""
    wait_for(lambda: pod.podman("logs", pod.engine) == CASE.read_text(encoding="utf-8"), "the output to be whole")


def test_orphans_are_reaped(pod: Pod) -> None:
    """The script is process 1, to which they come: a dead one would stay in /proc for ever."""
    orphan = pod.podman("exec", pod.engine, "sh", "-c", "sleep 0.2 >/dev/null & echo $!").strip()
    wait_for(lambda: pod.podman("exec", pod.engine, "sh", "-c", f"test -d /proc/{orphan} || echo gone").strip(), "it to be gone")


def test_a_kill_of_the_sidecar_loses_nothing(pod: Pod) -> None:
    """What the engine prints meanwhile is read afterwards, and nothing twice."""
    lines = wait_for(lambda: pod.value("inferlog_log_lines_total"), "the sidecar to answer")
    pod.print(10)
    pod.podman("kill", "--signal", "KILL", pod.sidecar)
    wait_for(lambda: not pod.metrics(), "the sidecar to be gone")
    pod.print(10)
    pod.podman("start", pod.sidecar)
    wait_for(lambda: pod.value("inferlog_log_lines_total") >= lines + 20 * BLOCK_LINES, "all lines to be read", 60)
    assert pod.value("inferlog_log_lines_total") == lines + 20 * BLOCK_LINES
    assert pod.value("inferlog_source_lost_bytes_total") == 0


def test_a_flood_is_bounded_and_the_engine_waits_for_nobody(pod: Pod) -> None:
    """With the sidecar at work, and with one that is stopped."""
    from concurrent.futures import ThreadPoolExecutor

    rooms: list[int] = []

    def flood() -> float:
        with ThreadPoolExecutor() as pool:
            done = pool.submit(pod.print, FLOOD)
            wait_for(lambda: rooms.append(pod.room()) or done.done(), "the flood to end", 240)
            return done.result()

    at_work = flood()
    pod.podman("kill", "--signal", "STOP", pod.sidecar)
    try:
        stopped = flood()
    finally:
        pod.podman("kill", "--signal", "CONT", pod.sidecar)
    assert max(rooms) <= BOUND
    # One that waited would wait for ever; the room is for a machine that others use.
    assert stopped < at_work * 2 + 5
    lines = wait_for(lambda: pod.value("inferlog_log_lines_total"), "the sidecar to answer again", 60)
    settled(lambda: pod.value("inferlog_source_read_bytes_total"))
    lines = pod.value("inferlog_log_lines_total")
    pod.print(1)
    wait_for(lambda: pod.value("inferlog_log_lines_total") == lines + BLOCK_LINES, "new lines to be read", 60)


def settled(value: Callable[[], float]) -> None:
    """Wait until a value stays for a second."""
    seen, since = value(), time.monotonic()
    while time.monotonic() - since < 1:
        if (now := value()) != seen:
            seen, since = now, time.monotonic()


def test_what_is_applied_is_what_the_native_sidecar_is() -> None:
    """But for the place where its container stands."""
    plain, native = (
        next(each for each in yaml.safe_load_all(rendered(f"overlays/{name}")) if each["kind"] == "Deployment")
        for name in ("sidecar-plain", "sidecar")
    )
    specification = native["spec"]["template"]["spec"]
    (container,) = specification.pop("initContainers")
    assert container.pop("restartPolicy") == "Always"
    specification["containers"].append(container)
    by_name = {each["name"]: each for each in plain["spec"]["template"]["spec"]["containers"]}
    assert {each["name"]: each for each in specification["containers"]} == by_name
    plain["spec"]["template"]["spec"]["containers"] = specification["containers"]
    assert plain == native
