"""Files of somebody who means harm: links that are swapped for secrets, FIFOs, devices, a state file of another."""

import json
import logging
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from exporter.checkpoint import StateFile
from exporter.tail import files_below

from .conftest import READY, Running, free_port, line, logo, selected

Start = Callable[..., Running]

SECRET = "CANARY7f3a"
BOOT = f"{logo()}\n{line('GPU KV cache size: 640 tokens')}\n{READY}\n"
FORGED = f"{logo()}\n{line('GPU KV cache size: 666 tokens')}\n{SECRET}\n{line(SECRET, level='ERROR')}\n"
UID = "0f3a2b1c-1111-2222-3333-44445555666"


class Place:
    """Logs that we may read, and a secret that we may not."""

    def __init__(self, folder: Path) -> None:
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.log = self.logs / "engine.log"
        self.log.write_text(BOOT)
        self.secret = folder / "secret"
        self.secret.write_text(FORGED)
        self.files = files_below((str(self.logs),))

    def read(self, path: Path | None = None) -> bytes:
        """What an open file has."""
        fd = self.files.open(str(path or self.log))
        try:
            return os.pread(fd, 1 << 20, 0)
        finally:
            os.close(fd)

    def put(self, link_to: Path | str) -> None:
        """Put a link in the log's place at once."""
        new = self.logs / "new"
        new.symlink_to(link_to)
        new.replace(self.log)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place on a disk."""
    return Place(tmp_path)


# -- opening -----------------------------------------------------------------------------------------------------------


def test_a_log_and_a_link_inside_are_opened(place: Place) -> None:
    """Rotation by links goes on."""
    assert place.read() == BOOT.encode()
    (place.logs / "0.log").write_text("other\n")
    place.put("0.log")
    assert place.read() == b"other\n"


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "/proc/self/environ", "/dev/zero", "nowhere"])
def test_a_link_that_leads_out_is_not_opened(place: Place, target: str) -> None:
    """However it is written."""
    place.put(target)
    with pytest.raises(OSError):
        place.read()


def test_a_directory_that_becomes_a_link_is_not_followed(place: Place) -> None:
    """Not the last part of the path only."""
    outside = place.secret.parent / "outside"
    outside.mkdir()
    (outside / "engine.log").write_text(FORGED)
    (place.logs / "pod").symlink_to(outside)
    with pytest.raises(PermissionError, match="leads out of the log directories"):
        place.read(place.logs / "pod" / "engine.log")


def test_a_name_that_begins_like_a_root_is_outside(place: Place) -> None:
    """/var/log/pods-of-others is not in /var/log/pods."""
    beside = place.logs.with_name("logs-of-others")
    beside.mkdir()
    (beside / "x").write_text(FORGED)
    place.put(beside / "x")
    with pytest.raises(PermissionError):
        place.read()


def test_a_fifo_and_a_socket_are_refused_at_once(place: Place) -> None:
    """Opening one waits for its other end."""
    place.log.unlink()
    os.mkfifo(place.log)
    with pytest.raises(OSError, match="not a regular file"):
        place.read()


def test_a_link_that_is_swapped_all_the_time_never_gives_the_secret(place: Place) -> None:
    """No look before the open: what was opened is what was looked at."""
    ending, real = threading.Event(), place.logs / "0.log"
    real.write_text(BOOT)

    def swap() -> None:
        while not ending.is_set():
            place.put(place.secret)
            place.put("0.log")

    thread = threading.Thread(target=swap)
    thread.start()
    outcomes = {True: 0, False: 0}
    try:
        while min(outcomes.values()) < 500:
            read = b""
            with suppress(OSError):
                read = place.read()
            assert SECRET.encode() not in read
            outcomes[bool(read)] += 1
    finally:
        ending.set()
        thread.join()


# -- a node ------------------------------------------------------------------------------------------------------------


def pod_log(pods: Path, name: str, number: int) -> Path:
    """Where kubelet keeps a container's log."""
    log = pods / f"serving_{name}_{UID}{number}" / "engine" / "0.log"
    log.parent.mkdir(parents=True)
    return log


@pytest.mark.slow
def test_a_swapped_link_shows_nothing_and_stops_nobody(run: Start, tmp_path: Path) -> None:
    """One pod's log becomes a link to a secret, another is one from the start; a third goes on."""
    pods, secret = tmp_path / "pods", tmp_path / "secret.log"
    secret.write_text(FORGED)
    swapped, linked, good = (pod_log(pods, name, number) for number, name in enumerate(("swapped", "linked", "good")))
    swapped.write_text(BOOT)
    good.write_text(BOOT)
    linked.symlink_to(secret)
    daemon = run("--log", f"{pods}/*/*/*.log", "--state-file", str(tmp_path / "state.json")).wait_ready()
    new = swapped.with_name("new")
    new.symlink_to(secret)
    new.replace(swapped)
    daemon.wait_value(0, "inferlog_source_up", pod="swapped")
    with good.open("a") as log:
        log.write(f"{line('Recovered from KV load failure: 1 request(s) rescheduled (7 tokens affected).')}\n")
    daemon.wait_value(1, "inferlog_kv_recomputed_requests_total", pod="good")
    assert {640} == set(selected(daemon.get()[1], "inferlog_kv_cache_size_tokens"))
    assert 0 == daemon.value("inferlog_source_up", pod="linked")
    told = daemon.get()[1] + daemon.errors.read_text() + (tmp_path / "state.json").read_text()
    assert SECRET not in told
    assert 2 == daemon.errors.read_text().count("0.log: EPERM")


