"""Logs of real engines, of their own format code, and lines from public reports, with values worked out by hand."""

import re

import pytest
import yaml

from tests.conftest import DATA
from tests.expectations import check, series_of

CASES = yaml.safe_load((DATA / "expectations.yaml").read_text(encoding="utf-8"))


def exposition_of(name: str, args: tuple[str, ...] = ()) -> str:
    """What `inferlog metrics` prints for a log of tests/data."""
    from click.testing import CliRunner

    from exporter.cli import main

    result = CliRunner().invoke(main, ["metrics", *args, str(DATA / f"{name}.log")], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", CASES)
def test_every_expectation_holds(name: str) -> None:
    """Each value that was worked out from the log by hand is what the exposition says."""
    case = CASES[name]
    exposition = exposition_of(name, tuple(case.get("args", ())))
    series = series_of(exposition)
    for expectation in case["expect"]:
        check(expectation, series)
    for word in case.get("never", ()):
        assert word not in exposition


def test_each_log_has_expectations() -> None:
    """No log lies about without a value that it proves."""
    logs = {path.relative_to(DATA).with_suffix("").as_posix() for path in DATA.glob("*/*.log")}
    assert logs == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_each_log_has_its_version(name: str) -> None:
    """The one of its folder, and the one that it prints itself."""
    version = CASES[name]["version"]
    text = (DATA / f"{name}.log").read_text(encoding="utf-8", errors="replace")
    printed = re.search(r"(?:LLM engine \(v|server version |█  version )(\d+\.\d+\.\w+)", text)

    engine, folder = re.fullmatch(r"(\w+)-([\d.]+)/.*", name).groups()
    assert folder == ".".join(version.partition("-")[0].split(".")[: 2 if engine == "vllm" else 3])
    assert printed is None or printed[1] == version
