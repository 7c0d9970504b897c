"""The whole exposition of real logs, kept beside them: a change in what is exported shows in review, line by line."""

import pytest

from exporter import saved
from exporter.exposition import exposition
from exporter.source import Source
from tests.conftest import DATA

YEAR = 2026
LOGS = sorted(
    path.relative_to(DATA).with_suffix("").as_posix() for kind in ("captured", "rendered") for path in DATA.glob(f"*/{kind}-*.log")
)
_OF_THE_BUILD = "inferlog_build_info{"


@pytest.mark.parametrize("name", LOGS)
def test_exposition_is_the_golden_one(name: str, pytestconfig: pytest.Config) -> None:
    """A saved log always gives the same exposition."""
    source = Source("golden", year=YEAR)
    for _ in saved.read(str(DATA / f"{name}.log"), source):
        pass
    lines = exposition(saved.snapshots(source)).splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(("#", _OF_THE_BUILD)))
    golden = DATA / f"{name}.prom"
    if pytestconfig.getoption("--update-goldens"):
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text
