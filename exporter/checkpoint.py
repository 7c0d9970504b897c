"""The state file: what every scrape has shown is in it, so that no restart can show less."""

import errno
import fcntl
import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

logger = logging.getLogger("inferlog.checkpoint")

SCHEMA = 2
"""Raised when a state of the version before can no longer be read."""

_DAMAGED = "damaged"

_US = (0, os.geteuid())


class StateFileError(Exception):
    """Another process has the state file, or a directory has its name."""


class _UnusableError(Exception):
    """The file is there, but no state can be had from it."""


class StateFile:
    """One file, replaced as a whole. Where it cannot be written the daemon goes on, says so once, and counts it."""

    def __init__(self, path: Path) -> None:
        """Take the file for this process. Raises StateFileError."""
        # A link is followed now, once: what it leads to is replaced and locked, not the link.
        self.path = Path(os.path.realpath(path))
        if self.path.is_dir():
            raise StateFileError(f"{path}: a directory; name a file in it, as {path}/state.json")
        self.saved_at: float | None = None
        """When it was last written (epoch); None before the first time."""
        self.failures = 0
        self._failing = False
        self._synced = False
        self._lock = self._take_lock()
        self._look_at_directory()

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
            raise StateFileError(f"{self.path}: another inferlog uses this state file") from None
        except OSError as error:  # a file system without locks
            logger.warning("%s: cannot be locked against a second inferlog: %s", self.path, error.strerror)
        return lock

    def _look_at_directory(self) -> None:
        """Who else may write there may replace the file. To be said and not refused: Kubernetes makes an emptyDir with mode 0777."""
        try:
            status = self.path.parent.stat()
        except OSError:
            return  # said when it is written
        if status.st_uid not in _US:
            logger.warning("%s: belongs to user %s, who may replace the state file", self.path.parent, status.st_uid)
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            logger.warning("%s: everybody may write there, and replace the state file", self.path.parent)

    def load(self) -> dict[str, Any]:
        """The saved state of each source; nothing when there is no file, or when it had to be kept aside."""
        try:
            saved = _parse(_read(self.path))
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
        new = Path(f"{self.path}.new")
        try:
            # What is there has the rights and the owner of another, or is a link: it is no file of ours.
            new.unlink(missing_ok=True)
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "wb") as out:
                out.write(_text(now, self.failures, state))
            new.replace(self.path)
        except OSError as error:
            self._failed(error)
            with suppress(OSError):
                new.unlink()
            return False
        if self._failing:
            logger.info("%s: is written again", self.path)
        self._failing, self._synced, self.saved_at = False, False, now
        return True

    def is_missing(self) -> bool:
        """Whether the file is not there, because it was not saved yet or somebody deleted it."""
        return not os.path.exists(self.path)  # noqa: PTH110 - Path.exists() may raise

    def sync(self) -> None:
        """Bring what was saved last to the disk, once: a process that dies needs it not, a machine that does may. Not for the scrape path."""
        if self._synced:
            return
        self._synced = True  # first, for another thread may save meanwhile
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.fsync(file)
            finally:
                os.close(file)
        except (FileNotFoundError, NotADirectoryError):
            pass  # nothing was saved
        except OSError as error:
            self._synced = False
            self._failed(error)

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


def _read(path: Path) -> bytes:
    """A file that we wrote: not a link, a FIFO or another user's. Raises _UnusableError."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _UnusableError("a link") from None
        raise
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise _UnusableError("not a regular file")
        if status.st_uid not in _US:
            raise _UnusableError(f"it belongs to user {status.st_uid}")
        return opened.read()


def _parse(data: bytes) -> dict[str, Any]:
    """What the file has, when it is whole. Raises _UnusableError with the reason."""
    try:
        saved = json.loads(data)
        schema = saved["schema"]
        if type(schema) is int and schema != SCHEMA:
            other = "a newer" if schema > SCHEMA else "an older"
            raise _UnusableError(f"written by {other} inferlog (schema {schema}, this one knows {SCHEMA})")
        # Nothing but what save() writes, byte for byte.
        whole = isinstance(saved["sources"], dict) and data == _text(saved["saved_at"], saved["failures"], json.dumps(saved["sources"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise _UnusableError(_DAMAGED) from None
    if not whole:
        raise _UnusableError(_DAMAGED)
    return dict(saved)


def _text(saved_at: float, failures: int, sources: str) -> bytes:
    content = f'"schema": {SCHEMA}, "saved_at": {saved_at:f}, "failures": {failures:d}, "sources": {sources}'
    return f'{{"checksum": "{_checksum(content)}", {content}}}\n'.encode()


def _checksum(content: str) -> str:
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
