"""The directories of JIT caches: which are there, which kernels are in them, and which of these are new."""

import os
import time
from collections import OrderedDict
from collections.abc import Iterator

from exporter.evidence.cache_layout import DEEPEST, artefact, is_leaf, is_of_interest
from exporter.evidence.sightings import CacheSighting

MOST_ENTRIES = 50_000
"""Names that are looked at in one go: a cache may be larger, and a hostile one without end."""

_MOST_RECENT = 4096
_RECENT_SECONDS = 60.0
"""The same kernel appearing twice within this time, as a file that is renamed over itself, is one."""


class CacheTree:
    """Below one cache directory. Never follows a link."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._recent: OrderedDict[str, float] = OrderedDict()

    def directories(self) -> Iterator[str]:
        """All that may get a new kernel, the cache directory first; one that holds a single kernel has it already."""
        yield from (path for path, is_directory in self._below(self.root) if is_directory)

    def new_since(self, time: float) -> list[CacheSighting]:
        """Kernels that were made after a moment (epoch), by their change times: where events were lost, or never come."""
        found = []
        for path, _ in self._below(self.root, kernels=True):
            try:
                changed = os.lstat(path).st_ctime
            except OSError:
                continue
            if changed > time and (sighting := self.sighting(path)):
                found.append(sighting)
        return found

    def sighting(self, path: str) -> CacheSighting | None:
        """The kernel that has just appeared at a path, if it is one and was not told just now."""
        found = artefact(path)
        now = time.time()
        if not found or (path in self._recent and now - self._recent[path] <= _RECENT_SECONDS):
            return None
        self._recent[path] = now
        self._recent.move_to_end(path)
        if len(self._recent) > _MOST_RECENT:
            self._recent.popitem(last=False)
        return CacheSighting(found.backend, found.kernel, now)

    def _below(self, top: str, *, kernels: bool = False) -> Iterator[tuple[str, bool]]:
        """Paths below a directory and it itself, each with whether it is a directory to be watched; `kernels` gives only these."""
        left, budget = [top], MOST_ENTRIES
        while left and budget > 0:
            directory = left.pop()
            try:
                entries = os.scandir(directory)
            except OSError:
                continue
            if not kernels:
                yield directory, True
            with entries:
                for entry in entries:
                    budget -= 1
                    if budget <= 0:
                        break
                    if not is_of_interest(entry.name):
                        continue
                    if artefact(entry.path):
                        if kernels:
                            yield entry.path, False
                    elif self.may_hold(entry.path) and (kernels or not is_leaf(entry.path)) and entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)

    def may_hold(self, path: str) -> bool:
        """Whether kernels may come below a path, were it a directory."""
        return path.count(os.sep) - self.root.count(os.sep) <= DEEPEST
