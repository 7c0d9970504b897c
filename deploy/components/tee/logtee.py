"""Runs an engine, passes its output on, and keeps a copy in files that take a bounded room.

    python3 logtee.py /logs/engine.log -- vllm serve ...

It takes the place of the engine as process 1 of its container: signals go to the engine, the exit code is the engine's,
and orphans are reaped. The engine must neither block nor die on the copy: where the disk is full, slow or gone the copy
has a gap, and a line that says so. It runs in the engine's image: Python 3.10 or later and nothing else.
"""

import argparse
import contextlib
import fcntl
import itertools
import os
import signal
import sys
import threading
import time
from collections import deque

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
BLOCK = 1 << 16
LONGEST_LINE = 1 << 16
"""A line is finished in the file where it began, up to this; inferlog reads no longer ones either."""
BACKLOG = 8 << 20
"""What waits for a slow disk."""
PATIENCE = 1.0
"""How long the engine waits for one, in seconds, until the disk has caught up again."""
RETRY = 1.0
LAST_WORDS = 5.0
"""How long what the engine left behind may go on writing, and how long the disk has for the rest."""
NO_SUCH_COMMAND = 127


class RotatingFile:
    """FILE, FILE.1 ... FILE.KEEP of at most `size` bytes each, and the end of a line. Nothing is raised."""

    def __init__(self, path: str, size: int, keep: int) -> None:
        self._path, self._size, self._keep = path, size, keep
        self._file = -1
        self._written = 0
        self._mid_line = False
        self._lost = 0
        self._torn = False
        self._why = ""
        self._next_try = 0.0

    def write(self, block: bytes) -> None:
        """Add to the file, in as many files as it takes."""
        while block:
            cut = self._room(block)
            if not cut:
                self._rotate()
                continue
            self._append(block[:cut])
            block = block[cut:]

    def lost(self, count: int, why: str) -> None:
        """Remember that so many bytes are missing here; said in the file once it can be written."""
        self._lost += count
        self._why = why
        self._torn = True

    def _room(self, block: bytes) -> int:
        """How much of a block belongs into this file; 0 when the next one is due."""
        room = max(self._size - self._written, 0)
        if len(block) <= room:
            return len(block)
        whole_lines = block.rfind(b"\n", 0, room) + 1
        if whole_lines or (self._written and not self._mid_line):
            return whole_lines
        most = self._size + LONGEST_LINE - self._written
        return (block.find(b"\n", 0, max(most, 0)) + 1) or max(min(len(block), most), 0)

    def _append(self, data: bytes) -> None:
        if self._file < 0:
            self._open()
        if self._lost and self._file >= 0:
            if self._torn:  # the rest of a line whose beginning is missing must not look like one
                end = data.find(b"\n") + 1
                self._torn = not end
                self._lost += end or len(data)
                data = data[end or len(data) :]
            if not data:
                return
            notice = f"logtee: {self._lost} bytes are missing here: {self._why}\n"
            self._lost = 0
            self._put(b"\n" * self._mid_line + notice.encode())
        self._put(data)

    def _put(self, data: bytes) -> None:
        while data and self._file >= 0:
            try:
                done = os.write(self._file, data)
            except OSError as error:
                self._failed(error)
                break
            self._written += done
            self._mid_line = data[done - 1 : done] != b"\n"
            data = data[done:]
        if data:
            self.lost(len(data), self._why)

    def _open(self) -> None:
        if time.monotonic() < self._next_try:
            return
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._written = os.fstat(self._file).st_size
            # The engine before may have been killed within a line.
            self._mid_line = bool(self._written) and os.pread(self._file, 1, self._written - 1) != b"\n"
        except OSError as error:
            self._failed(error)
            return
        with contextlib.suppress(OSError):
            os.fchmod(self._file, 0o644)  # whatever the engine's umask is: inferlog is another user
        if self._mid_line and not self._lost:
            self._put(b"\n")

    def _failed(self, error: OSError) -> None:
        self._why = error.strerror or "failed"
        self._next_try = time.monotonic() + RETRY
        self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _rotate(self) -> None:
        self._close()
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._keep + 1))]
        # A reader that has the oldest one open may still read it to its end.
        for newer, older in reversed(list(itertools.pairwise(names))):
            with contextlib.suppress(OSError):
                os.replace(newer, older)
        self._written, self._mid_line = 0, False


