"""The engines' own logging with the configuration that is shipped: accepted by their real code, and read as their usual output is."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.exporter.conftest import inferlog, parsed

from .conftest import DEPLOY

COMPONENTS = DEPLOY / "components"
ROTATION = COMPONENTS / "logging"
WHEELS = Path(os.environ.get("INFERLOG_ENGINE_WHEELS", "/nonexistent"))
"""Where the engines' wheels are: vLLM's has half a gigabyte, too much to fetch for a test."""
VARIABLES = {"vllm": "VLLM_LOGGING_CONFIG_PATH", "sglang": "SGLANG_LOGGING_CONFIG_PATH"}


def configuration(engine: str, folder: Path) -> Path:
    """What is shipped, but for the folder of the log."""
    text = (COMPONENTS / f"logging-{engine}" / "logging.json").read_text(encoding="utf-8")
    path = folder / "logging.json"
    path.write_text(text.replace("/logs/", f"{folder}/"), encoding="utf-8")
    return path


def unpacked(wheel: Path, folder: Path) -> Path:
    """The Python files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.endswith(".py")])
    return folder


def printed(engine: str, source: Path, **environment: str) -> str:
    """What the engine's logging prints to its console."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "engines" / f"{engine}_logging.py"), str(source)],
        env=os.environ | {"PYTHONPATH": str(ROTATION), "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def told(log: Path) -> dict[object, float]:
    """What inferlog makes of it, without names and times."""
    series = parsed(inferlog("metrics", str(log)).stdout.decode())
    return {
        (name, frozenset(pair for pair in labels if pair[0] != "source")): value
        for (name, labels), value in series.items()
        if not re.search(r"timestamp|bytes_total|checkpoint|process_|python_", name)
    }


def wheels() -> list[Any]:
    """Those at hand; for an engine without any a test that says why it is skipped."""
    found = []
    for engine in VARIABLES:
        paths = sorted(WHEELS.glob(f"{engine}-*.whl"))
        why = pytest.mark.skip(reason=f"no wheel of {engine} in INFERLOG_ENGINE_WHEELS")
        found += [pytest.param(engine, path, id=path.name) for path in paths] or [pytest.param(engine, None, marks=why, id=engine)]
    return found


@pytest.mark.parametrize(("engine", "wheel"), wheels())
def test_the_real_code_takes_it(engine: str, wheel: Path, tmp_path: Path) -> None:
    """And the file tells the same as the console of the engine without it."""
    source = unpacked(wheel, tmp_path / "wheel")
    usual = tmp_path / "usual.log"
    usual.write_text(printed(engine, source), encoding="utf-8")
    printed(engine, source, **{VARIABLES[engine]: str(configuration(engine, tmp_path))})
    found, expected = told(tmp_path / "engine.log"), told(usual)
    assert any(name == "inferlog_kv_cache_size_tokens" and value == 2_493_464 for (name, _), value in expected.items())
    assert found == expected


@pytest.mark.parametrize("engine", VARIABLES)
def test_each_handler_writes_the_file_that_is_followed(engine: str) -> None:
    """With the bound that is written down."""
    config = json.loads((COMPONENTS / f"logging-{engine}" / "logging.json").read_text(encoding="utf-8"))
    written = [each for each in config["handlers"].values() if "filename" in each]
    assert written
    assert {each["filename"] for each in written} == {"/logs/engine.log"}
    assert {each["class"] for each in written} == {"inferlog_rotation.SharedRotatingFileHandler"}


WRITER = """
import logging, sys
from inferlog_rotation import SharedRotatingFileHandler
handler = SharedRotatingFileHandler(sys.argv[1], max_mib=float(sys.argv[3]), keep=int(sys.argv[4]))
log = logging.getLogger("x"); log.addHandler(handler); log.setLevel("INFO")
for n in range(5000):
    log.info("%s %05d %s", sys.argv[2], n, "x" * 90)
"""


def write_from_many(log: Path, max_mib: float, keep: int) -> None:
    """Four processes at once."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(log), f"w{number}", str(max_mib), str(keep)], env=os.environ | {"PYTHONPATH": str(ROTATION)}
        )
        for number in range(4)
    ]
    assert [each.wait(50) for each in writers] == [0] * 4


def test_processes_that_share_a_file_lose_no_line(tmp_path: Path) -> None:
    """While it is rotated under them; each line is whole, and each process's lines in order."""
    log = tmp_path / "engine.log"
    write_from_many(log, 0.2, 100)
    generations = sorted(tmp_path.glob("engine.log.[0-9]*"), key=lambda each: -int(each.suffix[1:]))
    assert len(generations) > 5
    lines = "".join(each.read_text() for each in [*generations, log]).splitlines()
    assert sorted(lines) == [f"w{number} {n:05d} {'x' * 90}" for number in range(4) for n in range(5000)]


def test_the_shared_file_is_bounded(tmp_path: Path) -> None:
    """As many older ones as are kept, each of its size and a record of each process."""
    log = tmp_path / "engine.log"
    write_from_many(log, 0.1, 2)
    found = sorted(each.name for each in tmp_path.glob("engine.log*") if each.suffix != ".lock")
    assert found == ["engine.log", "engine.log.1", "engine.log.2"]
    assert all(each.stat().st_size < 0.1 * (1 << 20) + 10_000 for each in tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    """The engine's console goes on, and nothing is printed about the file."""
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(tmp_path / "none" / "engine.log"), "w", "1", "2"],
        env=os.environ | {"PYTHONPATH": str(ROTATION)}, capture_output=True, timeout=50, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
