"""Where reading a file ended, by marks that hold no text of it, so that they may be saved."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Final, NamedTuple, TypeAlias

Identity: TypeAlias = tuple[int, int]

REMEMBERED_BYTES: Final = 256
"""How much of a file is remembered, at its start and before the offset, to know it again."""

_DIGEST_BYTES: Final = 16
_LARGEST: Final = 2**62  # a file offset with room for what is read from there
_FINGERPRINT_FIELDS: Final = 2


class MalformedStateError(ValueError):
    """A saved state is none of ours."""


class Fingerprint(NamedTuple):
    """Some bytes, by their number and a digest: a saved state holds no text of a log."""

    length: int
    digest: str

    @classmethod
    def of(cls, data: bytes) -> Fingerprint:
        """The fingerprint of some bytes."""
        return cls(len(data), hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest())

    def matches(self, data: bytes) -> bool:
        """Whether these are the bytes."""
        return self == Fingerprint.of(data)


EMPTY: Final = Fingerprint.of(b"")


class Bookmark(NamedTuple):
    """How far a file was read, and how to know it again."""

    path: str
    identity: Identity
    offset: int
    size: int
    mtime_ns: int
    first_mtime_ns: int
    head: Fingerprint
    """Its first bytes; those of an unread file as well."""
    tail: Fingerprint
    """The bytes before the offset."""
    copied_to: int = 0
    final: bool = False

    @property
    def unread_bytes(self) -> int:
        """What was seen in it and is neither read nor in a copy."""
        return max(0, self.size - max(self.offset, self.copied_to))

    @property
    def since_ns(self) -> int:
        """Before when it was not written last, even when the clock was set back meanwhile."""
        return min(self.first_mtime_ns, self.mtime_ns)

    def state(self) -> list[Any]:
        """As JSON types."""
        return [list(value) if isinstance(value, tuple) else value for value in self]

    @classmethod
    def restore(cls, state: object) -> Bookmark:
        """The bookmark of a state; ValueError when it is none."""
        path, identity, offset, size, mtime_ns, first_mtime_ns, head, tail, copied_to, final = fields(state, len(cls._fields))
        if not isinstance(final, bool):
            raise MalformedStateError("not a boolean")
        return cls(
            restored_path(path),
            restored_identity(identity),
            natural(offset),
            natural(size),
            integer(mtime_ns),
            integer(first_mtime_ns),
            restored_fingerprint(head),
            restored_fingerprint(tail, most=natural(offset)),
            natural(copied_to),
            final,
        )


def fields(state: object, count: int) -> list[Any]:
    """A list of so many fields."""
    if not isinstance(state, list) or len(state) != count:
        raise MalformedStateError(f"not a list of {count}")
    return state


def integer(value: object) -> int:
    """A number that a system call takes."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST:
        raise MalformedStateError("not an integer of 64 bits")
    return value


def natural(value: object) -> int:
    """A number of bytes or of events."""
    number = integer(value)
    if number < 0:
        raise MalformedStateError("a negative number")
    return number


def restored_path(path: object) -> str:
    """A path that the file system takes."""
    if not isinstance(path, str) or "\0" in path or not os.path.isabs(path):
        raise MalformedStateError("not an absolute path")
    os.fsencode(path)  # which raises UnicodeEncodeError, a ValueError as well
    return path


def restored_identity(state: object) -> Identity:
    """A device and an inode, which may need all 64 bits."""
    device, inode = fields(state, 2)
    for number in (device, inode):
        if not isinstance(number, int) or isinstance(number, bool):
            raise MalformedStateError("not an integer")
    return device, inode


def restored_fingerprint(state: object, most: int = _LARGEST) -> Fingerprint:
    """A fingerprint of at most so many bytes."""
    length, digest = fields(state, _FINGERPRINT_FIELDS)
    if not isinstance(digest, str) or natural(length) > min(most, REMEMBERED_BYTES):
        raise MalformedStateError("not a fingerprint")
    return Fingerprint(length, digest)
