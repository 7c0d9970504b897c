"""What an engine's logging configuration needs to write one file from all its processes: handed to Python's `logging.config`.

A RotatingFileHandler in each of several processes renames the file away from under the others. Here one of them rotates under
a lock, and the others notice that the name is another file. Nothing is raised into the engine, and nothing printed.
"""

import contextlib
import fcntl
import itertools
import logging
import logging.handlers
import os
from io import TextIOWrapper


class SharedRotatingFileHandler(logging.handlers.WatchedFileHandler):
    """A file, and at most `keep` older ones of about `max_mib` each, for any number of processes."""

    def __init__(self, filename: str, max_mib: float = 32, keep: int = 2) -> None:
        super().__init__(filename, encoding="utf-8", delay=True)
        self._size, self._keep = int(max_mib * (1 << 20)), keep

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, and rotate when the file is full."""
        with contextlib.suppress(OSError):
            super().emit(record)
            if self.stream and os.fstat(self.stream.fileno()).st_size >= self._size:
                self._rotate()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Say nothing: a full disk would be a traceback for each record."""

    def _open(self) -> TextIOWrapper:
        stream = super()._open()
        with contextlib.suppress(OSError):
            os.fchmod(stream.fileno(), 0o644)  # whatever the engine's umask is: inferlog is another user
        return stream

    def _rotate(self) -> None:
        with open(f"{self.baseFilename}.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Another process may have been first.
            if os.stat(self.baseFilename).st_size < self._size:
                return
            names = [self.baseFilename, *(f"{self.baseFilename}.{number}" for number in range(1, self._keep + 1))]
            for newer, older in reversed(list(itertools.pairwise(names))):
                with contextlib.suppress(OSError):
                    os.replace(newer, older)


class ProcessName(logging.Filter):
    """Gives records the name that vLLM prints for a process; before 0.33 only Python's own name of it is known here."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let everything pass."""
        record.process_name = getattr(record, "vllm_process_name", record.processName)
        return True
