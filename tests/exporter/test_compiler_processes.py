"""Compilers that run beside the engine: real processes, and what is counted of them."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.evidence import processes
from exporter.evidence.processes import CompilerScan
from exporter.evidence.sightings import CacheSighting, CompilerBurst, CompilerSighting

from .conftest import READY, Reading, Running, core, line, logo, wait_for

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for five seconds."""
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.2)


class Machine:
    """Processes by the names of compilers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def run(self, name: str, script: str = "") -> "subprocess.Popen[bytes]":
        """A process by this name that waits to be ended, or that runs a script first."""
        program = self.folder / name
        if not program.exists():
            shutil.copy(shutil.which("bash") or "/bin/bash", program)
        self.started.append(subprocess.Popen([program, "-c", f"{script}\nread -r line"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
        return self.started[-1]

    @staticmethod
    def end(process: "subprocess.Popen[bytes]") -> None:
        """End it, and ask how it went."""
        process.kill()
        process.wait(5)
        if process.stdin:
            process.stdin.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """No compiler runs at first."""
    made = Machine(tmp_path)
    yield made
    for each in made.started:
        made.end(each)


class Scan:
    """A scan of the real /proc, and what it has told."""

    def __init__(self, root: str = "/proc") -> None:
        self.told: list[CompilerSighting | CompilerBurst] = []
        self.scan = CompilerScan(root, self.told.append)
        self.scan.look()

    def wait(self, sightings: int, bursts: int) -> None:
        """Look until so many were told."""
        kinds = lambda: tuple(sum(isinstance(each, kind) for each in self.told) for kind in (CompilerSighting, CompilerBurst))  # noqa: E731
        wait_for(lambda: (self.scan.look(), kinds() == (sightings, bursts))[1], f"{sightings} and {bursts}; told {self.told}")


def test_a_compiler_s_time_is_measured(machine: Machine) -> None:
    """From its start, by the kernel's word, to the last look that saw it."""
    import time

    scan, before = Scan(), time.time()
    nvcc = machine.run("nvcc")
    scan.wait(1, 0)
    machine.end(nvcc)
    scan.wait(1, 1)
    (burst,) = [each for each in scan.told if isinstance(each, CompilerBurst)]

    assert before - 0.1 <= burst.began <= burst.ended <= time.time()


def test_what_a_compiler_starts_is_part_of_it(machine: Machine, tmp_path: Path) -> None:
    """Ninja runs nvcc, which runs cicc and ptxas: one sighting and one job."""
    scan, gate = Scan(), tmp_path / "gate"
    os.mkfifo(gate)
    for name in ("nvcc", "ptxas"):
        shutil.copy(shutil.which("bash") or "/bin/bash", tmp_path / name)
    ninja = machine.run("ninja", f"{tmp_path}/nvcc -c '{tmp_path}/ptxas -c \"read -r line < {gate}; true\"; true' ; echo")
    inner = lambda: (scan.scan.look(), any(each.name == "ptxas" for each in scan.scan._running.values()))[1]  # noqa: E731
    wait_for(inner, "the inner ones")
    gate.write_text("\n")
    wait_for(lambda: not inner(), "the inner ones to end")
    machine.end(ninja)
    scan.wait(1, 1)


def test_two_at_a_time_are_one_job(machine: Machine) -> None:
    """Ranks compile together; what follows later is another."""
    scan = Scan()
    first, second = machine.run("nvcc"), machine.run("cicc")
    scan.wait(2, 0)
    machine.end(first)
    scan.wait(2, 0)
    machine.end(second)
    scan.wait(2, 1)
    machine.end(machine.run("ptxas", "sleep 0.1"))
    third = machine.run("nvcc")
    wait_for(lambda: (scan.scan.look(), len(scan.told) > 3)[1], "the third")
    machine.end(third)
    wait_for(lambda: (scan.scan.look(), sum(isinstance(each, CompilerBurst) for each in scan.told) == 2)[1], "its end")


def test_what_runs_at_first_is_none_of_ours(machine: Machine) -> None:
    """It may have been counted before a restart."""
    old = machine.run("nvcc")
    wait_for(lambda: Path(f"/proc/{old.pid}/comm").read_text() == "nvcc\n", "its name")
    scan = Scan()
    new = machine.run("cicc")
    scan.wait(1, 0)
    machine.end(old)
    machine.end(new)
    scan.wait(1, 1)


