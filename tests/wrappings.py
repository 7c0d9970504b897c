"""What container runtimes, viewers and Ray put around the lines of a log."""

import json
import re
from collections.abc import Callable, Iterator

Wrap = Callable[[str, str], Iterator[str]]
"""The physical lines for a line without its line break, at a time (RFC 3339)."""

_TIME = re.compile(r"(?:(\d{4})-)?(\d\d)-(\d\d)[ T](\d\d:\d\d:\d\d)")


def cri(line: str, time: str) -> Iterator[str]:
    """As containerd and CRI-O keep it."""
    yield f"{time} stdout F {line}\n"


def cri_in_parts(line: str, time: str) -> Iterator[str]:
    """A long line in parts, with a whole line of the other output between them that means nothing."""
    parts = [line[start : start + 100] for start in range(0, len(line), 100)] or [""]
    for part in parts[:-1]:
        yield f"{time} stdout P {part}\n"
    yield f"{time} stdout F {parts[-1]}\n"


def docker(line: str, time: str) -> Iterator[str]:
    """As Docker's json-file driver keeps it."""
    yield json.dumps({"log": f"{line}\n", "stream": "stdout", "time": time}, separators=(",", ":")) + "\n"


def docker_in_parts(line: str, time: str) -> Iterator[str]:
    """A long line in parts."""
    text = f"{line}\n"
    for start in range(0, len(text), 100):
        yield json.dumps({"log": text[start : start + 100], "stream": "stderr", "time": time}, separators=(",", ":")) + "\n"


def timestamps(line: str, time: str) -> Iterator[str]:
    """`kubectl logs --timestamps`."""
    yield f"{time} {line}\n"


def compose(line: str, time: str) -> Iterator[str]:
    """`docker compose logs`, coloured as on a terminal."""
    yield f"\x1b[36mengine-1  | \x1b[0m{line}\n"


def compose_with_times(line: str, time: str) -> Iterator[str]:
    """`docker compose logs --timestamps`."""
    yield f"engine-1  | {time} {line}\n"


def stern(line: str, time: str) -> Iterator[str]:
    """stern's default format."""
    yield f"decode-7d9c4-x2x engine {line}\n"


def kubectl(line: str, time: str) -> Iterator[str]:
    """`kubectl logs --prefix`."""
    yield f"[pod/decode-7d9c4-x2x/engine] {line}\n"


def coloured(line: str, time: str) -> Iterator[str]:
    """Colour codes around the first word and at the end, as a formatter in colour prints them."""
    text = line.rstrip("\r")
    first, space, rest = text.partition(" ")
    yield f"\x1b[1;36m{first}\x1b[0;0m{space}{rest}\x1b[0m{line[len(text) :]}\n" if first else f"{line}\n"


def broken_colour(line: str, time: str) -> Iterator[str]:
    """The same where a collector dropped the escape byte."""
    yield from (each.replace("\x1b", "") for each in coloured(line, time))


def ray(line: str, time: str) -> Iterator[str]:
    """As Ray's driver prints what a worker on another node said, without the carriage returns at its end."""
    text = line.rstrip("\r")
    yield f"\x1b[36m(RayWorkerWrapper pid=27972, ip=10.0.0.2)\x1b[0m {text}\n"


WRAPS: dict[str, Wrap] = {
    each.__name__: each
    for each in (
        cri, cri_in_parts, docker, docker_in_parts, timestamps, compose, compose_with_times, stern, kubectl, coloured, broken_colour, ray,
    )
}  # fmt: skip


def wrapped(data: bytes, wrap: Wrap, year: int) -> Iterator[bytes]:
    """A log in a wrapping, whose times follow the log's own."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    last = lines.pop()
    time = next((found for line in lines if (found := _TIME.search(line))), None)
    for line in lines if not last else [*lines, last]:
        time = _TIME.search(line[:100]) or time
        stamp = f"{time[1] or year}-{time[2]}-{time[3]}T{time[4]}.000000000Z" if time else f"{year}-07-14T03:12:07.000000000Z"
        for each in wrap(line, stamp):
            yield each.encode("utf-8", "surrogateescape")
