"""The configuration file, the flags, and what is said when they are wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from exporter.config import RESERVED_LABELS, Config, ConfigError, from_flags, load, parse_listen_address

SOURCE = "sources: [{path: a.log}]\n"


def written(directory: Path, text: str | bytes) -> Path:
    path = directory / "c.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def error_in(directory: Path, text: str | bytes) -> str:
    path = written(directory, text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    return str(caught.value).removeprefix(f"{directory}/")


FULL = """
web:
  listen_address: "[::1]:9000"
  telemetry_path: /m
log: {level: debug, format: json}
state_file: inferlog.state
rdma_sysfs_root: /host/sys
sources:
  - name: decode-0
    paths: [/logs/engine.log, more/engine.err, "-"]
    start_at: end
    pd_role: decode
    pd_expect: all
    pd_failed_requests: 3
    pd_failed_share: 0.1
    timezone: +08:00
    warmup_grace: 15m
    labels: {pd_group: a, replica: 007}
    patterns: {tool_call_error: 'tool call .* failed'}
    engine_metrics_url: http://127.0.0.1:8000/metrics
    engine_metrics_token_file: secrets/token
    jit_cache_home: /root
    jit_cache_dirs: [/tmp/torchinductor_root, caches]
    jit_proc_root: /proc
  - path: prefill.log
    pd_role: none
    timezone: null
"""


class TestLoad:
    def test_reads_every_key(self, tmp_path: Path) -> None:
        """Each key of the file reaches the model; scalars are the text that stands in the file."""
        config = load(written(tmp_path, FULL))

        decode, prefill = config.sources
        assert (config.web.listen_address, config.web.telemetry_path) == ("[::1]:9000", "/m")
        assert config.state_file == f"{tmp_path}/inferlog.state"
        assert config.rdma_sysfs_root == "/host/sys"
        assert (config.log.level, config.log.format) == ("debug", "json")
        assert decode.model_dump() == {
            "name": "decode-0",
            "paths": ("/logs/engine.log", f"{tmp_path}/more/engine.err", "-"),
            "start_at": "end",
            "pd_role": "decode",
            "pd_expect": "all",
            "pd_failed_requests": 3,
            "pd_failed_share": 0.1,
            "timezone": "+08:00",
            "warmup_grace": 900.0,
            "labels": {"pd_group": "a", "replica": "007"},
            "patterns": {"tool_call_error": "tool call .* failed"},
            "engine_metrics_url": "http://127.0.0.1:8000/metrics",
            "engine_metrics_token_file": f"{tmp_path}/secrets/token",
            "jit_cache_home": "/root",
            "jit_cache_dirs": ("/tmp/torchinductor_root", f"{tmp_path}/caches"),
            "jit_proc_root": "/proc",
        }
        assert (prefill.name, prefill.paths, prefill.pd_role, prefill.timezone) == (
            "prefill",
            (f"{tmp_path}/prefill.log",),
            "none",
            None,
        )

    def test_only_sources_is_needed(self, tmp_path: Path) -> None:
        """Absent and empty keys mean the default."""
        config = load(written(tmp_path, "web:\nlog: {level: }\n" + SOURCE))

        assert config == Config.model_validate({"sources": [{"name": "a", "paths": [f"{tmp_path}/a.log"]}]})
        assert (config.web.listen_address, config.log.level) == (":19877", "info")
        assert config.sources[0].start_at == "beginning"

    def test_derives_unique_names(self, tmp_path: Path) -> None:
        """A name comes from the first path's stem, and gives way to the names that are written."""
        paths = ["x/engine.log", "y/engine.log", "-", "..$$.log", "x" * 80 + ".log", "z/" + "x" * 80]
        text = yaml.safe_dump({"sources": [*({"path": p} for p in paths), {"name": "engine-2", "path": "b"}]})

        names = [source.name for source in load(written(tmp_path, text)).sources]

        assert names == ["engine", "engine-3", "stdin", "source", "x" * 63, "x" * 61 + "-2", "engine-2"]

    def test_is_frozen(self, tmp_path: Path) -> None:
        """A loaded configuration cannot be changed."""
        config = load(written(tmp_path, SOURCE))
        with pytest.raises(ValidationError):
            config.log.level = "debug"  # type: ignore[misc]

    def test_follows_aliases(self, tmp_path: Path) -> None:
        """An alias stands for the value of its anchor."""
        config = load(written(tmp_path, "sources: [{path: a, labels: &l {x: y}}, {path: b, labels: *l}]"))
        assert [source.labels for source in config.sources] == [{"x": "y"}, {"x": "y"}]

    def test_accepts_a_byte_order_mark(self, tmp_path: Path) -> None:
        """A byte order mark is no part of the first key."""
        assert load(written(tmp_path, b"\xef\xbb\xbf" + SOURCE.encode())).sources[0].name == "a"


