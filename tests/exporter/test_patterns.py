"""Patterns of users in a daemon."""

from collections.abc import Callable
from pathlib import Path

from .conftest import READY, Running, logo


def test_a_user_s_pattern_that_explodes_does_not_hold_up_the_log(run: Callable[..., Running], tmp_path: Path) -> None:
    """It is given up; the other one, the rules and the scrapes go on, also after a kill."""
    log = tmp_path / "engine.log"
    log.write_text(f"{logo()}\n")
    (tmp_path / "inferlog.yaml").write_text(f"sources: [{{name: a, path: {log}, patterns: {{bomb: '(a|aa)+$', fuse: 'a{{60}}!'}}}}]")
    arguments = ("--config", str(tmp_path / "inferlog.yaml"), "--state-file", str(tmp_path / "state.json"))
    daemon = run(*arguments).wait_ready()
    assert 0 == daemon.value("inferlog_pattern_lines_total", pattern="bomb")
    for number in range(1, 31):
        with log.open("a") as file:
            file.write(f"{'a' * 60}!\n" * 10)
        daemon.wait_value(number * 10, "inferlog_pattern_lines_total", pattern="fuse")
    assert 3 == daemon.value("inferlog_pattern_timeouts_total", pattern="bomb")
    daemon.kill()
    with log.open("a") as file:
        file.write(f"{READY}\n")
    daemon = run(*arguments).wait_ready()
    daemon.wait_value(1, "inferlog_engine_ready")
    assert 300 == daemon.value("inferlog_pattern_lines_total", pattern="fuse")
    assert 3 == daemon.value("inferlog_pattern_timeouts_total", pattern="bomb")
