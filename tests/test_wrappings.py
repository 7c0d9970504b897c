"""Whatever is put around the lines of a log, it tells the same."""

import re

import pytest

from exporter import saved
from exporter.exposition import exposition
from exporter.source import Source
from tests.conftest import DATA
from tests.test_goldens import LOGS, YEAR
from tests.wrappings import WRAPS, Wrap, ray, wrapped

BARE_LOGS = [name for name in LOGS if not re.search(r"cri|docker|json", name)]
GATEWAYS = ("aibrix", "sglang_router")  # which are no workers of Ray
PAIRS = [(name, wrap) for name in BARE_LOGS for wrap in WRAPS.values() if wrap is not ray or not name.startswith(GATEWAYS)]
_TIMES = re.compile(r"inferlog_\w+_timestamp_seconds\{")


def told(source: Source) -> list[str]:
    """All that a source shows but the build's own series."""
    lines = exposition(saved.snapshots(source)).splitlines()
    return [line for line in lines if not line.startswith(("#", "inferlog_build_info{"))]


@pytest.mark.parametrize(("name", "wrap"), PAIRS, ids=[f"{name}-{wrap.__name__}" for name, wrap in PAIRS])
def test_a_wrapped_log_tells_the_same(name: str, wrap: Wrap) -> None:
    """Its wrapping is found by itself, from the first line on."""
    data = (DATA / f"{name}.log").read_bytes()
    bare, other = Source("golden", year=YEAR), Source("golden", year=YEAR)
    bare.feed(data)
    for line in wrapped(data, wrap, YEAR):
        other.feed(line)
    for each in (bare, other):
        each.end_of_file()

    # A runtime gives a time also to what has none.
    times = {line.split()[0] for line in told(bare) if _TIMES.match(line)}
    assert told(bare) == [line for line in told(other) if not _TIMES.match(line) or line.split()[0] in times]