class Copy:
    """Writes behind the engine's back, so that a disk that hangs stops nobody."""

    def __init__(self, file: RotatingFile) -> None:
        self._file = file
        self._blocks: deque[tuple[int, bytes]] = deque()
        """Each with the number of bytes that are missing before it."""
        self._waiting = 0
        self._lost = 0
        self._patience = PATIENCE
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="copy", daemon=True)
        self._thread.start()

    def add(self, block: bytes) -> None:
        """Take a block; when too much is waiting, wait a little, then leave it out."""
        with self._changed:
            if self._waiting >= BACKLOG and self._patience > 0:
                began = time.monotonic()
                self._changed.wait_for(lambda: self._waiting < BACKLOG, self._patience)
                self._patience -= time.monotonic() - began
            if self._waiting >= BACKLOG:
                self._lost += len(block)
                return
            self._blocks.append((self._lost, block))
            self._lost = 0
            self._waiting += len(block)
            self._changed.notify_all()

    def end(self) -> None:
        """Write what waits, if it can be done in time."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join(LAST_WORDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._blocks or self._ended)
                if not self._blocks:
                    return
                lost, block = self._blocks.popleft()
            if lost:
                self._file.lost(lost, "the disk is too slow")
            self._file.write(block)
            with self._changed:
                self._waiting -= len(block)
                if not self._waiting:
                    self._patience = PATIENCE
                self._changed.notify_all()


def pump(source: int, target: int, copy: Copy) -> None:
    """Pass everything on until nobody can write any more."""
    passes = True
    while block := os.read(source, BLOCK):
        rest = block
        while passes and rest:
            try:
                rest = rest[os.write(target, rest) :]
            except OSError:  # nobody reads our output: the copy goes on
                passes = False
        copy.add(block)


def start(command: list[str], output: int) -> int:
    """Start the engine; its process id. Signals wait until it is there."""
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    try:
        engine = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)],
            setsigmask=(),
            # Python ignores the first two, the engine need not; the others may have been ignored by who started us, as a job in the background.
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, *FORWARDED),
        )
    except OSError as error:
        print(f"logtee: {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(NO_SUCH_COMMAND)
    for each in FORWARDED:
        signal.signal(each, lambda number, frame: forward(engine, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    return engine


def forward(engine: int, number: int) -> None:
    """Give the engine a signal, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(engine, number)


def wait(engine: int) -> int:
    """The engine's exit code, 128 and the signal's number when one ended it; whatever else ends is reaped."""
    while True:
        process, status = os.wait()
        if process == engine:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("file", help="the copy of the output")
    parser.add_argument("--max-mib", type=float, default=32, help="rotate at this size (default: 32)")
    parser.add_argument("--keep", type=int, default=2, help="so many rotated files are kept (default: 2)")
    parser.add_argument("command", nargs="+", help="the engine, after --")
    given = parser.parse_args()
    if given.max_mib <= 0 or given.keep < 1:
        parser.error("--max-mib must be above 0 and --keep at least 1")
    return given


def main() -> int:
    """Run the engine to its end."""
    given = arguments()
    reader, writer = os.pipe()
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
    engine = start(given.command, writer)
    os.close(writer)
    copy = Copy(RotatingFile(given.file, int(given.max_mib * (1 << 20)), given.keep))
    pumping = threading.Thread(target=pump, args=(reader, 1, copy), name="pump", daemon=True)
    pumping.start()
    code = wait(engine)
    pumping.join(LAST_WORDS)
    copy.end()
    return code


if __name__ == "__main__":
    # Not sys.exit: a thread that hangs on a disk must not keep the container.
    os._exit(main())