def test_a_process_that_nobody_asks_after_is_over(machine: Machine) -> None:
    """A zombie compiles no more."""
    scan = Scan()
    nvcc = machine.run("nvcc")
    scan.wait(1, 0)
    nvcc.kill()
    scan.wait(1, 1)
    assert Path(f"/proc/{nvcc.pid}/stat").read_text().split()[2] == "Z"


def test_other_names_are_nobody_s_business(machine: Machine) -> None:
    """Also those that look like more fields."""
    scan = Scan()
    for name in ("python3", "nvcc2", ") R 1 nvcc", "xnvcc"):
        machine.run(name)
    nvcc = machine.run("nvcc")
    scan.wait(1, 0)
    machine.end(nvcc)


@pytest.mark.parametrize(
    "stat", ["", "1", "1 (nvcc", "1 (nvcc) R", "1 (nvcc) R x " + "0 " * 30, "1 (nvcc) R 0 " + "x " * 30, "\xff" * 2000]
)
def test_a_proc_that_is_none(tmp_path: Path, stat: str) -> None:
    """A directory of something else, or none."""
    scan = Scan(str(tmp_path))
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "stat").write_text(stat)
    (tmp_path / "2").touch()
    scan.scan.look()
    CompilerScan(str(tmp_path / "nowhere"), scan.told.append).look()

    assert not scan.told


# -- counting ----------------------------------------------------------------------------------------------------------


def events(reading: Reading) -> dict[tuple[str, ...], float]:
    """Those that are not 0."""
    return {labels: value for labels, value in reading.series("jit_events_total").items() if value}


def test_a_job_that_nothing_explains_is_a_compile() -> None:
    """With the time that it took."""
    reading = Reading().feed(logo(), core(), READY)
    reading.source.witness([CompilerSighting(NOW), CompilerSighting(NOW + 1), CompilerBurst(NOW, NOW + 12)], ["process"])

    assert {("nvcc", "compile", "serving"): 1} == events(reading)
    assert 12 == reading.value("jit_seconds_total", "nvcc", "serving")
    assert 2 == reading.value("jit_observed_total", "process", "serving")


def test_a_job_whose_kernels_were_seen_is_theirs() -> None:
    """Its time is the library's."""
    reading = Reading().feed(logo(), core(), READY)
    found = [
        CompilerSighting(NOW),
        *(CacheSighting("deepgemm", f"k{each}", NOW + 5 + each) for each in range(3)),
        CompilerBurst(NOW, NOW + 12),
    ]
    reading.source.witness(found, ["cache", "process"])

    assert {("deepgemm", "compile", "serving"): 3} == events(reading)
    assert {("deepgemm", "serving"): 12} == {labels: value for labels, value in reading.series("jit_seconds_total").items() if value}


def test_a_job_of_which_the_log_tells_is_the_log_s() -> None:
    """Triton runs ptxas; the engine's monitor has told of the kernel."""
    text = "Triton kernel JIT compilation during inference: _k. This causes a latency spike; consider extending warmup to cover this shape/config."
    reading = Reading().feed(logo(), core(), READY, line(text, level="WARNING"))
    at = reading.value("jit_last_event_timestamp_seconds", "triton", "serving")
    assert at
    before = events(reading)
    reading.source.witness([CompilerSighting(at - 1), CompilerBurst(at - 1, at)], ["process"])

    assert before == events(reading)
    assert not sum(reading.series("jit_seconds_total").values())


# -- the daemon --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_compiler_beside_the_engine_is_seen(run: Callable[..., Running], tmp_path: Path, machine: Machine) -> None:
    """And its time when it is over."""
    (tmp_path / "a.log").write_text(f"{logo()}\n{core()}\n{READY}\n")
    (tmp_path / "inferlog.yaml").write_text("sources: [{name: a, path: a.log, jit_proc_root: /proc}]")
    daemon = run("--config", str(tmp_path / "inferlog.yaml")).wait_ready()
    daemon.wait_value(0, "inferlog_jit_observed_total", seen_by="process", phase="serving")
    nvcc = machine.run("nvcc")
    daemon.wait_value(1, "inferlog_jit_observed_total", seen_by="process", phase="serving")
    machine.end(nvcc)
    daemon.wait_value(1, "inferlog_jit_events_total", backend="nvcc")
