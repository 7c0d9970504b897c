"""Static labels from the command line and from the environment."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Running


def test_labels_of_flags_and_of_the_environment(run: Callable[..., Running], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag wins; an empty variable, of a pod without that label, is none."""
    log = tmp_path / "engine.log"
    log.write_text("x\n")
    monkeypatch.setenv("INFERLOG_LABEL_pd_group", "of-the-pod")
    monkeypatch.setenv("INFERLOG_LABEL_team", "of-the-pod")
    monkeypatch.setenv("INFERLOG_LABEL_zone", "")
    daemon = run("--log", str(log), "--label", "team=of-the-flag").wait_ready()
    status, text = daemon.get()
    assert status == 200
    assert 'inferlog_source_up{pd_group="of-the-pod",source="engine",team="of-the-flag"} 1.0' in text


def test_the_environment_adds_no_source(run: Callable[..., Running], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a configuration file alone its labels stand."""
    (tmp_path / "engine.log").write_text("x\n")
    (tmp_path / "inferlog.yaml").write_text("sources: [{path: engine.log, labels: {pd_group: of-the-file}}]")
    monkeypatch.setenv("INFERLOG_LABEL_pd_group", "of-the-pod")
    daemon = run("--config", str(tmp_path / "inferlog.yaml")).wait_ready()
    assert daemon.value("inferlog_source_up", pd_group="of-the-file") == 1
