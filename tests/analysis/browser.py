"""Chromium without a window, spoken to through pipes in its own protocol."""

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic", "--remote-debugging-pipe",
)  # fmt: skip
DEADLINE_SECONDS = 30.0


class Page:
    """One page."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = requests, answers
        self._rest, self._number, self._session = b"", 0, ""
        self.complaints: list[str] = []
        """Errors and warnings of the console, and what could not be loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """The answer to a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params} | ({"sessionId": self._session} if self._session else {})
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._answers, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        told = json.loads(message)
        self._note(told.get("method"), told.get("params", {}))
        return told

    def _note(self, method: str | None, params: Any) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))

    def open(self, address: str, *, width: int = 1100, height: int = 900, dark: bool = False) -> None:
        """Go there and wait until it is there."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """What an expression gives."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = DEADLINE_SECONDS) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < deadline, expression
            time.sleep(0.05)

    def shot(self, path: Path) -> None:
        """A picture of the whole page."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))


@contextmanager
def page(chromium: str, profile: Path) -> Iterator[Page]:
    """A browser with a new profile, for as long as it is needed."""
    requests_out, requests_in = os.pipe()
    answers_out, answers_in = os.pipe()
    # It reads commands from descriptor 3 and writes answers to 4.
    script = f'exec "$0" "$@" 3<&{requests_out} 4>&{answers_in}'
    browser = subprocess.Popen(
        ["bash", "-c", script, chromium, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(requests_out, answers_in), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(requests_out)
    os.close(answers_in)
    try:
        yield Page(requests_in, answers_out)
    finally:
        browser.terminate()
        browser.wait(20)
        os.close(requests_in)
        os.close(answers_out)
