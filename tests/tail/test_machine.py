"""Any interleaving of writes, rotations, failures, kills and restores gives each byte once and in order."""

import errno
import json
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from exporter.tail import Follower

from .fake_files import FakeFiles, Inode

PATH = "/var/log/engine.log"

BOUNDED = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    database=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


class _Machine(RuleBasedStateMachine):
    """A writer, a follower, and what the follower's caller would know after the last save."""

    def __init__(self) -> None:
        super().__init__()
        self.files = FakeFiles()
        self.writer: Inode | None = None
        self.expected = b""
        self.switches: set[int] = set()
        """Where another file, or the same one emptied, begins in what is expected."""
        self.told: set[int] = set()
        self.restored = 0
        self.read = b""
        self.lines = 0
        self.generations = 0

    @initialize(chunk_bytes=st.sampled_from([40, 300, 1 << 18]), exists=st.booleans())
    def begin(self, chunk_bytes: int, exists: bool) -> None:
        """The log may be there at the first read, or come later."""
        self.chunk_bytes = chunk_bytes
        if exists:
            self.writer = self.files.create(PATH)
        self.follower = Follower(PATH, chunk_bytes=chunk_bytes, files=self.files)
        self.follower.read()
        self.save()

    def reopen(self) -> None:
        """The writer opens the path, creating what is missing."""
        opened = self.files.create(PATH)
        if opened is not self.writer or not opened.data:
            self.switches.add(len(self.expected))
        self.writer = opened

    @rule(length=st.one_of(st.integers(0, 40), st.integers(200, 900)), newline=st.booleans())
    def write(self, length: int, newline: bool) -> None:
        """Append some bytes, with or without the end of a line; no two are alike."""
        if self.writer is None:
            self.reopen()
        data = (b"%06d " % self.lines * 200)[: 7 + length] + b"\n" * newline
        self.lines += 1
        self.files.append(self.writer, data)
        self.expected += data

    def take(self) -> int:
        """Read once."""
        chunk = self.follower.read()
        if chunk.data:
            place = len(self.read)
            # Just after a restore there is no half line yet that the flag could end, so there it may be set for nothing.
            if chunk.begins_file != (place > 0 and place in self.switches - self.told):
                assert chunk.begins_file
                assert place == self.restored
            self.told.add(place)
        self.read += chunk.data
        return len(chunk.data)

    @rule(times=st.integers(1, 3))
    def read_some(self, times: int) -> None:
        """Read a few chunks."""
        for _ in range(times):
            self.take()

    @rule()
    def drain(self) -> None:
        """Read until there is nothing."""
        while self.take():
            pass

    @rule()
    def save(self) -> None:
        """Take the state."""
        whole = max(self.read.rfind(b"\n") + 1, self.restored, 0, *(each for each in self.switches if each < len(self.read)))
        self.saved = json.dumps(self.follower.state(len(self.read) - whole))
        self.saved_read, self.saved_told = whole, set(self.told)

    @rule()
    def kill_and_restore(self) -> None:
        """What was read after the last save is forgotten."""
        self.follower.close()
        assert 0 == self.files.open_descriptors
        self.restored = self.saved_read
        self.read, self.told = self.read[: self.saved_read], set(self.saved_told)
        state: Any = json.loads(self.saved)
        self.follower = Follower(PATH, state=state, chunk_bytes=self.chunk_bytes, files=self.files)

    @rule(seconds=st.sampled_from([-86400, -10, 10, 86400]))
    def set_clock(self, seconds: int) -> None:
        """With all read, and the log there: a clock set back and forth while nobody looks tells nothing to anybody."""
        self.settle()
        if self.read == self.expected and self.follower.stats.up and self.files.exists(PATH):
            self.files.set_clock(seconds)

    @rule()
    def release(self) -> None:
        """Give descriptors back."""
        if self.follower.release():
            assert 0 == self.files.open_descriptors

    @rule(error=st.sampled_from([errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE]), times=st.integers(1, 3))
    def fail(self, error: int, times: int) -> None:
        """Everything fails for a while."""
        with self.files.failing(error):
            for _ in range(times):
                self.take()  # of a compressed file, some may be inflated already
            assert not self.follower.stats.up

    @rule(error=st.sampled_from([errno.EIO, errno.ESTALE, errno.EMFILE]), after=st.integers(1, 12))
    def fail_in_the_middle(self, error: int, after: int) -> None:
        """The first calls of a read succeed, and one in the middle does not."""
        with self.files.failing(error, after):
            self.take()

    @invariant()
    def nothing_is_doubled_or_out_of_order(self) -> None:
        """What was read is the beginning of what was written, and the counter says so."""
        assert self.expected.startswith(self.read)
        if hasattr(self, "follower"):
            assert len(self.read) == self.follower.stats.read_bytes

    def settle(self) -> None:
        """Read and save all, so that nothing is at stake."""
        self.drain()
        self.drain()
        self.save()

    def teardown(self) -> None:
        """Nothing is lost, no descriptor is left, and the counters say the same."""
        if hasattr(self, "follower"):
            self.reopen()
            self.write(30, newline=True)
            self.drain()
            stats = self.follower.stats
            assert self.expected == self.read
            assert (len(self.expected), 0, 0, True, "") == (stats.read_bytes, stats.lost_bytes, stats.lag_bytes, stats.up, stats.error)
            self.follower.close()
            assert 0 == self.files.open_descriptors


