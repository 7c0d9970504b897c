"""Events as JSON lines, without anything that a user may have written."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

from exporter.clock import EventClock
from exporter.source import Source
from exporter.source_names import STDIN
from exporter.tail import Follower, StdinFollower, auto
from parsers.events import PRIVATE_FIELDS
from parsers.matching import Found

_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")
_POLL_SECONDS = 0.25


def event_line(source: str, found: Found, clock: EventClock) -> str:
    """One event with its source, time (epoch) and process; None where a number is not one."""
    event, head = found
    fields = {key: _plain(value) for key, value in event._asdict().items() if key not in PRIVATE_FIELDS}
    line = {
        "source": source,
        "time": clock.epoch(head),
        "event": _WORD_START.sub("_", type(event).__name__).lower(),
        "process": head.origin.process,
        **({"container": head.container} if head.container else {}),
        **fields,
    }
    return json.dumps(line)


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, tuple):
        named = getattr(value, "_asdict", None)
        return {key: _plain(each) for key, each in named().items()} if named else [_plain(each) for each in value]
    return value


def followed(path: str, source: Source) -> Iterator[list[Found]]:
    """The events of a log that grows: for ever, or until standard input ends."""
    follower: Follower | StdinFollower = StdinFollower() if path == STDIN else Follower(Path(path))
    watcher = auto([] if path == STDIN else [Path(path)])
    try:
        while not (isinstance(follower, StdinFollower) and follower.eof):
            chunk = follower.read()
            if chunk.begins_file:
                yield source.end_of_file()
            if chunk.data:
                yield source.feed(chunk.data)
            else:
                watcher.wait(_POLL_SECONDS)
        yield source.end_of_file()
    finally:
        watcher.stop()
        follower.close()
