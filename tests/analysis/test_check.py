"""`inferlog check`: what was recognised, what was not, and why one may see nothing."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from exporter.analysis.check import Checked, check
from exporter.analysis.inputs import saved_logs
from exporter.analysis.recognition import CheckedLog, Shape, shape_of
from exporter.cli import main
from parsers.events import HealthAnswered, HttpResponses, TransportError, UncaughtException, Unread
from parsers.log import Log
from parsers.rules import registry
from tests.conftest import DATA
from tests.wrappings import WRAPS, wrapped

INCIDENT = DATA / "vllm-0.32/captured-pd-decode.log"
WITHOUT_RULE = (HttpResponses, HealthAnswered, Unread, TransportError, UncaughtException)
LOGS = sorted(DATA.glob("*/*.log"))


def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)], input=stdin)


def checked(path: Path) -> Checked:
    return check(saved_logs([str(path)])[0])


def hints(tmp_path: Path, data: bytes) -> str:
    """Of a log."""
    path = tmp_path / "engine.log"
    path.write_bytes(data)
    return "\n".join(checked(path).hints)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_to_look_changes_nothing(path: Path) -> None:
    """The same events and counts as of any log; each unrecognised line has a shape, and each event a rule."""
    data = path.read_bytes()
    plain, looked = Log(2026), CheckedLog(2026)
    expected, found = plain.feed(data) + plain.close(), looked.feed(data) + looked.close()
    assert [repr(event) for event, _ in expected if not isinstance(event, HttpResponses)] == [
        repr(event) for event, _ in found if not isinstance(event, HttpResponses)
    ]
    assert plain.counts() == looked.counts()
    shapes = looked.recognition.shapes
    unknown: dict[str, int] = {}
    for shape, seen in shapes.items():
        unknown[shape.level] = unknown.get(shape.level, 0) + seen.count
    assert unknown == {level: count for level, count in plain.counts()["unrecognised_lines_total"].items() if count}
    assert looked.recognition.rules.keys() <= {rule.name for rule in registry()}
    told = {repr(event) for event, _ in found if not isinstance(event, WITHOUT_RULE)}
    assert sum(seen.count for seen in looked.recognition.rules.values()) >= len(told)


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_a_wrapping_changes_no_shape(wrap) -> None:
    """Of a container runtime, of compose, of a terminal."""
    data = INCIDENT.read_bytes()
    plain, inside = CheckedLog(2026), CheckedLog(2026)
    plain.feed(data)
    inside.feed(b"".join(wrapped(data, wrap, 2026)))
    assert inside.recognition.shapes.keys() == plain.recognition.shapes.keys()
    assert {name: seen.count for name, seen in inside.recognition.rules.items()} == {
        name: seen.count for name, seen in plain.recognition.rules.items()
    }


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        (
            "WARNING 11-29 13:09:05 [vllm.py:12] Something new happened here today and more",
            ("vllm.py", "Something new happened here today and"),
        ),
        ("(EngineCore pid=3) ERROR 11-29 13:09:05 [a/b.py:1] Failed for request 'secret'", ("a/b.py", "Failed for request")),
        ("ERROR 11-29 13:09:05 [a.py:1] no such user: secret", ("a.py", "no such user")),
        ("ERROR 11-29 13:09:05 [a.py:1] value (secret)", ("a.py", "value")),
        ("ERROR 11-29 13:09:05 [a.py:1] got 7 secrets", ("a.py", "got")),
        ("ERROR 11-29 13:09:05 [a.py:1] {'prompt': 'secret'}", ("a.py", "")),
        ("ERROR 11-29 13:09:05 [a.py:1] the “secret”", ("a.py", "the")),
        ("[2026-07-14 03:12:07 TP0] Failed to do it", ("", "Failed to do it")),
        ('{"levelname": "ERROR", "message": "broken pipe: secret", "name": "vllm.x"}', ("vllm.x", "broken pipe")),
        ("2026-11-29T13:09:05.000000000Z stdout F ERROR 11-29 13:09:05 [a.py:1] broken", ("a.py", "broken")),
    ],
)
def test_a_shape_is_a_module_and_few_words(line: str, shape: tuple[str, str]) -> None:
    """Up to the first quote, bracket, colon or digit."""
    assert shape_of("ERROR", line) == Shape("ERROR", *shape)


def test_what_it_prints() -> None:
    """Rules with their lines, shapes, and the signals that an engine of this kind prints."""
    text = run(INCIDENT).stdout
    assert "14  nixl_failure  (lines 166 to 230)" in text
    assert "vllm.py  Model Runner V  (lines 15 to 66)" in text
    assert "expected signals: 9 of 9 seen" in text
    told = json.loads(run(INCIDENT, "--json").stdout)[0]
    assert told["rules"]["nixl_failure"] == {"count": 14, "first": 166, "last": 230}
    assert told["lines"] == 305


def test_signals_that_are_missing(tmp_path: Path) -> None:
    """A log that begins behind the start."""
    path = tmp_path / "tail.log"
    path.write_bytes(b"\n".join(INCIDENT.read_bytes().split(b"\n")[100:]))
    found = checked(path)
    assert {each.signal for each in found.expected if not each.seen} >= {"start line", "version", "KV pool size", "ready line"}
    assert any("begins behind the engine's start" in hint for hint in found.hints)


_INFO = b"INFO 11-29 13:09:05 [vllm.py:1] Something\n"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"nothing of an engine\n" * 50, "No engine or gateway speaks here"),
        (INCIDENT.read_bytes().decode().encode("utf-16"), "UTF-16"),
        (INCIDENT.read_bytes()[:-5], "last line is not complete"),
        (
            b"".join(b"<134>1 host app 12 - " + line + b"\n" for line in INCIDENT.read_bytes().split(b"\n")),
            "behind something that is not known",
        ),
        (b"WARNING 11-29 13:09:05 [vllm.py:1] Something\n" * 30, "nothing is logged at INFO"),
        (_INFO * 30, "begins behind the engine's start"),
        (b"\n".join(INCIDENT.read_bytes().split(b"\n")[:60]) + b"\n", "still starting"),
    ],
    ids=["empty", "other", "utf-16", "cut", "wrapped", "level", "tail", "starting"],
)
def test_why_one_sees_nothing(tmp_path: Path, data: bytes, says: str) -> None:
    """Each reason on a line."""
    assert says in hints(tmp_path, data)


def test_a_whole_log_needs_no_explanation() -> None:
    """Of an engine that served and stopped."""
    assert checked(DATA / "vllm-0.32/captured-serve.log").hints == ()


@pytest.mark.parametrize(("arguments", "code"), [([INCIDENT], 0), (["no-such"], 2), (["-", "-"], 2), ([], 2)], ids=str)
def test_how_it_ends(arguments: list, code: int) -> None:
    """A wrong use is told in a line."""
    assert run(*arguments).exit_code == code
