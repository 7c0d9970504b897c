"""Several files in the order of their time; an event is (time, file, number)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.merge import PATIENCE, WINDOW_SECONDS, Merge

Event: TypeAlias = tuple[float | None, str, int]
Chunks: TypeAlias = Mapping[str, list[list[float | None]]]


def merging(*files: str) -> Merge[Event]:
    return Merge(lambda event: event[0], files)


def events(chunks: Chunks) -> dict[str, list[list[Event]]]:
    """Chunks of times as events that can be told apart."""
    numbers = Counter[str]()

    def numbered(file: str, times: list[float | None]) -> Iterator[Event]:
        for time in times:
            numbers[file] += 1
            yield time, file, numbers[file]

    return {file: [list(numbered(file, times)) for times in of_file] for file, of_file in chunks.items()}


def rest(merge: Merge[Event]) -> list[Event]:
    """What is still held when there is nothing more to wait for."""
    merge.follow([])
    return merge.release()


def read_in_step(chunks: Chunks) -> list[Event]:
    """Read files as the daemon does, always the one that is named next, to their ends; at most one chunk of each is held."""
    merge, unread, out = merging(*chunks), events(chunks), []
    last: dict[str, list[Event]] = {}
    while (file := merge.next()) is not None:
        last[file] = unread[file].pop(0) if unread[file] else []
        out += merge.put(file, last[file], behind=bool(unread[file]))
        for name, each in merge._files.items():
            assert {event for _, event in each.held} <= set(last.get(name, []))
    assert rest(merge) == []
    return out


times = st.floats(0, 100).map(lambda time: round(time, 1))
any_chunks = st.dictionaries(st.sampled_from("abcd"), st.lists(st.lists(st.none() | times, max_size=4), max_size=6), min_size=1)
times_in_order = st.lists(times, max_size=20).map(sorted)


@st.composite
def chunks_in_order(draw: st.DrawFn, *, strictly: bool) -> Chunks:
    """Files whose times do not fall; `strictly`: each chunk ends later than the one before it."""
    chunks: dict[str, list[list[float | None]]] = {}
    for file in draw(st.sets(st.sampled_from("abcd"), min_size=1)):
        of_file: list[list[float]] = [[]]
        for time in draw(times_in_order):
            of_file[-1].append(time)
            if draw(st.booleans()):
                of_file.append([])
        of_file = [chunk for chunk in of_file if chunk]
        ends = [-1.0, *(chunk[-1] for chunk in of_file)]
        chunks[file] = [list(chunk) for chunk, end in zip(of_file, ends, strict=False) if not strictly or chunk[-1] > end]
    return chunks


@given(any_chunks)
def test_nothing_is_lost_doubled_or_reordered_within_a_file(chunks: Chunks) -> None:
    """Whatever the times are, also none at all."""
    merged = read_in_step(chunks)
    for file, of_file in events(chunks).items():
        assert [event for event in merged if event[1] == file] == [event for chunk in of_file for event in chunk]
    assert {event[1] for event in merged} <= chunks.keys()


@given(chunks_in_order(strictly=True))
def test_a_backlog_comes_in_the_order_of_time(chunks: Chunks) -> None:
    """Files whose clocks run are merged exactly."""
    out = [event[0] for event in read_in_step(chunks)]
    assert out == sorted(out)  # type: ignore[type-var]


@given(chunks_in_order(strictly=False))
def test_disorder_is_within_the_window(chunks: Chunks) -> None:
    """Where several chunks end in the same moment, nothing comes after what is more than 2 s later."""
    latest = 0.0
    for time, _, _ in read_in_step(chunks):
        assert time is not None
        assert time >= latest - WINDOW_SECONDS
        latest = max(latest, time)


@given(any_chunks, st.lists(st.sampled_from(["next", "restart", "drop", "a", "b", "c", "d"]), max_size=40))
def test_any_use_loses_nothing(chunks: Chunks, moves: list[str]) -> None:
    """Files are read out of turn and go, and the state goes into another process in between."""
    merge, unread, out = merging(*chunks), events(chunks), []
    put: list[Event] = []
    names = set(chunks)
    for move in moves:
        file = merge.next() if move == "next" else move
        if move == "restart":
            standing, merge = merge.standing, merging()
            merge.standing = standing
            merge.follow(names)
        elif move == "drop" and names:
            names.remove(min(names))
            merge.follow(names)
        elif file in names:
            chunk = unread[file].pop(0) if unread[file] else []
            put += chunk
            out += merge.put(file, chunk, behind=bool(unread[file]))
    out += rest(merge)
    assert sorted(map(str, out)) == sorted(map(str, put))
    assert all([each for each in out if each[1] == file] == [each for each in put if each[1] == file] for file in chunks)


def test_live_events_pass_at_once() -> None:
    """Files that are read to their ends hold nothing, whatever their times."""
    merge = merging("a", "b")
    assert merge.put("a", [(5.0, "a", 1)], behind=False) == []  # nobody has looked at b
    assert merge.put("b", [], behind=False) == [(5.0, "a", 1)]
    assert merge.next() is None
    for number, time in enumerate([9.0, 3.0, None]):
        assert merge.put("ab"[number % 2], [(time, "", number)], behind=False) == [(time, "", number)]


def test_one_file_passes_without_a_look() -> None:
    """The list itself comes back and no time is read, however far behind the file is."""

    def time_of(event: Event) -> float:
        raise AssertionError(event)

    merge = Merge(time_of, ["a"])
    chunk: list[Event] = [(1.0, "a", 1)]
    assert merge.put("a", chunk, behind=True) is chunk
    assert merge.next() == "a"


def test_what_is_read_counts_not_what_happened() -> None:
    """A file without events has come as far as its last line."""
    merge = merging("a", "b")
    merge.put("a", [], behind=True, reached=50.0)
    assert merge.put("b", [(49.0, "b", 1), (51.0, "b", 2)], behind=False) == [(49.0, "b", 1)]
    assert merge.put("a", [], behind=True, reached=51.0) == [(51.0, "b", 2)]


@pytest.mark.parametrize("first", [[], [(10.0, "a", 0)]])
def test_a_file_whose_time_stands_still_starves_nobody(first: list[Event]) -> None:
    """It is read a while longer when it showed a time once, then the others come along."""
    merge = merging("a", "b")
    merge.put("a", first, behind=True)
    merge.put("b", [(1000.0, "b", 0)], behind=True)
    reads = 0
    while merge.next() == "a":
        merge.put("a", [], behind=True)
        reads += 1
        assert reads < PATIENCE + 1000
    assert rest(merge) == []


def test_a_clock_that_was_ahead_for_a_moment_delays_nothing() -> None:
    """An event is no later than what follows it."""
    merge = merging("a", "b")
    merge.put("b", [(10.0, "b", 0)], behind=True)
    out = merge.put("a", [(9.0, "a", 0), (9999.0, "a", 1), (10.0, "a", 2)], behind=True)
    assert [number for _, file, number in out if file == "a"] == [0, 1, 2]
