"""The report as a page, in a real browser."""

import itertools
import re
from pathlib import Path

import pytest

from exporter.analysis.analyze import analyze
from exporter.analysis.html import page
from exporter.analysis.inputs import saved_logs
from tests.analysis.browser import Page
from tests.conftest import DATA

_BOXES = """[...document.querySelectorAll('svg text, figcaption span, figcaption b')].map(each => {
    const box = each.getBoundingClientRect();
    const of = each.closest('figure');
    return [[...document.querySelectorAll('figure')].indexOf(of), each.textContent, box.left, box.top, box.right, box.bottom];
})"""
_SLACK = 1.0


def report(tmp_path: Path, *names: str) -> Path:
    """The page about saved logs."""
    written = tmp_path / "report.html"
    written.write_text(page(analyze(saved_logs([str(DATA / name) for name in names]))), encoding="utf-8")
    return written


def overlaps(boxes: list[list]) -> list[tuple[str, str]]:
    """Texts of one figure that lie over each other."""
    found = []
    for (figure, text, left, top, right, bottom), (figure2, text2, left2, top2, right2, bottom2) in itertools.combinations(boxes, 2):
        apart = right - _SLACK <= left2 or right2 - _SLACK <= left or bottom - _SLACK <= top2 or bottom2 - _SLACK <= top
        if figure == figure2 and not apart:
            found.append((text, text2))
    return found


def test_texts_that_lie_over_each_other_are_found() -> None:
    """Else the test below could not fail."""
    assert overlaps([[0, "a", 0, 0, 50, 12], [0, "b", 40, 6, 90, 18], [0, "c", 60, 30, 90, 40], [1, "d", 0, 0, 50, 12]]) == [("a", "b")]


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1100, 400])
def test_the_incident_is_readable(chromium: Page, tmp_path: Path, width: int, dark: bool) -> None:
    """Of the captured pair: nothing overlaps, nothing is cut off, and nothing is asked for from elsewhere."""
    logs = ("vllm-0.32/captured-pd-decode.log", "vllm-0.26/captured-pd-prefill-tp2.log")
    chromium.open(f"file://{report(tmp_path, *logs)}", width=width, dark=dark)
    chromium.shot(tmp_path / "report.png")
    assert chromium.value("document.querySelector('article h3').textContent").startswith("critical")
    assert chromium.value("document.querySelectorAll('svg path').length") > 3
    boxes = chromium.value(_BOXES)
    assert {"transport_failing", "P/D verdict", "prompt", "generation"} <= {text for _, text, *_ in boxes}
    assert overlaps(boxes) == []
    assert all(left >= 0 and bottom - top >= 11 for _, _, left, top, _, bottom in boxes)
    assert width < 1000 or all(right <= width for _, _, _, _, right, _ in boxes)
    assert chromium.value("document.documentElement.scrollWidth") <= width
    assert chromium.complaints == []


def test_the_page_stands_alone(tmp_path: Path) -> None:
    """No address of anything, and no script."""
    text = report(tmp_path, "vllm-0.32/captured-pd-decode.log").read_text()
    assert not re.findall(r"<script|https?://|src=|<link|url\(|@import", text)


def test_what_a_log_says_is_text(tmp_path: Path) -> None:
    """A model's name may look like a tag, and so may a file's."""
    log = tmp_path / "<b>bold<b>.log"
    log.write_bytes((DATA / "vllm-0.32/captured-pd-decode.log").read_bytes().replace(b"tiny", b"<img/src=x>"))
    text = page(analyze(saved_logs([str(log)])))
    assert "<b>bold" not in text
    assert "<img" not in text


def test_a_log_that_tells_nothing_makes_a_page(tmp_path: Path) -> None:
    """Without drawings."""
    log = tmp_path / "empty.log"
    log.write_text("")
    text = page(analyze(saved_logs([str(log)])))
    assert "None." in text
    assert "<svg" not in text