ROLES = "prefill, decode, both, none"
PATH = "sources:\n  - path: a.log\n    "
WRONG_URLS = (
    "hunter2",
    "ftp://h/x",
    "http://",
    "//h/x",
    "http://h:x/",
    "http://h:99999/",
    "http://h:0/",
    "'http://[::1/'",
    '"http://h/\\t"',
    "'http://a b/'",
)
SECRET_URLS = ("http://u:hunter2@h/", "http://hunter2@h/", "http://h/#hunter2")
BAD = [
    # keys
    (PATH + "pd_rol: decode", "3:5: key 'sources[0].pd_rol': unknown key; did you mean 'pd_role'?"),
    (PATH + "Pd-Role: decode", "3:5: key 'sources[0].Pd-Role': unknown key; did you mean 'pd_role'?"),
    (PATH + "xyz:", "3:5: key 'sources[0].xyz': unknown key"),
    ("source: []\n" + SOURCE, "1:1: key 'source': unknown key; did you mean 'sources'?"),
    (SOURCE + "web: {listen: ':1'}", "2:7: key 'web.listen': unknown key; did you mean 'listen_address'?"),
    (SOURCE + "1: 2", "2:1: key '1': unknown key"),
    (SOURCE + '"a\\nb": 2', r"2:1: key 'a\nb': unknown key"),
    (SOURCE + "z" * 70 + ": 2", f"2:1: key '{'z' * 64}...': unknown key"),
    (SOURCE + "<<: {log: {}}", "2:1: key '<<': unknown key"),
    (SOURCE + "? [a]\n: b", "2:3: a key is not a plain text"),
    (PATH + "path: b.log", "3:5: key 'sources[0].path': duplicate key; first on line 2"),
    (SOURCE + SOURCE, "2:1: key 'sources': duplicate key; first on line 1"),
    # enumerations
    (PATH + "pd_role: decoder", f"3:14: sources[0].pd_role: 'decoder' is not one of {ROLES}; did you mean 'decode'?"),
    (PATH + "pd_role: false", f"3:14: sources[0].pd_role: 'false' is not one of {ROLES}"),
    (PATH + "pd_role: [decode]", f"3:14: sources[0].pd_role: a list is not one of {ROLES}"),
    (PATH + 'pd_role: "\\e[31m"', rf"3:14: sources[0].pd_role: '\x1b[31m' is not one of {ROLES}"),
    (PATH + "pd_role: " + "q" * 99, f"3:14: sources[0].pd_role: '{'q' * 64}...' is not one of {ROLES}"),
    (PATH + "pd_expect: al", "3:16: sources[0].pd_expect: 'al' is not one of all, mixed; did you mean 'all'?"),
    (PATH + "start_at: ends", "3:15: sources[0].start_at: 'ends' is not one of beginning, end; did you mean 'end'?"),
    (
        SOURCE + "log:\n  level: WARN",
        "3:10: log.level: 'WARN' is not one of debug, info, warning, error; did you mean 'warning'?",
    ),
    (SOURCE + "log: {format: xml}", "2:15: log.format: 'xml' is not one of logfmt, json"),
    ("sources: [{path: null, paths: [[]]}]", "1:32: sources[0].paths[0]: expected a text, not a list"),
    # types
    (SOURCE + "web: []", "2:6: web: expected a mapping, not a list"),
    (SOURCE + "web: hunter2", "2:6: web: expected a mapping, not a text"),
    ("sources: hunter2", "1:10: sources: expected a list, not a text"),
    ("sources: [hunter2]", "1:11: sources[0]: expected a mapping, not a text"),
    ("sources: [null]", "1:11: sources[0]: expected a mapping, not null"),
    ("sources: [{paths: a.log}]", "1:19: sources[0].paths: expected a list, not a text"),
    ("sources: [{paths: [[]]}]", "1:20: sources[0].paths[0]: expected a text, not a list"),
    ("sources: [{path: {}}]", "1:18: sources[0].path: expected a text, not a mapping"),
    (PATH + "patterns: [a]", "3:15: sources[0].patterns: expected a mapping, not a list"),
    (PATH + "patterns: {a: '('}", "3:19: sources[0].patterns.a: no valid pattern: missing ) at position 1"),
    (PATH + "patterns: {a: ''}", "3:19: sources[0].patterns.a: a pattern has 1 to 1000 characters"),
    (
        PATH + "patterns: {A: x}",
        "3:16: key 'sources[0].patterns.A': a pattern's name is 1 to 63 small letters, digits and '_', a letter first",
    ),
    (PATH + "labels: [a]", "3:13: sources[0].labels: expected a mapping, not a list"),
    (PATH + "labels: {a: }", "3:16: sources[0].labels.a: expected a text, not null"),
    # values
    ("sources: []", "1:10: sources: at least one source is needed"),
    ("sources:", "1:9: sources: at least one source is needed"),
    ("\nlog: {}", "2:1: sources: at least one source is needed"),
    ("sources:\n  - name: a", "2:5: sources[0].paths: a source needs 'path' or 'paths'"),
    ("sources: [{paths: []}]", "1:19: sources[0].paths: a source needs 'path' or 'paths'"),
    (PATH + "paths: [b.log]", "3:12: sources[0].paths: give 'path' or 'paths', not both"),
    (SOURCE + "state_file: ''", "2:13: state_file: a path must not be empty or hold control characters"),
    (SOURCE + 'state_file: "a\\tb"', "2:13: state_file: a path must not be empty or hold control characters"),
    (SOURCE + "state_file: [a]", "2:13: state_file: expected a text, not a list"),
    (SOURCE + "statefile: a", "2:1: key 'statefile': unknown key; did you mean 'state_file'?"),
    ("sources: [{path: ''}]", "1:18: sources[0].path: a path must not be empty or hold control characters"),
    ("sources: [{path: -}, {paths: [-]}]", None),
    ('sources: [{path: "-"}, {paths: [b, "-"]}]', "1:36: sources[1].paths[1]: standard input is read already"),
    ("sources: [{path: a.log}, {name: b, path: a.log}]", "1:42: sources[1].path: this log is read already"),
    ("sources: [{paths: ['-', '-']}]", "1:25: sources[0].paths[1]: standard input is read already"),
    (
        "sources: [{path: a, name: x}, {path: b, name: x, pd_role: q}]",
        "1:47: sources[1].name: another source has this name",
    ),
    (
        PATH + "name: a b",
        "3:11: sources[0].name: must be 1 to 63 letters, digits and _.- and begin with a letter or a digit",
    ),
    (
        PATH + "timezone: CET",
        '3:15: sources[0].timezone: expected an offset from UTC such as "+08:00", at most 14 hours',
    ),
    (
        PATH + "timezone: +14:15",
        '3:15: sources[0].timezone: expected an offset from UTC such as "+08:00", at most 14 hours',
    ),
    (
        PATH + "labels: {0a: b}",
        "3:14: key 'sources[0].labels.0a': not a valid label name (letters, digits and '_', no digit first)",
    ),
    (
        PATH + "labels: {__a: b}",
        "3:14: key 'sources[0].labels.__a': label names that begin with '__' belong to Prometheus",
    ),
    (
        PATH + "labels: {ok: b, le: b}",
        "3:21: key 'sources[0].labels.le': this label name belongs to inferlog or Prometheus",
    ),
    (
        SOURCE + "web: {telemetry_path: metrics}",
        "2:23: web.telemetry_path: must begin with '/' and hold only letters, digits and ._~-/",
    ),
    (
        SOURCE + "web: {telemetry_path: /-/ready}",
        "2:23: web.telemetry_path: this path belongs to another page of inferlog",
    ),
    (
        SOURCE + "web: {listen_address: hunter2}",
        '2:23: web.listen_address: expected HOST:PORT, ":PORT" or "[IPV6]:PORT", with a port from 0 to 65535',
    ),
    # other witnesses
    (PATH + "engine_metrics: http://h/", "3:5: key 'sources[0].engine_metrics': unknown key; did you mean 'engine_metrics_url'?"),
    *(
        (PATH + f"engine_metrics_url: {url}", f"3:25: sources[0].engine_metrics_url: {said}")
        for url, said in (
            *((url, 'expected an address such as "http://127.0.0.1:8000/metrics"') for url in WRONG_URLS),
            *((url, "must have no user name, password or fragment; a token goes into engine_metrics_token_file") for url in SECRET_URLS),
        )
    ),
    (PATH + "engine_metrics_token_file: t", "3:32: sources[0].engine_metrics_token_file: needs engine_metrics_url"),
    (PATH + "jit_cache_dirs: /tmp", "3:21: sources[0].jit_cache_dirs: expected a list, not a text"),
    (PATH + "jit_cache_dirs: ['']", "3:22: sources[0].jit_cache_dirs[0]: a path must not be empty or hold control characters"),
    (PATH + "jit_cache_dir: [/tmp]", "3:5: key 'sources[0].jit_cache_dir': unknown key; did you mean 'jit_cache_dirs'?"),
    (SOURCE + "rdma_sysfs: /sys", "2:1: key 'rdma_sysfs': unknown key; did you mean 'rdma_sysfs_root'?"),
    # the first by line, whatever finds it
    (
        "log: {level: x}\n" + SOURCE + SOURCE,
        "1:14: log.level: 'x' is not one of debug, info, warning, error",
    ),
    # the file
    ("", "1:1: the file is empty"),
    ("# nothing\n", "1:1: the file is empty"),
    ("\n- a", "2:1: the top level is not a mapping of keys"),
    (b"a: b\nc: \xff", "2:1: the file is not UTF-8"),
    ("a: b\nc: \x00", "2:1: not valid YAML: a control character"),
    ("a: b\n\tc: d", "2:1: not valid YAML: found character '\\t' that cannot start any token"),
    ("a: b: c", "1:5: not valid YAML: mapping values are not allowed here"),
    ("a: [b", "1:6: not valid YAML: expected ',' or ']', but got '<stream end>'"),
    ("a: *hunter2", "1:4: not valid YAML: found undefined alias"),
    ("a: 1\n---\nb: 2", "2:1: not valid YAML: but found another document"),
    ('a: "\\UFFFFFFFF"', None),
    (PATH + 'labels: {a: "\\ud800"}', "3:17: sources[0].labels.a: the text is not valid Unicode"),
    (SOURCE + "log: !!python/object/apply:os.system [id]", "2:6: log: YAML tags are not supported"),
    (SOURCE + "log: &a {level: *a}", None),
    (SOURCE + "x: &a [*a]", None),
    ("a: " + "[" * 5000, "1:1: nested too deeply"),
    ("a: " + "[" * 30 + "]" * 30, "1:24: nested too deeply"),
    ("#" * (1 << 20) + "\n" + SOURCE, "1:1: the file is larger than 1 MiB"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_a_fault_is_told_in_one_line(tmp_path: Path, text: str | bytes, message: str | None) -> None:
    """The message names file, line, column, key and the nearest valid word, and no value but an enumerated one."""
    said = error_in(tmp_path, text)

    assert said.startswith("c.yaml:")
    assert said.isprintable()
    assert "hunter2" not in said
    if message is not None:
        assert said == f"c.yaml:{message}"


def test_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    """Values are counted with their aliases expanded."""
    levels = (f"k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 10)}]\n" for i in range(1, 10))
    assert error_in(tmp_path, "k0: &k0 x\n" + "".join(levels)).endswith(": more than 20000 values, aliases expanded")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none", "No such file or directory"), (".", "Is a directory"), ("a\nb", "No such file or directory")],
)
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str, reason: str) -> None:
    """The reason is the system's, and a hostile file name stays on the line."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / name)
    shown = str(tmp_path / name).replace("\n", "\\n")
    assert str(caught.value) == f"{shown}:1:1: cannot read the file: {reason}"


def test_a_path_with_nul_is_told() -> None:
    """A path that the system cannot even try is a ConfigError too."""
    with pytest.raises(ConfigError, match="not a valid path"):
        load(Path("a\0b"))


class TestParseListenAddress:
    @pytest.mark.parametrize(
        ("text", "address"),
        [
            (":19877", ("", 19877)),
            ("0.0.0.0:0", ("0.0.0.0", 0)),
            ("localhost:65535", ("localhost", 65535)),
            ("[::1]:9000", ("::1", 9000)),
        ],
    )
    def test_splits_host_and_port(self, text: str, address: tuple[str, int]) -> None:
        """Brackets are no part of the host; an empty host is all interfaces."""
        assert parse_listen_address(text) == address

    @pytest.mark.parametrize(
        "text",
        ["", ":", "9000", "a:", ":65536", ":-1", ":٣", ":1 ", "::1:9", "[::1]", "[a]:1", "1.2.3:1", "a b:1", "[]:1"],
    )
    def test_refuses_the_rest(self, text: str) -> None:
        """Anything else is a ValueError that does not quote the text."""
        with pytest.raises(ValueError, match=r"^(expected|the host|an IPv6)"):
            parse_listen_address(text)


def test_reserved_labels_are_label_names() -> None:
    """The product's own labels are what Prometheus takes as names; those of a container are free to be given."""
    assert not {"namespace", "pod", "container"} & RESERVED_LABELS
    assert {"source", "runtime", "version", "connector", "phase", "le", "job"} <= RESERVED_LABELS
    assert all(name.isidentifier() for name in RESERVED_LABELS)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=8),
    st.sampled_from(["decode", "-", "a.log", "+08:00", ":1", "debug"]),
)
WORDS = "web state_file listen_address telemetry_path log level format sources name path paths start_at pd_role pd_expect timezone warmup_grace labels le x"
KEYS = st.sampled_from(WORDS.split())
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=24)
SOURCES = st.fixed_dictionaries({"sources": st.lists(st.dictionaries(KEYS, TREES, max_size=6), max_size=4)})
YAML_TOKENS = st.lists(st.sampled_from([*"[]{}:,-?&*!|>'\"%@#\n\t ab1~<", "\\U", "---", ": ", "- ", "\n  ", "sources"]))
bounded = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@bounded
@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: text.encode(errors="replace")),
        YAML_TOKENS.map(lambda tokens: "".join(tokens).encode()),
        (TREES | SOURCES).map(lambda tree: yaml.safe_dump(tree, allow_unicode=True).encode(errors="replace")),
    )
)
def test_any_file_loads_or_is_a_config_error(tmp_path: Path, data: bytes) -> None:
    """Whatever the file holds, loading it gives a configuration or one printable line with a place in the file."""
    path = written(tmp_path, data)
    try:
        config = load(path)
    except ConfigError as error:
        place, _, _ = str(error).removeprefix(f"{path}:").partition(": ")
        line, column = map(int, place.split(":"))
        assert line >= 1
        assert column >= 1
        assert str(error).isprintable()
    else:
        names = [source.name for source in config.sources]
        assert len(set(names)) == len(names) > 0


@bounded
@given(st.lists(st.text(max_size=12).filter(lambda text: "*" not in text), max_size=3), st.none() | st.text(max_size=8))
def test_any_flags_give_a_configuration_or_a_config_error(logs: list[str], value: str | None) -> None:
    """Whatever the flags hold, they give a configuration or one printable line that names the flag."""
    try:
        from_flags(None, logs=logs, listen_address=value, source_defaults={"pd_role": value, "timezone": value})
    except ConfigError as error:
        assert str(error).startswith("--")
        assert str(error).isprintable()


def test_a_relative_file_name_keeps_its_logs_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log beside a file that is named without a directory is named without one too."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, SOURCE)
    assert load(Path("c.yaml")).sources[0].paths == ("a.log",)
    assert load(Path(os.path.join(os.curdir, "c.yaml"))).sources[0].paths == ("a.log",)


def test_a_daemon_without_files_does_not_load_yaml() -> None:
    """It takes most of a MiB."""
    code = "import sys, exporter.cli, exporter.serve; print('yaml' in sys.modules)"

    assert "False\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