class Renames(_Machine):
    """Rotation by rename, under numbers and dates; rotated files are compressed; logs are deleted when all was read."""

    def shift(self) -> None:
        """Move each generation to the next number."""
        for suffix in ("", ".gz"):
            for number in range(60, 0, -1):
                if self.files.exists(f"{PATH}.{number}{suffix}"):
                    self.files.rename(f"{PATH}.{number}{suffix}", f"{PATH}.{number + 1}{suffix}")

    @precondition(lambda self: self.files.exists(PATH))
    @rule(dated=st.booleans())
    def rename(self, dated: bool) -> None:
        """Rotate; the writer may go on with the renamed file, and the path may be empty for a while."""
        self.generations += 1
        if dated:
            self.files.rename(PATH, f"{PATH}-{20260000 + self.generations}")
        else:
            self.shift()
            self.files.rename(PATH, f"{PATH}.1")

    @rule()
    def open_again(self) -> None:
        """The writer opens the path."""
        self.reopen()

    @precondition(lambda self: self.files.exists(PATH))
    @rule(dated=st.booleans())
    def rotate(self, dated: bool) -> None:
        """All of it at once."""
        self.rename(dated)
        self.reopen()

    @rule(data=st.data())
    def pack(self, data: st.DataObject) -> None:
        """A file that nobody writes any more is compressed."""
        plain = [path for path, inode in self.files.names.items() if path != PATH and not path.endswith(".gz") and inode is not self.writer]
        if plain:
            self.files.pack(data.draw(st.sampled_from(plain)))

    @precondition(lambda self: self.files.exists(PATH))
    @rule()
    def delete(self) -> None:
        """All was read, so nothing is lost with the file; the next one gets its inode."""
        self.write(0, newline=True)  # else the half line is gone with the file, and stated as lost
        self.settle()
        if self.expected == self.read and self.files.create(PATH) is self.writer:
            self.files.unlink(PATH)
            self.writer = None


class Copies(_Machine):
    """copytruncate, before or after all was read."""

    @precondition(lambda self: self.files.exists(PATH))
    @rule(compressed=st.booleans())
    def copy_and_truncate(self, compressed: bool) -> None:
        """The copy gets the next number."""
        if not self.expected.endswith(b"\n"):
            self.write(0, newline=True)  # a half line that was read would be lost with a state, and stated
        for suffix in ("", ".gz"):
            for number in range(60, 0, -1):
                if self.files.exists(f"{PATH}.{number}{suffix}"):
                    self.files.rename(f"{PATH}.{number}{suffix}", f"{PATH}.{number + 1}{suffix}")
        self.files.copy(PATH, f"{PATH}.1")
        self.files.truncate(PATH)
        self.switches.add(len(self.expected))
        if compressed and self.files.exists(f"{PATH}.2"):
            self.files.pack(f"{PATH}.2")

    @precondition(lambda self: self.files.exists(PATH))
    @rule(after=st.integers(0, 12), more=st.integers(-20, 60))
    def copy_and_truncate_in_the_middle(self, after: int, more: int) -> None:
        """Between two calls of one read, and the file is soon about as long as it was, so that its size tells nothing."""
        self.write(30, newline=True)  # of what was not read yet, only the times between two reads tell that it was replaced
        self.settle()

        def change() -> None:
            assert self.writer
            length = len(self.writer.data) + more
            self.copy_and_truncate(compressed=False)
            self.write(max(0, length), newline=True)

        self.files.before_call(after, change)
        self.take()
        self.files.change_now()


class Links(_Machine):
    """A symbolic link that leads to the next number, or whose target is renamed to a date."""

    @initialize(chunk_bytes=st.sampled_from([40, 300, 1 << 18]))
    def begin(self, chunk_bytes: int) -> None:
        """Before the first read, nothing tells which other files belong to a link."""
        self.rotated = False
        self.swap()
        super().begin(chunk_bytes, exists=True)

    @rule()
    def swap(self) -> None:
        """The next target."""
        if self.rotated:
            self.settle()  # a target that was never seen is found by its number, but not by a date
        self.rotated = False
        self.generations += 1
        self.files.link(PATH, f"real.{self.generations}")
        self.reopen()

    @precondition(lambda self: isinstance(self.files.names.get(PATH), str))
    @rule()
    def rotate(self) -> None:
        """As kubelet does."""
        real = self.files.realpath(PATH)
        self.generations += 1
        if self.files.exists(real):
            self.rotated = True
            self.files.rename(real, f"{real}.2026{self.generations:04}-{self.lines:06}")
            self.reopen()


TestRenames = Renames.TestCase
TestRenames.settings = BOUNDED
TestCopies = Copies.TestCase
TestCopies.settings = BOUNDED
TestLinks = Links.TestCase
TestLinks.settings = BOUNDED
