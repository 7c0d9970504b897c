"""The compose file has its schema's shape, and what it mounts is there and valid. It was not run: no docker is at hand."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import parsed_arguments

from .conftest import DEPLOY, library

FOLDER = DEPLOY / "compose"


def services() -> dict[str, Any]:
    """By name."""
    return dict(yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))["services"])


def test_schema() -> None:
    """The one that check-jsonschema brings."""
    library("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FOLDER / "compose.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("where", ["checkout", "exported"])
def test_what_is_mounted_is_there(where: str, exported: Path) -> None:
    """Files of this repository, and volumes that are declared."""
    folder = {"checkout": FOLDER, "exported": exported / "compose"}[where]
    volumes = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))["volumes"]
    for service in services().values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert (folder / source).exists() if source.startswith(".") else source in volumes


def test_inferlog_takes_its_flags() -> None:
    """And is as harmless as in a pod."""
    service = services()["inferlog"]
    assert parsed_arguments(*service["command"])["labels"] == {"namespace": "compose", "pod": "engine"}
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])


def test_nothing_listens_beyond_this_machine() -> None:
    """Each port is of loopback."""
    for service in services().values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.prometheus
def test_prometheus_takes_its_configuration(promtool: str, tmp_path: Path) -> None:
    """With the rules where they are here."""
    text = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
    config = tmp_path / "prometheus.yml"
    config.write_text(text.replace("/etc/prometheus/rules/*.yaml", str(DEPLOY.parent / "alerts" / "*.rules.yaml")), encoding="utf-8")
    done = subprocess.run([promtool, "check", "config", str(config)], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"SUCCESS: \d+ rules found", done.stdout)) == 2


def test_the_engine_prints_a_whole_log(tmp_path: Path) -> None:
    """What stands in for it runs, but for its minute of rest."""
    text = (FOLDER / "stand_in.py").read_text(encoding="utf-8").replace("speed=20", "speed=0").replace("time.sleep(60)", "")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=50, check=False)
    assert done.returncode == 0
    assert b"TileLang JIT compilation during inference" in done.stdout