@pytest.mark.slow
def test_log_roots_bound_any_log(run: Start, tmp_path: Path) -> None:
    """In a sidecar the engine writes the directory, and may put a link to what only we may read there."""
    place = Place(tmp_path)
    other = place.logs / "other.log"
    other.symlink_to(place.secret)
    (tmp_path / "inferlog.yaml").write_text(
        "log_roots: [logs]\nsources: [{name: a, path: logs/engine.log}, {name: b, path: logs/other.log}]"
    )
    daemon = run("--config", str(tmp_path / "inferlog.yaml")).wait_ready()
    assert 640 == daemon.value("inferlog_kv_cache_size_tokens", source="a")
    assert 0 == daemon.value("inferlog_source_up", source="b")


# -- the state file ----------------------------------------------------------------------------------------------------


def foreign(path: Path) -> None:
    """A state that somebody else wrote."""
    with closing(StateFile(path)) as file:
        file.save({"engine": "{}"})
    os.chown(path, 12345, 12345)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to others")


@needs_root
def test_a_state_of_another_user_is_kept_aside(tmp_path: Path) -> None:
    """Its counters would be his."""
    foreign(tmp_path / "state.json")
    with closing(StateFile(tmp_path / "state.json")) as file:
        assert file.load() == {}
    assert [each for each in tmp_path.iterdir() if "unusable" in each.name]


def test_a_link_that_takes_the_states_place_is_not_followed(tmp_path: Path) -> None:
    """One that is there at the start is the user's own; this one came later."""
    with closing(StateFile(tmp_path / "state.json")) as file:
        file.save({"engine": "{}"})
        file.path.rename(tmp_path / "real")
        file.path.symlink_to("real")
        assert file.load() == {}


def test_a_fifo_in_the_states_place_does_not_hang(tmp_path: Path) -> None:
    """Nobody would ever write to it."""
    os.mkfifo(tmp_path / "state.json")
    with closing(StateFile(tmp_path / "state.json")) as file:
        assert file.load() == {}


@pytest.mark.parametrize(("mode", "told"), [(0o777, True), (0o770, False), (0o1777, False)])
def test_a_directory_that_everybody_may_write_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, told: bool) -> None:
    """And no more: an emptyDir of Kubernetes is one."""
    tmp_path.chmod(mode)
    with caplog.at_level(logging.WARNING), closing(StateFile(tmp_path / "state.json")) as file:
        assert file.save({})
    assert told == ("everybody may write there" in caplog.text)
    assert 0o600 == stat.S_IMODE((tmp_path / "state.json").stat().st_mode)


# -- no rights ---------------------------------------------------------------------------------------------------------


def opened_for_writing(pid: int) -> Iterator[str]:
    """Regular files that a process may write through a descriptor, but for its standard error."""
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            flags = int(Path(f"/proc/{pid}/fdinfo/{fd.name}").read_text().partition("flags:")[2].split()[0], 8)
            if flags & os.O_ACCMODE != os.O_RDONLY and fd.is_file() and fd.name not in {"1", "2"}:
                yield os.readlink(fd)


def bare(state: Path) -> list[str]:
    """A command in front of another: no capability, and everything read-only but one directory."""
    mounts = f"mount --bind {state} {state} && mount -o remount,ro,bind /"
    rights = "setpriv --bounding-set=-all --inh-caps=-all --no-new-privs"
    return ["unshare", "--mount", "sh", "-c", f'{mounts} && exec {rights} "$@"', "sh"]


@pytest.mark.slow
@needs_root
def test_it_needs_no_capability_and_writes_nowhere_else(tmp_path: Path) -> None:
    """A container with readOnlyRootFilesystem and all capabilities dropped."""
    state = tmp_path / "state"
    state.mkdir()
    if subprocess.run([*bare(state), "true"], capture_output=True, check=False).returncode:
        pytest.skip("mount namespaces cannot be had here")
    (tmp_path / "engine.log").write_text(BOOT)
    arguments = ("--log", str(tmp_path / "engine.log"), "--state-file", str(state / "s.json"))
    daemon = Running(tmp_path, free_port(), *arguments, prefix=bare(state))
    try:
        daemon.wait_ready()
        assert 640 == daemon.value("inferlog_kv_cache_size_tokens")
        assert "CapEff:\t0000000000000000" in Path(f"/proc/{daemon.process.pid}/status").read_text()
        assert list(opened_for_writing(daemon.process.pid)) == [str(state / "s.json.lock")]
        assert json.loads((state / "s.json").read_text())["sources"]
        assert "level=error" not in daemon.errors.read_text()
    finally:
        daemon.end()
