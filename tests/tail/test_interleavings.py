"""Any interleaving of writes, reads and rotations gives each byte once and in order."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from exporter.tail import Follower

from .conftest import Log, Reader, open_descriptors

KEPT = 3

BOUNDED = settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)


class _Machine(RuleBasedStateMachine):
    """A writer and a follower; what the writer wrote, the follower must say."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="inferlog-"))
        self.descriptors = open_descriptors()
        self.log = Log(self.directory / "engine.log")
        self.expected = b""
        self.lines = 0
        self.unread_rotations = 0

    @initialize(chunk_bytes=st.sampled_from([16, 300, 1 << 18]), exists=st.booleans())
    def begin(self, chunk_bytes: int, exists: bool) -> None:
        """The log may be there at the first read, or come later."""
        if exists:
            self.log.reopen()
        self.reader = Reader(Follower(self.log.path, chunk_bytes=chunk_bytes))
        self.read()

    # No two lines are alike, and no chunk is shorter than what tells them apart: a file truncated and rewritten with
    # the bytes that were read from it is the same file to any reader.
    @rule(length=st.one_of(st.integers(0, 40), st.integers(200, 1200)), newline=st.booleans())
    def write(self, length: int, newline: bool) -> None:
        """Append some bytes, with or without the end of a line."""
        data = (b"%06d " % self.lines * 200)[: 7 + length] + b"\n" * newline
        self.lines += 1
        self.log.write(data)
        self.expected += data

    @rule()
    def read(self) -> None:
        """Read until there is nothing."""
        self.reader.drain()
        self.unread_rotations = 0

    @rule()
    def read_once(self) -> None:
        """Read one chunk only."""
        chunk = self.reader.follower.read()
        self.reader.data += chunk.data

    @invariant()
    def nothing_is_doubled_or_out_of_order(self) -> None:
        """What was read is the beginning of what was written."""
        if hasattr(self, "reader"):
            assert self.expected.startswith(self.reader.data)

    def finish(self) -> None:
        """Let the writer end in the file at the path, as each writer does in the end."""
        self.log.reopen()
        self.write(30, newline=True)

    def teardown(self) -> None:
        """Nothing is lost, no descriptor is left, and the counters say the same."""
        try:
            if hasattr(self, "reader"):
                self.finish()
                self.reader.drain()
                assert self.expected == self.reader.data
                stats = self.reader.stats
                assert (len(self.expected), 0, 0, True, "") == (
                    stats.read_bytes,
                    stats.lost_bytes,
                    stats.lag_bytes,
                    stats.up,
                    stats.error,
                )
                self.reader.follower.close()
                self.log.close()
                assert self.descriptors == open_descriptors()
        finally:
            shutil.rmtree(self.directory)


class Renames(_Machine):
    """logrotate's `create`, or a writer that rotates itself."""

    @precondition(lambda self: self.unread_rotations < KEPT and self.log.path.exists())
    @rule()
    def rename(self) -> None:
        """Rotate; the writer may go on with the renamed file, and the path may be empty for a while."""
        self.log.rename()
        self.unread_rotations += 1

    @precondition(lambda self: not self.log.path.exists())
    @rule()
    def create(self) -> None:
        """Somebody makes the new file before the writer comes to it."""
        self.log.path.touch()

    @rule()
    def reopen(self) -> None:
        """The writer opens the path, creating what is missing."""
        self.log.reopen()

    @precondition(lambda self: self.unread_rotations < KEPT and self.log.path.exists())
    @rule()
    def rotate(self) -> None:
        """All of it at once."""
        self.rename()
        self.reopen()


class CopiesAndRenames(_Machine):
    """copytruncate in two steps, so that reads and writes come between; and renames when all was read."""

    def __init__(self) -> None:
        super().__init__()
        self.copied = False
        self.untold = b""

    @precondition(lambda self: not self.copied and self.unread_rotations < KEPT and self.log.path.exists())
    @rule()
    def copy(self) -> None:
        """The first half; what is written after it dies with the second, so nothing is written."""
        self.log.copy()
        self.copied = True

    @precondition(lambda self: self.copied)
    @rule()
    def truncate(self) -> None:
        """The second half."""
        self.log.truncate()
        self.copied = False
        self.unread_rotations += 1

    @precondition(lambda self: not self.copied)
    @rule(length=st.integers(0, 700))
    def write_and_copy(self, length: int) -> None:
        """Write, copy and truncate with no read in between."""
        if self.unread_rotations < KEPT:
            self.write(length, newline=True)
            self.copy()
            self.truncate()

    @precondition(lambda self: not self.copied and self.log.path.exists())
    @rule()
    def rename(self) -> None:
        """Copies and generations cannot be told apart when both are new, so all is read first."""
        self.read()
        self.log.rename()
        self.log.reopen()
        self.read()

    @rule(length=st.integers(0, 40), newline=st.booleans())
    def write(self, length: int, newline: bool) -> None:
        """Append; between copy and truncation only what was read at once can be known."""
        if not self.copied:
            super().write(length, newline)

    def finish(self) -> None:
        """Truncate what was copied, and go on."""
        if self.copied:
            self.truncate()
        super().finish()


TestRenames = Renames.TestCase
TestRenames.settings = BOUNDED
TestCopiesAndRenames = CopiesAndRenames.TestCase
TestCopiesAndRenames.settings = BOUNDED
