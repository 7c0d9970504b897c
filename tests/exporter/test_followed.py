"""One daemon in this process: what scrapes, saves, other configurations and odd moments must not change."""

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exporter import followed
from exporter.exposition import StoppingError

from .conftest import READY, Node, core, line, logo, stats

if TYPE_CHECKING:
    from collections.abc import Callable

BOOT = "".join(f"{each}\n" for each in (logo(), core(), READY))


def lines(number: int, word: str = "Record") -> str:
    """Records that nobody knows."""
    return "".join(f"{line(f'{word} {each}', at='03:15:00')}\n" for each in range(number))


def append(path: Path, text: str) -> None:
    """Write at the end, as an engine does."""
    with path.open("a") as out:
        out.write(text)


GLOB = "sources: [{name: engine, paths: ['*.log']}]"


# -- generations under a glob ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rotated", ["engine-20260731.log", "engine.1.log", "old.log"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_rotated_name_that_the_glob_matches_is_no_other_log(node: Node, rotated: str, *, restarts: bool) -> None:
    """Its lines were counted under the first name; also after a restart, and when the next rotation has passed."""
    log = node.folder / "engine.log"
    log.write_text(BOOT + lines(97))
    daemon = node.start(GLOB)
    assert 100 == node.counted()
    log.rename(node.folder / rotated)
    log.write_text(lines(10, "Next"))
    for _ in range(2):
        if restarts:
            node.kill()
            daemon = node.start(GLOB)
        daemon._discover()
        assert 110 == node.counted()


def test_a_new_log_beside_is_followed(node: Node) -> None:
    """It is not taken for what a rotation left."""
    (node.folder / "a.log").write_text(BOOT)
    daemon = node.start(GLOB)
    assert 3 == node.counted()
    (node.folder / "b.log").write_text(lines(5))
    daemon._discover()
    assert 8 == node.counted()


def test_another_log_under_the_name_of_a_generation_is_followed(node: Node) -> None:
    """The rotated file is gone, and somebody writes a new one in its place before anybody looks."""
    a, b = node.folder / "a.log", node.folder / "b.log"
    a.write_text(BOOT)
    daemon = node.start(GLOB)
    assert 3 == node.counted()
    a.rename(b)
    a.write_text(lines(4))
    daemon._discover()
    assert 7 == node.counted()
    (node.folder / "holds-the-inode").hardlink_to(b)
    b.unlink()
    b.write_text(lines(6, "Other"))
    daemon._discover()
    assert 13 == node.counted()


