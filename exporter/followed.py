"""One source that is followed: its engine, its files, and the state from which both go on."""

import errno
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from exporter.config import SourceConfig
from exporter.counters import Sample
from exporter.discovery import Target, is_of_one_container
from exporter.durations import zone_seconds
from exporter.evidence.mailbox import Mailbox
from exporter.exposition import SourceSnapshot
from exporter.merge import Merge
from exporter.source import Source
from exporter.source_names import STDIN
from exporter.state import Freezer, Thawer
from exporter.tail import Follower, Identity, StdinFollower, files_below, identity
from exporter.verdict import FailureLimits, PairSettings
from parsers.events import ContainerStarted
from parsers.header import NOBODY, Head
from parsers.matching import Found

FORGET_SECONDS = 600.0
"""A source whose files are gone for this long is dropped."""

_MOST_LEFT = 20
"""Files that were let go, of which is remembered how far they were read."""

logger = logging.getLogger("inferlog.source")

_STATS = {
    "source_read_bytes_total": "read_bytes",
    "source_rotations_total": "rotations",
    "source_truncations_total": "truncations",
    "source_lost_bytes_total": "lost_bytes",
}


class _Piece(NamedTuple):
    """What one read of a file brought."""

    size: int
    found: list[Found]
    written: float
    """When its last line was written at the latest (epoch)."""
    behind: bool
    """There is more to read."""


_Held: TypeAlias = tuple[Found, float]
"""An event and when it was written at the latest (epoch): what waits for another file keeps its own time."""


