"""A witness that looks again and again, in a thread of its own."""

import threading
from collections.abc import Callable

JOIN_SECONDS = 1.0
"""A thread that hangs in somebody else's server ends with the process."""


class Periodic:
    """Looks every few seconds, or soon after `wake`; a fault of ours must not end it."""

    def __init__(
        self, name: str, look: Callable[[], None], fault: Callable[[Exception], None], *, seconds: float, least: float = 0.0
    ) -> None:
        """`least` is how long at least lies between two looks, however often it is woken."""
        self._look, self._fault = look, fault
        self._seconds, self._least = seconds, least
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Look soon; from any thread."""
        self._woken.set()

    def stop(self) -> None:
        """End, without waiting long for somebody who does not answer."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - whatever it is, this witness goes on
                self._fault(error)
            self._stopping.wait(self._least)
            self._woken.wait(max(0.0, self._seconds - self._least))
            self._woken.clear()
