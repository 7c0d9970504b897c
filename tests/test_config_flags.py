"""Flags, with and without a configuration file."""

from pathlib import Path

import pytest

from exporter.config import ConfigError, from_flags, load

from .test_config import FULL, ROLES, written


class TestFromFlags:
    def test_each_log_is_a_source(self) -> None:
        """A glob stays one and gives the name by what it says itself; neither its files nor a plain path need exist."""
        logs = ["w*", "/logs/*.log", "*.log", "/var/log/*/vllm-*.log"]
        config = from_flags(None, logs=[*logs, "x/engine.log", "y/engine.log", "-", "\udcff"])

        assert [(source.name, source.paths) for source in config.sources] == [
            ("w", ("w*",)),
            ("logs", ("/logs/*.log",)),
            ("source", ("*.log",)),
            ("vllm", ("/var/log/*/vllm-*.log",)),
            ("engine", ("x/engine.log",)),
            ("engine-2", ("y/engine.log",)),
            ("stdin", ("-",)),
            ("source-2", ("\udcff",)),
        ]
        assert {source.given_name for source in config.sources} == {""}

    def test_flags_override_the_file(self, tmp_path: Path) -> None:
        """Flags win over the file, their sources come after its sources, and the rest of the file stays."""
        base = load(written(tmp_path, FULL))

        config = from_flags(
            base,
            logs=["decode-0.log"],
            listen_address=":1",
            telemetry_path="/t",
            web_config_file="web.yml",
            enable_lifecycle=True,
            log_level="error",
            log_format="logfmt",
            state_file=Path("flag.state"),
            source_defaults={"pd_role": "prefill", "pd_expect": "mixed", "start_at": "end", "name": None},
        )

        web = {"listen_address": ":1", "telemetry_path": "/t", "config_file": "web.yml", "enable_lifecycle": True}
        assert config.web.model_dump() == web
        assert config.log.model_dump() == {"level": "error", "format": "logfmt"}
        assert config.state_file == "flag.state"
        assert config.sources[:2] == base.sources
        assert [source.given_name for source in config.sources] == ["decode-0", "", ""]
        added = config.sources[2]
        assert (added.name, added.pd_role, added.pd_expect, added.start_at) == ("decode-0-2", "prefill", "mixed", "end")

    def test_no_flag_changes_nothing(self, tmp_path: Path) -> None:
        """Without flags the configuration is that of the file."""
        base = load(written(tmp_path, FULL))
        assert from_flags(base, logs=[], listen_address=None) == base

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            ({"logs": []}, "--log: at least one source is needed"),
            ({"logs": ["a", "nope*", "nope*"]}, "--log[2]: this log is read already"),
            ({"logs": ["a"], "state_file": ""}, "--state-file: a path must not be empty or hold control characters"),
            ({"logs": ["-", "-"]}, "--log[1]: standard input is read already"),
            ({"logs": [""]}, "--log[0]: a path must not be empty or hold control characters"),
            ({"logs": ["a\0*"]}, "--log[0]: a path must not be empty or hold control characters"),
            (
                {"logs": ["a"], "source_defaults": {"pd_role": "decoder"}},
                f"--pd-role: 'decoder' is not one of {ROLES}; did you mean 'decode'?",
            ),
            ({"logs": ["a"], "source_defaults": {"pd_rol": "x"}}, "--pd-rol: unknown key; did you mean 'pd_role'?"),
            ({"logs": [], "source_defaults": {"pd_role": "both"}}, "--pd-role: needs --log"),
            ({"logs": [], "source_defaults": {"labels": {"pd_group": "a"}}}, "--label: needs --log"),
            (
                {"logs": ["a"], "source_defaults": {"labels": {"source": "a"}}},
                "--label source: this label name belongs to inferlog or Prometheus",
            ),
            ({"logs": ["a", "b"], "source_defaults": {"name": "x"}}, "--name: needs exactly one --log"),
            ({"logs": ["a", "b"], "source_defaults": {"engine_metrics_url": "http://h/"}}, "--engine-metrics-url: needs exactly one --log"),
            (
                {"logs": ["a"], "source_defaults": {"engine_metrics_url": "http://u:hunter2@h/"}},
                "--engine-metrics-url: must have no user name, password or fragment; a token goes into engine_metrics_token_file",
            ),
            (
                {"logs": ["a"], "listen_address": "::1:9"},
                '--web.listen-address: an IPv6 address needs brackets, as in "[::1]:9000"',
            ),
            (
                {"logs": ["a"], "telemetry_path": "/"},
                "--web.telemetry-path: this path belongs to another page of inferlog",
            ),
            (
                {"logs": ["a"], "log_level": "inf"},
                "--log.level: 'inf' is not one of debug, info, warning, error; did you mean 'info'?",
            ),
        ],
    )
    def test_a_wrong_flag_is_named(self, flags: dict[str, object], message: str) -> None:
        """The message names the flag instead of file and line."""
        with pytest.raises(ConfigError) as caught:
            from_flags(None, **flags)  # type: ignore[arg-type]
        assert str(caught.value) == message

    def test_counts_standard_input_and_names_with_the_file(self, tmp_path: Path) -> None:
        """What must be unique is unique over file and flags together."""
        base = load(written(tmp_path, FULL))
        with pytest.raises(ConfigError, match=r"^--log\[0\]: standard input is read already$"):
            from_flags(base, logs=["-"])
        with pytest.raises(ConfigError, match=r"^--name: another source has this name$"):
            from_flags(base, logs=["b"], source_defaults={"name": "decode-0"})