class FollowedSource:
    """One source with the files that it has now."""

    STATE = ("live", "gone", "mailbox", "_left", "_generations", "_merge", "_container_log")

    def __init__(self, target: Target, state: Mapping[str, Any] | None = None, *, as_configured: bool = True) -> None:
        """`state` is what `frozen` gave before. Raises ValueError, TypeError, KeyError or AttributeError when it is none.

        A file that came later than its source's configuration is all new: with `as_configured` False it is read whole.
        """
        today = time.gmtime()
        self.name = target.name
        self.source = Source(target.name, year=today.tm_year, month=today.tm_mon)
        self.live = False
        """What was there when we came has been read."""
        self.gone = dict.fromkeys(_STATS.values(), 0)
        """What the files that are no longer followed add to the figures about the files."""
        self.followers: dict[str, Follower | StdinFollower] = {}
        self.mailbox = Mailbox()
        """What other witnesses than the log found."""
        self.holds_files = True
        """Whether files stay open while nothing is written to them."""
        self._merge: Merge[_Held] = Merge(lambda held: held[0][1].time)
        self._target: Target | None = None
        self._left: dict[str, Any] = {}
        """Where the reading of files ended that were let go: they may come back."""
        self._generations: dict[str, Identity] = {}
        """Files of the target that are what a rotation left of a log, by path: its follower reads them."""
        self._container_log = ""
        """The file of the container that runs now, as far as it was read."""
        self._missing_since: dict[str, float] = {}
        self._unseen_since: float | None = None
        self._errors: dict[str, str] = {}
        self._frozen: str | None = None
        self._frozen_files: dict[str, str] = {}
        self._changed = True
        self._own_frozen = (0, 0)
        if state is not None:
            self._restore(state, target.roots)
            # Those that are there and not wanted: the configuration has changed while we were away. (Path.exists() may raise.)
            for path in [path for path in self.followers if path not in target.paths and os.path.exists(path)]:  # noqa: PTH110
                self._let_go(path)
        self.follow(target, as_configured=as_configured and state is None)

    def _restore(self, state: Mapping[str, Any], roots: tuple[str, ...]) -> None:
        """Also files that are there no more: something of them may be left under another name."""
        thawer = Thawer()
        thawer.restore(self, state["followed"])
        thawer.restore(self.source, state["source"])
        for path, file in state["files"].items():
            thawer.restore(self.source.file(path), file["log"])
            self.followers[path] = Follower(Path(path), state=file["follower"], files=files_below(roots))

    # -- which files ---------------------------------------------------------------------------------------------------

    def follow(self, target: Target, *, as_configured: bool = False) -> None:
        """Take the settings and files of a target; with `as_configured` new files begin where the configuration says.

        A file that is no longer wanted is let go when it has been read, one that is missing after a while, as the next one
        may soon take its place; what it added stays counted.
        """
        config, before = target.source, self._target
        self._target = target
        if before is None or config != before.source or target.labels != before.labels:
            self.source.patterns.replace(config.patterns)
            self.source.configure(target.labels, pair=_pair(config), zone=_zone(config), warmup_grace=config.warmup_grace)
            self._changed = True
        other_paths = before is not None and config.paths != before.source.paths
        start_at = config.start_at if as_configured and (before is None or other_paths) else "beginning"
        self._generations = {path: each for path, each in self._generations.items() if path in target.paths}
        followed = [each for each in self.followers.values() if isinstance(each, Follower)]
        for path in target.paths:
            if path not in self.followers and not self._is_generation(path, followed):
                self._take_up(path, start_at, target.roots)
        now = time.monotonic()
        missing = self.followers.keys() - set(target.paths)
        self._missing_since = {path: self._missing_since.get(path, now) for path in missing}
        for path, since in self._missing_since.items():
            unwanted = other_paths and not self.source.file(path).unfinished
            if not self.followers[path].stats.lag_bytes and (unwanted or (now - since >= FORGET_SECONDS and not self._is_renamed(path))):
                self._let_go(path)
        self._merge.follow(self.followers)

    def _is_generation(self, path: str, followed: list[Follower]) -> bool:
        """Whether a file is what a rotation left of a log that is followed, under a name that the glob matches as well."""
        try:
            file = identity(Path(path).stat())
        except OSError:
            return False
        if self._generations.pop(path, None) != file and not any(each.knows(path) for each in followed):
            return False
        self._generations[path] = file
        self._changed = True
        return True

    def _is_renamed(self, path: str) -> bool:
        """Whether what a follower reads is there under another name of the target, where nobody else follows it."""
        follower = self.followers[path]
        return isinstance(follower, Follower) and any(map(follower.knows, self._generations))

    def _take_up(self, path: str, start_at: Literal["beginning", "end"], roots: tuple[str, ...]) -> None:
        """Follow a file, from where it was left if it was followed before."""
        if path == STDIN:
            self.followers[path] = StdinFollower()
            return
        left = self._left.pop(path, None)
        follower = self.followers[path] = Follower(Path(path), start_at=start_at, state=left, files=files_below(roots))
        for name in self.gone if left else ():
            self.gone[name] -= getattr(follower.stats, name)

    def _let_go(self, path: str) -> None:
        follower = self.followers.pop(path)
        if isinstance(follower, Follower):
            self._left[path] = follower.state(0)
            if len(self._left) > _MOST_LEFT:
                del self._left[next(iter(self._left))]
        follower.close()
        for name in self.gone:
            self.gone[name] += getattr(follower.stats, name)
        self.source.forget_file(path)
        self._frozen_files.pop(path, None)
        self._errors.pop(path, None)
        self._changed = True

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, limit: int) -> int:
        """Read up to about `limit` bytes; how many it were. What was there before the first end of file is history."""
        taken = 0
        if self.live:
            self._take_found()
        # Files that were at their end: all of them are looked at before what one of them brought is applied.
        grown = [(path, self._piece(path)) for path in list(self.followers) if limit > 0 and not self._merge.is_behind(path)]
        for path, piece in grown:
            self._merge.look(path, behind=piece.size > 0)
        for path, piece in grown:
            if piece.size or piece.found:
                taken += piece.size
                self._apply(path, piece)
        while taken < limit and (least := self._merge.next()) is not None:
            piece = self._piece(least)
            taken += piece.size
            self._apply(least, piece)
        self._apply_in_order(self._merge.release())  # what waited for a file that is followed no more
        if not self.live and taken < limit:
            self.live = self._changed = True
        return taken

    def _take_found(self) -> None:
        if found := self.mailbox.take():
            self._changed = True
        if found or self.mailbox.seen_by:
            self.source.witness(found, self.mailbox.seen_by, time.time())

    def _piece(self, path: str) -> _Piece:
        """Read some of a file."""
        follower = self.followers[path]
        stats = follower.stats
        before = stats.rotations, stats.truncations, stats.lost_bytes
        chunk = follower.read()
        if chunk.data or before != (stats.rotations, stats.truncations, stats.lost_bytes):
            self._frozen_files.pop(path, None)
            self._changed = True
        self._tell_error(path, stats.error)
        now = time.time()
        written = min(now, chunk.written) if chunk.data else now
        found = self.source.parse_end(path) if chunk.begins_file else []
        if chunk.data:
            found += self.source.parse(chunk.data, written, path)
            if not stats.lag_bytes:
                self.source.learn_zone(written)
        if found and self._is_new_container(path):
            first = found[0][1]
            found.insert(0, (ContainerStarted(), Head(NOBODY, "", first.time, wrapped_time=first.wrapped_time, container=first.container)))
        if isinstance(follower, StdinFollower):
            if follower.eof:
                found += self.source.parse_end(path)  # nothing will complete a last half line
        elif not self.holds_files:
            follower.release()
        return _Piece(len(chunk.data), found, written, behind=bool(chunk.data) and stats.lag_bytes > 0)

    def _is_new_container(self, path: str) -> bool:
        """Whether a file is the first word of the container after the one that was read before. Its last words may come later."""
        before = self._container_log
        if path == before or not is_of_one_container(path):
            return False
        order = self._target.paths if self._target else ()
        if before in order and path in order and order.index(path) < order.index(before):
            return False
        self._container_log = path
        return before != ""

    def _apply(self, path: str, piece: _Piece) -> None:
        reached = self.source.file(path).log.last_time
        if len(self.followers) == 1 and not self._merge.holds:
            self._merge.put(path, [], behind=piece.behind, reached=reached)
            self.source.apply(piece.found, piece.written)
            return
        held = [(found, piece.written) for found in piece.found]
        self._apply_in_order(self._merge.put(path, held, behind=piece.behind, reached=reached))

    def _apply_in_order(self, released: list[_Held]) -> None:
        for written, each in groupby(released, key=itemgetter(1)):
            self.source.apply([found for found, _ in each], written)

    def _tell_error(self, path: str, error: str) -> None:
        """Say once why a log cannot be read; that it is not there is told at the start, and by source_up."""
        if error != self._errors.get(path, ""):
            self._errors[path] = error
            if error not in ("", "ENOENT", "EAGAIN"):
                code = getattr(errno, error, None)
                words = f" ({os.strerror(code)})" if code else ""
                advice = f": name its files, as {path}/*.log" if code == errno.EISDIR else ""
                logger.warning("source %s: %s: %s%s%s", self.name, path, error, words, advice)

    @property
    def config(self) -> SourceConfig | None:
        """What the configuration says of it."""
        return self._target.source if self._target else None

    def configured_as(self, source: SourceConfig) -> bool:
        """Whether this is what the configuration means by a source."""
        return self._target is not None and (self._target.source.name, self._target.source.paths) == (source.name, source.paths)

    def is_gone(self, now: float) -> bool:
        """Whether its files have been missing for long; `now` is monotonic."""
        if any(each.stats.up for each in self.followers.values()):
            self._unseen_since = None
        elif self._unseen_since is None:
            self._unseen_since = now
        return self._unseen_since is not None and now - self._unseen_since >= FORGET_SECONDS

    def close(self) -> None:
        """Close all files."""
        for follower in self.followers.values():
            follower.close()

    # -- what is known -------------------------------------------------------------------------------------------------

    def frozen(self) -> str | None:
        """The state as JSON text, None for a source that has standard input: what came that way cannot be read again."""
        if STDIN in self.followers:
            return None
        own = self.source.faults.count, self.source.names_given
        if self._changed or self._own_frozen != own:
            try:
                self._frozen = self._freeze()
                self._changed, self._own_frozen = False, own
            except Exception as error:  # noqa: BLE001 - an older state is better than no answer
                self.source.faults.note(error)
        return self._frozen

    def _freeze(self) -> str:
        freezer = Freezer(self.source.digest)
        for path, follower in self.followers.items():
            if path not in self._frozen_files and isinstance(follower, Follower):
                log = self.source.file(path)
                self._frozen_files[path] = json.dumps({"log": freezer.state(log), "follower": follower.state(log.unfinished)})
        files = ", ".join(f"{json.dumps(path)}: {text}" for path, text in self._frozen_files.items())
        followed, source = json.dumps(freezer.state(self)), json.dumps(freezer.state(self.source))
        return f'{{"followed": {followed}, "source": {source}, "files": {{{files}}}}}'

    def snapshots(self, now: float) -> list[SourceSnapshot]:
        """All series; reduced to those about the exporter itself when the others cannot be had."""
        try:
            own, *others = self.source.snapshots(now)
        except Exception as error:  # noqa: BLE001 - the other sources must not go with it
            self.source.faults.note(error)
            own, others = SourceSnapshot(self.name, self.source.runtime, self.source.labels, self.source.own_samples()), []
        own.samples += self.file_samples()
        return [own, *others]

    def file_samples(self) -> Iterator[Sample]:
        """Series about the files, summed over them."""
        stats = [follower.stats for follower in self.followers.values()]
        yield from self.mailbox.samples()
        yield Sample("source_up", (), bool(stats) and all(each.up for each in stats))
        yield Sample("source_lag_bytes", (), sum(each.lag_bytes for each in stats))
        unfinished = sum(self.source.file(path).unfinished for path in self.followers)
        for family, name in _STATS.items():
            total = self.gone[name] + sum(getattr(each, name) for each in stats)
            yield Sample(family, (), total - unfinished if name == "read_bytes" else total)


def _pair(config: SourceConfig) -> PairSettings:
    return PairSettings(config.pd_role, config.pd_expect, FailureLimits(config.pd_failed_requests, config.pd_failed_share))


def _zone(config: SourceConfig) -> float | None:
    return None if config.timezone is None else zone_seconds(config.timezone)
