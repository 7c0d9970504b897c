"""A witness that looks again and again, in a thread of its own."""

import threading
from collections.abc import Callable


class Periodic:
    """Looks every few seconds, or soon after `wake`; a fault of ours must not end it."""

    def __init__(
        self,
        look: Callable[[], None],
        fault: Callable[[Exception], None],
        *,
        seconds: float,
        least: float = 0.0,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """`least` is how long at least lies between two looks, however often it is woken; `close` is called by its thread at the end."""
        self._look, self._fault, self._close = look, fault, close
        self._seconds, self._least = seconds, least
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Look soon; from any thread."""
        self._woken.set()

    def stop(self) -> None:
        """End soon. It is not waited for: it may hang in somebody else's server."""
        self._stopping.set()
        self._woken.set()

    def join(self, seconds: float) -> None:
        """Wait a moment for its end."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._safely(self._look)
            self._stopping.wait(self._least)
            self._woken.wait(max(0.0, self._seconds - self._least))
            self._woken.clear()
        self._safely(self._close)

    def _safely(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - whatever it is, this witness goes on
            self._fault(error)
