"""The files of Ray's workers, whose names tell whose lines they hold; the lines themselves do not."""

import re
from dataclasses import replace
from zlib import crc32

from parsers.header import Origin
from parsers.matching import Found

# worker-<worker>-<job>-<pid>.out, the .err beside it, and what rotation leaves of both.
_WORKER = re.compile(r"(?:.*/)?(worker-[0-9a-f]{28,64}-[0-9a-f]{8}-\d{1,10})\.(?:out|err)(?:\.\d{1,4})?", re.ASCII | re.DOTALL)


def origin_of(file: str) -> Origin | None:
    """The process that writes the file, one for its stdout and stderr; None where the name does not tell.

    Its pid alone may be another node's, too.
    """
    found = _WORKER.fullmatch(file)
    return Origin("", f" worker={crc32(found[1].encode()):08x}") if found else None


def told_by(origin: Origin | None, found: list[Found]) -> list[Found]:
    """Events whose lines name no process, as those of the file's; the heads may be shared with lines to come."""
    if origin is None:
        return found
    return [(event, head if head.origin.who else replace(head, origin=origin)) for event, head in found]
