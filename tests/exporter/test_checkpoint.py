"""The state file: whole or not at all, nobody else's, and never a reason to stop."""

import json
import logging
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from exporter.checkpoint import SCHEMA, StateFile, StateInUseError

STATES = {"engine": '{"a": [1, 2.5, null, "x"]}', 'odd "name"': "{}"}
LOADED = {"engine": {"a": [1, 2.5, None, "x"]}, 'odd "name"': {}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the state file is to be."""
    return tmp_path / "state" / "inferlog.json"


def saved(path: Path) -> bytes:
    """A file that was written by a process that is gone."""
    with closing(StateFile(path)) as file:
        assert file.save(STATES)
    return path.read_bytes()


def loaded(path: Path) -> dict[str, object]:
    """What another process finds."""
    with closing(StateFile(path)) as file:
        return file.load()


def test_what_was_saved_is_loaded(path: Path) -> None:
    """With the moment at which it was saved."""
    saved(path)
    with closing(StateFile(path)) as file:
        assert file.load() == LOADED
        assert file.saved_at is not None
        assert path.stat().st_mtime == pytest.approx(file.saved_at, abs=5)


def test_without_a_file_everything_is_new(path: Path) -> None:
    """The directory is made, and nothing is kept aside."""
    assert loaded(path) == {}
    assert [f"{path.name}.lock"] == [each.name for each in path.parent.iterdir()]


def test_nobody_else_may_read_it(path: Path) -> None:
    """The names of models and settings are not for everybody on the node."""
    saved(path)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)


def newer(data: bytes) -> bytes:
    """As a version after this one may write it: with other keys."""
    return json.dumps({"schema": SCHEMA + 1, "everything": json.loads(data)["sources"]}).encode()


def with_another_value(data: bytes) -> bytes:
    """One bit on the disk."""
    return data.replace(b"2.5", b"3.5")


UNUSABLE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "last byte missing": lambda data: data[:-2],
    "zeros": lambda data: bytes(len(data)),
    "no text": lambda data: b"\xff\xfe" + data,
    "another JSON": lambda data: b"[1, 2]",
    "no schema": lambda data: b"{}",
    "an odd schema": lambda data: data.replace(b'"schema": 1', b'"schema": "1"'),
    "an older schema": lambda data: data.replace(b'"schema": 1', b'"schema": 0'),
    "a bit": with_another_value,
    "newer": newer,
    "nested without end": lambda data: b"[" * 100_000,
}


@pytest.mark.parametrize("damage", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_file_is_kept_aside(path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture) -> None:
    """It is said why, the file stays for whoever wants to know, and the next start is a normal one."""
    content = damage(saved(path))
    path.write_bytes(content)

    assert loaded(path) == {}

    (aside,) = path.parent.glob("*.unusable-*")
    assert content == aside.read_bytes()
    assert not path.exists()
    (message,) = [record.getMessage() for record in caplog.records]
    assert str(path) in message
    assert aside.name in message
    assert ("newer inferlog (schema 2, this one knows 1)" in message) == (damage is newer)
    saved(path)
    assert loaded(path) == LOADED


def test_a_second_process_is_refused(path: Path) -> None:
    """Two would count everything twice and overwrite each other."""
    with closing(StateFile(path)) as first:
        assert first.save(STATES)
        with pytest.raises(StateInUseError, match="another inferlog uses this state file"):
            StateFile(path)
    assert loaded(path) == LOADED


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond a few bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_costs_nothing_that_was_saved(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, counted each time, and said again when it is over."""
    caplog.set_level(logging.INFO)
    with closing(StateFile(path)) as file:
        assert file.save(STATES)
        with full_disk():
            assert not file.save({"engine": "{}"})
            assert not file.save({"engine": "{}"})
        failures = [file.failures]
        assert json.loads(path.read_bytes())["sources"] == LOADED
        assert file.save({"engine": "{}"})

    assert failures == [2]
    assert ["cannot be written (File too large)", "is written again"] == [record.getMessage().split(": ")[1] for record in caplog.records]
    with closing(StateFile(path)) as file:
        assert file.load() == {"engine": {}}
        assert file.failures == 2, "a counter that was seen does not fall"


def test_where_nothing_can_be_written_it_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A read-only root, or a directory that is none."""
    (tmp_path / "file").write_text("")
    with closing(StateFile(tmp_path / "file" / "state.json")) as file:
        assert file.load() == {}
        assert not file.save(STATES)
        file.sync()
        assert file.saved_at is None
        assert file.failures == 2
    assert ["cannot be written" in record.getMessage() for record in caplog.records].count(True) == 1


def test_a_link_in_the_place_of_the_new_file_is_not_followed(path: Path) -> None:
    """Whoever may write the directory must not make us write another file."""
    saved(path)
    victim = path.parent / "victim"
    victim.write_text("precious")
    Path(f"{path}.new").symlink_to(victim)
    with closing(StateFile(path)) as file:
        assert not file.save(STATES)
    assert victim.read_text() == "precious"
