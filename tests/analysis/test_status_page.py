"""The status page in a real browser, while a daemon follows a captured incident."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.analysis.browser import Page
from tests.conftest import DATA
from tests.exporter.conftest import Running, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

INCIDENT = (DATA / "vllm-0.32/captured-pd-decode-prefill-killed.log").read_bytes()
DIED = INCIDENT.rindex(b"\n", 0, INCIDENT.index(b"transfer_exception")) + 1
"""Where the lines about the death of prefill begin."""

_TEXTS = """[...document.querySelectorAll('svg text')].map(each => {
    const box = each.getBoundingClientRect();
    return [each.textContent, box.left, box.top, box.right, box.bottom];
})"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Healthy so far."""
    path = tmp_path / "decode-0.log"
    path.write_bytes(INCIDENT[:DIED])
    return path


@pytest.fixture
def daemon(log: Path, tmp_path: Path) -> Iterator[Running]:
    """Follows the log."""
    started = Running(tmp_path, free_port(), "--log", str(log))
    yield started.wait_ready()
    started.end()


def test_the_verdict_changes_without_a_reload(chromium: Page, daemon: Running, log: Path, tmp_path: Path) -> None:
    """And what the reader has opened, marked or focused stays."""
    chromium.open(f"http://127.0.0.1:{daemon.port}/")
    assert "P/D proven" in chromium.value("document.getElementById('summary').textContent")
    chromium.value("window.mark = 'the same page'; document.querySelector('nav a').focus(); window.heading = document.querySelector('h1')")

    with log.open("ab", buffering=0) as out:
        for each in INCIDENT[DIED:].splitlines(keepends=True):
            out.write(each)

    chromium.until("document.getElementById('summary').textContent.includes('transport_failing')")
    chromium.until("document.querySelector('main').textContent.includes('verdict transport_failing')")
    assert chromium.value("window.mark") == "the same page"
    assert chromium.value("document.activeElement === document.querySelector('nav a') && window.heading === document.querySelector('h1')")
    assert chromium.value("document.getElementById('stale').hidden")
    assert chromium.value("document.querySelectorAll('svg circle.bad').length") > 0
    chromium.shot(tmp_path / "status.png")
    assert chromium.complaints == []


def test_a_reader_with_a_keyboard_or_a_screen_reader(chromium: Page, daemon: Running) -> None:
    """Landmarks, headings in order, headers of rows, a name for each drawing, and a live region that says only what matters."""
    chromium.open(f"http://127.0.0.1:{daemon.port}/", width=400)
    assert chromium.value("document.querySelectorAll('header, nav[aria-label], main').length") == 3
    levels = chromium.value("[...document.querySelectorAll('h1, h2, h3')].map(each => Number(each.tagName[1]))")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert chromium.value("[...document.querySelectorAll('th')].every(each => each.scope === 'row')")
    assert chromium.value(
        "[...document.querySelectorAll('svg')].every(each => each.getAttribute('role') === 'img' && each.getAttribute('aria-label'))"
    )
    assert chromium.value("[...document.querySelectorAll('[role=status]')].map(each => each.textContent.trim())") == [
        "decode-0: serving, P/D proven"
    ]
    assert chromium.value("document.documentElement.scrollWidth") <= 400
    assert chromium.value("[...document.querySelectorAll('a, button, input')].every(each => each.tabIndex === 0)")


def test_labels_of_the_drawing_do_not_overlap(chromium: Page, daemon: Running) -> None:
    """On a screen of usual width."""
    chromium.open(f"http://127.0.0.1:{daemon.port}/")
    texts = chromium.value(_TEXTS)
    assert {"life", "KV transfer", "verdict"} <= {text for text, *_ in texts}
    for index, (text, left, top, right, bottom) in enumerate(texts):
        for other, left2, top2, right2, bottom2 in texts[index + 1 :]:
            assert right <= left2 + 1 or right2 <= left + 1 or bottom <= top2 + 1 or bottom2 <= top + 1, (text, other)


def test_a_daemon_that_is_gone_is_said(chromium: Page, daemon: Running) -> None:
    """Instead of an old page that looks new."""
    chromium.open(f"http://127.0.0.1:{daemon.port}/")
    daemon.kill()
    chromium.until("!document.getElementById('stale').hidden")
