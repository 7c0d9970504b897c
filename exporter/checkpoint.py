"""The state file: what every scrape has shown is in it, so that no restart can show less."""

import fcntl
import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

logger = logging.getLogger("inferlog.checkpoint")

SCHEMA = 1
"""Raised when a state of the version before can no longer be read."""

_DAMAGED = "damaged"


class StateInUseError(Exception):
    """Another process has the state file."""


class _UnusableError(Exception):
    """The file is there, but no state can be had from it."""


class StateFile:
    """One file, replaced as a whole. Where it cannot be written the daemon goes on, says so once, and counts it."""

    def __init__(self, path: Path) -> None:
        """Take the file for this process. Raises StateInUseError."""
        self.path = path
        self.saved_at: float | None = None
        """When it was last written (epoch); None before the first time."""
        self.failures = 0
        self._failing = False
        self._lock = self._take_lock()

    def _take_lock(self) -> int | None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            self._failed(error)
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise StateInUseError(f"{self.path}: another inferlog uses this state file") from None
        except OSError as error:  # a file system without locks
            logger.warning("%s: cannot be locked against a second inferlog: %s", self.path, error.strerror)
        return lock

    def load(self) -> dict[str, Any]:
        """The saved state of each source; nothing when there is no file, or when it had to be kept aside."""
        try:
            saved = _parse(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except _UnusableError as error:
            self.keep_aside(str(error))
            return {}
        except OSError as error:
            self.keep_aside(error.strerror or str(error))
            return {}
        self.saved_at = saved["saved_at"]
        self.failures += saved["failures"]
        sources: dict[str, Any] = saved["sources"]
        return sources

    def keep_aside(self, reason: str) -> None:
        """Move the file out of the way for whoever wants to know, and start afresh."""
        self.saved_at = None
        aside = self.path.with_name(f"{self.path.name}.unusable-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
        try:
            self.path.replace(aside)
            kept = f"kept as {aside.name}"
        except OSError as error:
            kept = f"it cannot be moved ({error.strerror})"
        logger.error("%s: %s; %s: counters start at 0", self.path, reason, kept)

    def save(self, sources: Mapping[str, str]) -> bool:
        """Replace the file by these states (JSON text by name of the source); False when that cannot be done now."""
        state = "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in sources.items()) + "}"
        now = time.time()
        head = f'"schema": {SCHEMA}, "saved_at": {now}, "failures": {self.failures}, "checksum": "{_checksum(state)}"'
        text = f'{{{head}, "sources": {state}}}\n'
        new = f"{self.path}.new"
        try:
            # Nobody else may read it, and a link in its place is not followed.
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "wb") as out:
                out.write(text.encode())
            Path(new).replace(self.path)
        except OSError as error:
            self._failed(error)
            return False
        if self._failing:
            logger.info("%s: is written again", self.path)
        self._failing, self.saved_at = False, now
        return True

    def sync(self) -> None:
        """Bring the file to the disk: a process that dies needs it not, a machine that does may. Not for the scrape path."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return  # nothing was saved
        try:
            os.fsync(file)
        except OSError as error:
            self._failed(error)
        finally:
            os.close(file)

    def close(self) -> None:
        """Let another process have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _failed(self, error: OSError) -> None:
        self.failures += 1
        if not self._failing:
            self._failing = True
            logger.error("%s: cannot be written (%s): what is counted now will be counted again after a restart", self.path, error.strerror)


def _parse(data: bytes) -> dict[str, Any]:
    """What the file has, when it is whole. Raises _UnusableError with the reason."""
    try:
        saved = json.loads(data)
        schema = saved["schema"]
        if schema > SCHEMA:
            raise _UnusableError(f"written by a newer inferlog (schema {schema}, this one knows {SCHEMA})")
        whole = saved["checksum"] == _checksum(json.dumps(saved["sources"])) and isinstance(saved["sources"], dict)
        saved["saved_at"], saved["failures"] = float(saved["saved_at"]), int(saved["failures"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _UnusableError(_DAMAGED) from None
    if schema != SCHEMA or not whole:
        raise _UnusableError(_DAMAGED)
    return dict(saved)


def _checksum(state: str) -> str:
    return hashlib.blake2b(state.encode(), digest_size=16).hexdigest()