def test_a_renamed_log_that_is_still_written_to_is_read_on(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody made a new one: its follower goes on with it, however long the old name is missing."""
    monkeypatch.setattr(followed, "FORGET_SECONDS", 0.0)
    old, new = node.folder / "engine.log", node.folder / "old.log"
    old.write_text(BOOT)
    daemon = node.start(GLOB)
    assert 3 == node.counted()
    old.rename(new)
    for number in range(3):
        daemon._discover()
        append(new, lines(2, f"Late {number}"))
        assert 5 + 2 * number == node.counted()
    node.kill()
    node.start(GLOB)
    assert 9 == node.counted()


# -- sources and paths that come back ----------------------------------------------------------------------------------


def test_a_log_that_is_away_at_the_restart_goes_on_when_it_is_back(node: Node) -> None:
    """A volume that is mounted late, a pod between two lives: also over a save, and a second restart."""
    log, away = node.folder / "engine.log", node.folder / "elsewhere"
    log.write_text(BOOT + lines(97))
    node.start(GLOB)
    assert 100 == node.counted()
    node.kill()
    log.rename(away)
    for _ in range(2):
        node.start(GLOB)
        assert node.counted() is None
        node.kill()
    away.rename(log)
    append(log, lines(10, "Next"))
    node.start(GLOB)
    assert 110 == node.counted()


def test_a_path_that_is_taken_out_and_in_again_counts_once(node: Node) -> None:
    """Where its reading ended is remembered, over a restart as well."""
    (node.folder / "a.log").write_text(BOOT)
    (node.folder / "b.log").write_text(lines(50))
    both, one = ("sources: [{name: engine, paths: [a.log, b.log]}]", "sources: [{name: engine, paths: [a.log]}]")
    daemon = node.start(both)
    assert 53 == node.counted()
    assert not daemon.reload(node.config(one))
    assert 53 == node.counted()
    append(node.folder / "b.log", lines(5, "Next"))
    node.kill()
    daemon = node.start(one)
    assert 53 == node.counted()
    assert not daemon.reload(node.config(both))
    assert 58 == node.counted()
    assert sum(path.stat().st_size for path in node.folder.glob("?.log")) == node.scrape()["engine", "source_read_bytes_total", ()]


def test_a_source_that_is_taken_out_and_in_again_goes_on(node: Node) -> None:
    """A configuration that flaps takes nothing back, though a rotation has passed."""
    log = node.folder / "engine.log"
    log.write_text(BOOT + lines(97))
    with_it, without = "sources: [{path: engine.log}, {path: other.log}]", "sources: [{path: other.log}]"
    daemon = node.start(with_it)
    assert 100 == node.counted()
    log.rename(f"{log}.1")
    log.write_text(lines(5, "Next"))
    assert 105 == node.counted()
    assert not daemon.reload(node.config(without))
    assert node.counted() is None
    node.kill()
    daemon = node.start(without)
    assert not daemon.reload(node.config(with_it))
    assert 105 == node.counted()


def test_a_path_is_not_left_within_a_line(node: Node) -> None:
    """Its end would become a line of its own when it is taken in again."""
    (node.folder / "a.log").write_text(BOOT)
    (node.folder / "b.log").write_text(lines(2)[:-20])
    both, one = ("sources: [{name: engine, paths: [a.log, b.log]}]", "sources: [{name: engine, paths: [a.log]}]")
    daemon = node.start(both)
    assert 4 == node.counted()
    assert not daemon.reload(node.config(one))
    append(node.folder / "b.log", lines(2)[-20:])
    assert not daemon.reload(node.config(both))
    assert 5 == node.counted()
    assert 0 == node.scrape()["engine", "log_lines_total", ("unknown",)]


def test_a_file_that_comes_back_after_long_goes_on(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was let go, and what it gave stays counted; a source that has no file left is dropped."""
    monkeypatch.setattr(followed, "FORGET_SECONDS", 0.0)
    a, b = node.folder / "a.log", node.folder / "b.log"
    a.write_text(BOOT)
    b.write_text(lines(20))
    daemon = node.start(GLOB)
    assert 23 == node.counted()
    b.rename(node.folder / "away")
    daemon._discover()
    assert 23 == node.counted()
    assert len(daemon.sources["engine"].followers) == 1
    (node.folder / "away").rename(b)
    append(b, lines(2, "Next"))
    daemon._discover()
    assert 25 == node.counted()
    for log in (a, b):
        log.unlink()
    for _ in range(2):
        node.scrape()
        daemon._discover()
    assert daemon.sources == {}


def test_a_label_changes_while_the_log_is_between_two_names(node: Node) -> None:
    """It is the same source still."""
    log = node.folder / "engine.log"
    log.write_text(BOOT + lines(97))
    daemon = node.start(GLOB)
    assert 100 == node.counted()
    log.rename(node.folder / "engine.log.1")
    assert not daemon.reload(node.config("sources: [{name: engine, paths: ['*.log'], labels: {pd_group: g}}]"))
    log.write_text(lines(5, "Next"))
    daemon._discover()
    assert 105 == node.counted()


def test_a_path_that_a_reload_adds_begins_where_the_configuration_says(node: Node) -> None:
    """Its history is not wanted; a file that comes later is all new."""
    (node.folder / "a.log").write_text(BOOT)
    (node.folder / "b.log").write_text(lines(50))
    daemon = node.start("sources: [{name: engine, paths: [a.log], start_at: end}]")
    node.scrape()
    assert not daemon.reload(node.config("sources: [{name: engine, paths: [a.log, b.log, '*.out'], start_at: end}]"))
    node.scrape()
    append(node.folder / "b.log", lines(2, "Next"))
    assert 2 == node.counted()
    (node.folder / "c.out").write_text(lines(3))
    daemon._discover()
    assert 5 == node.counted()


def test_reloads_and_discovery_do_not_disturb_each_other(node: Node) -> None:
    """The reader goes through the sources while they are replaced, and never follows what the old configuration named."""
    for number in range(60):
        (node.folder / f"{number}.log").write_text(BOOT)
    texts = ["sources: [" + ", ".join(f"{{path: {number}.log}}" for number in range(count)) + "]" for count in (60, 20)]
    daemon = node.start(texts[0])
    configs = [node.config(text) for text in texts]
    ended = threading.Event()
    faults: list[Exception] = []

    def read() -> None:
        while not ended.is_set():
            try:
                daemon._read_all()
                daemon._discover()
                daemon._pause()
            except Exception as error:  # noqa: BLE001 - it is what the test looks for
                faults.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(20):
        assert not daemon.reload(configs[number % 2])
        assert len(daemon.sources) == (60, 20)[number % 2]
    ended.set()
    reader.join()
    assert faults == []
    assert {3.0} == {value for (_, family, labels), value in node.scrape().items() if (family, labels) == ("log_lines_total", ("INFO",))}


# -- times -------------------------------------------------------------------------------------------------------------


def test_what_was_written_while_it_was_away_is_not_taken_for_new(node: Node) -> None:
    """Three hours and ten minutes are no time zone, and a gauge from then is not true now."""
    then = time.time() - 3 * 3600 - 600
    at = [time.strftime("%H:%M:%S", time.gmtime(then + seconds)) for seconds in (0, 1)]
    day = time.strftime("%m-%d", time.gmtime(then))
    log = node.folder / "engine.log"
    log.write_text("".join(f"{each.replace('07-14', day)}\n" for each in (logo(at=at[0]), core(at=at[0]), READY)))
    os.utime(log, (then, then))
    config = "sources: [{name: engine, path: engine.log, timezone: null}]"
    node.start(config)
    before = node.scrape()["engine", "engine_start_timestamp_seconds", ()]
    assert before == pytest.approx(then, abs=2)
    node.kill()
    append(log, f"{stats(at[1], running=9).replace('07-14', day)}\n")
    os.utime(log, (then + 1, then + 1))
    node.start(config)
    after = node.scrape()
    assert before == after["engine", "engine_start_timestamp_seconds", ()]
    assert not [key for key in after if key[1] == "requests_running"]


def test_what_waits_for_another_file_keeps_its_own_time(node: Node) -> None:
    """A gauge of now is true though the other file is empty, missing or old; one of an old file is not, though the other is new."""
    now = time.time()
    day, at = time.strftime("%m-%d", time.gmtime(now)), time.strftime("%H:%M:%S", time.gmtime(now))
    boot = "".join(f"{each.replace('07-14', day)}\n" for each in (logo(at=at), core(at=at), READY, stats(at, running=9)))
    config = "sources: [{name: engine, paths: [out.log, err.log]}]"
    out, err = node.folder / "out.log", node.folder / "err.log"
    key = ("engine", "requests_running", ("0",))
    for text, age in ((None, 0.0), ("", 0.0), (lines(2), 7200.0)):
        out.write_text(boot)
        if text is not None:
            err.write_text(text)
            os.utime(err, (now - age, now - age))
        node.start(config)
        assert 9 == node.scrape()[key]
        node.kill()
        (node.folder / "state.json").unlink()
    os.utime(out, (now - 7200, now - 7200))
    err.write_text(lines(2))
    node.start(config)
    assert key not in node.scrape()


# -- scrapes and saves -------------------------------------------------------------------------------------------------


def test_scrapes_during_a_backlog_of_several_files_change_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read and waits for another file is in the state, as it is: also over kills."""
    monkeypatch.setattr("exporter.daemon.SCRAPE_READ_BYTES", 100_000)
    filler = lines(4000)
    tuned = "Triton autotuning for function fused_moe_kernel finished after 1.24s; best config selected: BLOCK_M: 16;"
    (node.folder / "a.log").write_text(f"{logo()}\n{core()}\n{filler}{line(tuned, at='03:15:30')}\n")
    (node.folder / "b.log").write_text(f"{READY}\n{line('served', at='03:20:00')}\n")
    config = "sources: [{name: engine, paths: [a.log, b.log]}]"
    daemon = node.start(config)
    while daemon._read_all():
        pass
    daemon._read_all()
    at_once = node.scrape()
    node.kill()
    (node.folder / "state.json").unlink()

    node.start(config)
    for _ in range(12):
        node.scrape()
        node.kill()
        node.start(config)
    in_pieces = node.scrape()
    assert at_once == in_pieces


def test_a_fault_is_in_the_state_when_it_was_shown(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else this counter falls with the next kill."""

    def broken(*_: object) -> None:
        raise ValueError

    (node.folder / "engine.log").write_text(BOOT)
    config = "sources: [{path: engine.log}]"
    daemon = node.start(config)
    node.scrape()
    monkeypatch.setattr(daemon.sources["engine"].source.engine, "samples", broken)
    assert 1 == node.scrape()["engine", "source_faults_total", ()]
    node.kill()
    node.start(config)
    assert 1 == node.scrape()["engine", "source_faults_total", ()]


def test_no_series_is_shown_before_it_is_known_whose_it_is(node: Node) -> None:
    """A label that changes takes a counter away; a log that never tells is shown in the end."""
    log = node.folder / "engine.log"
    answers = 'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    log.write_text(answers * 5)
    daemon = node.start("sources: [{path: engine.log}]")
    assert not [key for key in node.scrape() if not key[1].startswith(("source_", "series_"))]
    append(log, BOOT)
    assert 5 == node.scrape()["engine", "http_responses_total", ("2xx",)]

    (node.folder / "other.log").write_text("words of nobody\n" * 2000)
    assert not daemon.reload(node.config("sources: [{path: engine.log}, {path: other.log}]"))
    assert 2000 == node.scrape()["other", "log_lines_total", ("unknown",)]


def test_an_ending_daemon_shows_nothing(node: Node) -> None:
    """Half a snapshot would look like counters that vanished."""
    (node.folder / "engine.log").write_text(BOOT)
    daemon = node.start("sources: [{path: engine.log}]")
    node.scrape()
    daemon.begin_to_stop()
    with pytest.raises(StoppingError):
        daemon.snapshot()
    assert not daemon.ready


def test_a_daemon_with_much_to_read_ends_in_time(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two sources, not only between two rounds over all."""
    monkeypatch.setattr("exporter.daemon.STOP_SECONDS", 0.0)
    for number in range(3):
        (node.folder / f"{number}.log").write_text(BOOT)
    daemon = node.start("sources: [{path: 0.log}, {path: 1.log}, {path: 2.log}]")
    daemon.begin_to_stop()
    assert not daemon._read_all()
    assert not any(each.live for each in daemon.sources.values())


def test_a_failing_discovery_does_not_stop_the_reader(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again after its interval, is counted, and what is known is read."""

    def broken(*_: object) -> None:
        raise ValueError

    (node.folder / "engine.log").write_text(BOOT)
    daemon = node.start("sources: [{path: engine.log}]")
    daemon._discovered_at -= 3600
    monkeypatch.setattr("exporter.daemon.discover", broken)
    monkeypatch.setattr("exporter.daemon.FAULT_PAUSE_SECONDS", 0.01)
    daemon.start()
    try:
        assert daemon._history_read.wait(5)
        assert 3 == node.counted()
        exported = {each.family: each.value for each in daemon.snapshot().exporter}
        assert 1 == exported["exporter_faults_total"]
    finally:
        daemon.stop()


def test_a_deleted_state_file_is_written_again(node: Node) -> None:
    """Though nothing was counted since."""
    (node.folder / "engine.log").write_text(BOOT)
    node.start("sources: [{path: engine.log}]")
    node.scrape()
    (node.folder / "state.json").unlink()
    node.scrape()
    node.kill()
    node.start("sources: [{path: engine.log}]")
    assert 3 == node.counted()


def test_a_fault_ends_no_thread(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on with the next look, and says that it is healthy only while it does."""
    monkeypatch.setattr("exporter.daemon.FAULT_PAUSE_SECONDS", 0.01)
    log = node.folder / "engine.log"
    log.write_text(BOOT)
    daemon = node.start("sources: [{path: engine.log}]")
    broken: list[Callable[[], bool]] = [daemon._read_all]
    looked = threading.Event()

    def once() -> bool:
        if broken:
            monkeypatch.setattr(daemon, "_read_all", broken.pop())
            looked.set()
            raise ValueError
        return False

    monkeypatch.setattr(daemon, "_read_all", once)
    daemon.start()
    try:
        assert looked.wait(5)
        assert daemon._history_read.wait(5)
        assert daemon.healthy
        assert 3 == node.counted()
    finally:
        daemon.stop()
