"""The state file: whole or not at all, nobody else's, and never a reason to stop."""

import errno
import json
import logging
import os
import re
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from exporter.checkpoint import SCHEMA, StateFile, StateFileError

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


_SCHEMA = b'"schema": %d' % SCHEMA


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
    "an odd schema": lambda data: data.replace(_SCHEMA, b'"schema": "1"'),
    "an older schema": lambda data: data.replace(_SCHEMA, b'"schema": 0'),
    "a bit": with_another_value,
    "a bit of the head": lambda data: data.replace(b'"failures": 0', b'"failures": 8'),
    "a time": lambda data: data.replace(b'"saved_at": 1', b'"saved_at": 2'),
    "no end of failures": lambda data: data.replace(b'"failures": 0', b'"failures": Infinity'),
    "failures that are no number": lambda data: data.replace(b'"failures": 0', b'"failures": null'),
    "a time out of range": lambda data: re.sub(rb'"saved_at": [0-9.]+', b'"saved_at": 1e999', data),
    "a time of 400 digits": lambda data: re.sub(rb'"saved_at": [0-9.]+', b'"saved_at": ' + b"1" * 400, data),
    "a number without end": lambda data: b"1" * 5000,
    "an endless schema": lambda data: data.replace(_SCHEMA, b'"schema": Infinity'),
    "a schema that is true": lambda data: data.replace(_SCHEMA, b'"schema": true'),
    "sources that are a list": lambda data: re.sub(rb'"sources": .*', b'"sources": []}', data),
    "another key": lambda data: data.replace(b"{", b'{"more": 1, ', 1),
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
    assert (f"newer inferlog (schema {SCHEMA + 1}, this one knows {SCHEMA})" in message) == (damage is newer)
    saved(path)
    assert loaded(path) == LOADED


def test_a_second_process_is_refused(path: Path) -> None:
    """Two would count everything twice and overwrite each other."""
    with closing(StateFile(path)) as first:
        assert first.save(STATES)
        with pytest.raises(StateFileError, match="another inferlog uses this state file"):
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
    saved(path)
    assert victim.read_text() == "precious"
    assert loaded(path) == LOADED


def test_a_new_file_that_is_there_gives_no_rights(path: Path) -> None:
    """It may be anybody's, and one that was read by others stays open to them."""
    path.parent.mkdir()
    new = Path(f"{path}.new")
    new.write_text("")
    new.chmod(0o666)
    with new.open() as theirs:
        saved(path)
        assert theirs.read() == ""
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)


def test_a_link_is_followed_once(path: Path, tmp_path: Path) -> None:
    """The state may be kept on another volume, and is one file under both names."""
    path.parent.mkdir()
    target = tmp_path / "volume" / "state.json"
    path.symlink_to(target)
    saved(path)
    assert path.is_symlink()
    assert loaded(target) == LOADED
    with closing(StateFile(target)), pytest.raises(StateFileError):
        StateFile(path)


def test_a_directory_is_refused_and_stays(path: Path) -> None:
    """It may hold everything that somebody has, and a slip of the pen is no reason to move it."""
    path.mkdir(parents=True)
    with pytest.raises(StateFileError, match="a directory; name a file in it"):
        StateFile(path)
    assert [path] == list(path.parent.iterdir())


def test_failures_leave_nothing_behind(path: Path) -> None:
    """Neither a part of a file on a full disk, nor a whole one that cannot be moved."""
    with closing(StateFile(path)) as file:
        with full_disk():
            assert not file.save(STATES)
        path.mkdir()
        assert not file.save(STATES)
        assert {path.name, f"{path.name}.lock"} == {each.name for each in path.parent.iterdir()}
        assert 2 == file.failures


def test_a_deleted_file_is_missed(path: Path) -> None:
    """So that it can be saved again."""
    with closing(StateFile(path)) as file:
        assert file.is_missing()
        assert file.save(STATES)
        assert not file.is_missing()
        path.unlink()
        assert file.is_missing()


class Disk:
    """Counts what is brought to it, and may fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[bytes] = []
        self.broken = False
        self.meanwhile: Callable[[], object] = lambda: None
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, fd: int) -> None:
        """In the place of the system's."""
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.synced.append(os.pread(fd, 1 << 20, 0))
        self.meanwhile()


def test_each_save_is_brought_to_the_disk_by_the_next_sync(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever saved it, and once."""
    disk = Disk(monkeypatch)
    with closing(StateFile(path)) as file:
        file.sync()
        for text in ("1", "2"):
            assert file.save({"engine": text})
            file.sync()
            file.sync()
            assert path.read_bytes() == disk.synced[-1]
    assert 2 == len(disk.synced)


def test_a_save_during_a_sync_is_not_taken_for_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape saves in another thread."""
    disk = Disk(monkeypatch)
    with closing(StateFile(path)) as file:
        assert file.save({"engine": "1"})
        disk.meanwhile = lambda: file.save({"engine": "2"})
        file.sync()
        disk.meanwhile = lambda: None
        file.sync()
    assert path.read_bytes() == disk.synced[-1]


def test_a_sync_that_failed_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And counted."""
    disk = Disk(monkeypatch)
    with closing(StateFile(path)) as file:
        assert file.save(STATES)
        disk.broken = True
        file.sync()
        assert 1 == file.failures
        disk.broken = False
        file.sync()
    assert [path.read_bytes()] == disk.synced
