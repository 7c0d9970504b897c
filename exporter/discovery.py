"""Which logs there are now: globs are expanded, and under kubelet's directories each container is a source of its own."""

import errno
import fnmatch
import glob
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exporter.config import CONTROL, SourceConfig
from exporter.source_names import LONGEST_NAME, STDIN
from exporter.tail import ends_like_a_log, rotated_from

# Kubernetes allows none of these names an underscore, so the parts cannot be taken for one another. The uid is that
# of the API server, or a hash of the manifest for a static pod: a directory of somebody else seldom looks like it.
_NAMESPACE, _POD, _CONTAINER = (
    r"(?P<namespace>[a-z0-9][a-z0-9-]{0,62})",
    r"(?P<pod>[a-z0-9][a-z0-9.-]{0,252})",
    r"(?P<container>[a-z0-9][a-z0-9-]{0,62})",
)
_UID = r"(?P<uid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})"
_POD_LOG = re.compile(rf"(?:.*/)?(?P<tree>{_NAMESPACE}_{_POD}_{_UID}/{_CONTAINER}/(?P<number>[0-9]{{1,9}})\.log)", re.DOTALL)
_CONTAINER_LINK = re.compile(rf"(?:.*/)?{_POD}_{_NAMESPACE}_{_CONTAINER}-(?P<uid>[0-9a-f]{{64}})\.log", re.DOTALL)

_NODE_DIRECTORIES = ("pods", "containers")
_DOCKER_LOGS = "/var/lib/docker/containers"
"""Where kubelet's links lead on a node with docker."""

_NO_LOG = re.compile(r"\.(?:gz|zst|bz2|xz|lz4|zip|tmp)")
_SHORT_NUMBER = re.compile(r"-[0-9]{1,7}")

_HASH_DIGITS = 10


@dataclass(frozen=True)
class Target:
    """One source that there is now; its paths are in reading order, oldest first."""

    name: str
    labels: Mapping[str, str]
    paths: tuple[str, ...]
    source: SourceConfig
    roots: tuple[str, ...] = ()
    """Directories, links resolved, out of which no link may lead; none is no bound."""


class _Container(NamedTuple):
    namespace: str
    pod: str
    container: str

    def name(self, prefix: str, taken: Collection[str]) -> str:
        """The name as a source, which no other container has; `taken` are the names in the configuration."""
        name = "_".join([prefix, *self] if prefix else self)
        if len(name) <= LONGEST_NAME and name not in taken:
            return name
        # A hash and no counter: the name must not depend on which other containers there are.
        digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]
        return f"{name[: LONGEST_NAME - 1 - _HASH_DIGITS]}-{digest}"


class _Log(NamedTuple):
    """A file of a container; kubelet counts `number` up with each restart."""

    path: str
    container: _Container
    uid: str
    number: int


class _Found(NamedTuple):
    source: SourceConfig
    path: str
    log: _Log | None
    key: object
    """What two paths to one file have in common."""
    written: float
    by_glob: bool


def discover(sources: Sequence[SourceConfig], log_roots: Sequence[str] = ()) -> list[Target]:
    """The sources that there are now, in the order of the configuration.

    A path stands for itself, there or not; a glob for the files that it matches now, so that a source of globs alone
    has no target until there is one. What lies in kubelet's layout becomes one target for each container. A file that
    is reached twice is followed once, by its path rather than by a glob, else by what stands first.

    What a container's log may be is bounded: by kubelet's two directories beside each other, docker's and `log_roots`. All
    other logs are bounded only where there are `log_roots`.
    """
    taken = {source.name for source in sources}
    files: dict[str, list[_Found]] = {}
    for found in _once([found for source in sources for found in _paths(source)]):
        files.setdefault(_name(found, taken), []).append(found)
    return [_target(name, found, log_roots) for name, found in files.items()]


def watch_roots(sources: Iterable[SourceConfig]) -> set[str]:
    """The directories, there or not, in which a new entry may be one that a glob matches, or leads to one."""
    roots: set[str] = set()
    for pattern in {path for source in sources for path in source.paths if _is_glob(path)}:
        directory = os.path.dirname(pattern)
        while glob.has_magic(directory):
            roots.update(os.path.dirname(path) for path in glob.iglob(os.path.join(directory, "")))
            directory = os.path.dirname(directory)
        roots.add(directory)
    return {root or os.curdir for root in roots if not CONTROL.search(root)}


def _is_glob(path: str) -> bool:
    return path != STDIN and glob.has_magic(path) and not os.path.lexists(path)


def _name(found: _Found, taken: Collection[str]) -> str:
    prefix = found.source.given_name
    # A plain path of a source with a name is what the user called by that name.
    if found.log and (found.by_glob or not prefix):
        return found.log.container.name(prefix, taken)
    return found.source.name


def _paths(source: SourceConfig) -> Iterator[_Found]:
    for path in source.paths:
        if not _is_glob(path):
            key, written = (path, 0.0) if path == STDIN else (_stat(path) or (path, 0.0))
            yield _Found(source, path, _log(path), key, written, by_glob=False)
            continue
        for match in sorted(glob.iglob(path)):
            if CONTROL.search(match) or _is_generation(match, os.path.basename(path)):
                continue
            log = _log(match)
            name = log.path if log else match
            status = _stat(name)
            if status:
                yield _Found(source, name, log, *status, by_glob=True)


def _is_generation(path: str, pattern: str) -> bool:
    """Whether a path under a glob, whose last part is `pattern`, is what a rotation left of another log.

    The log itself may be missing just now, between the rename and the create, so that it need not be there.
    """
    directory, name = os.path.split(path)
    if _NO_LOG.fullmatch(os.path.splitext(name)[1]):
        return True
    for log, suffix in rotated_from(name):
        if ends_like_a_log(log) or os.path.isfile(os.path.join(directory, log)):
            return True
        # engine-0 beside engine-1 are two engines.
        if not _SHORT_NUMBER.fullmatch(suffix) and fnmatch.fnmatchcase(log, pattern):
            return True
    return False


def _stat(path: str) -> tuple[object, float] | None:
    """What is the same for each path to this file, and when it was written; None when it is no log."""
    try:
        status = os.stat(path)
    except OSError as error:
        # A link whose target is not mounted, or a file in a directory that is closed to us, is to be seen as missing.
        waits = error.errno == errno.EACCES or (error.errno == errno.ENOENT and os.path.islink(path))
        return (path, 0.0) if waits else None
    return ((status.st_dev, status.st_ino), status.st_mtime) if stat.S_ISREG(status.st_mode) else None


def is_of_one_container(path: str) -> bool:
    """Whether kubelet begins another file when the container is restarted."""
    return _POD_LOG.fullmatch(path) is not None


def _log(path: str) -> _Log | None:
    """The container that a path belongs to, with its file under `pods` where that can be had."""
    match = _POD_LOG.fullmatch(path)
    if not match and (link := _CONTAINER_LINK.fullmatch(path)):
        match, path = _linked(path)
        if not match:
            return _Log(path, _Container(link["namespace"], link["pod"], link["container"]), link["uid"], 0)
    if not match:
        return None
    return _Log(path, _Container(match["namespace"], match["pod"], match["container"]), match["uid"], int(match["number"]))


def _linked(path: str) -> tuple[re.Match[str] | None, str]:
    """Where a link of /var/log/containers leads to: it is absolute, and the root may be mounted elsewhere."""
    try:
        target = os.path.join(os.path.dirname(path), os.readlink(path))
    except OSError:
        return None, path
    match = _POD_LOG.fullmatch(target)
    if match:
        beside = os.path.join(os.path.dirname(os.path.dirname(path)), "pods", match["tree"])
        for place in (target, beside):
            if os.path.lexists(place):
                return match, place
    return match, path


def _once(found: list[_Found]) -> Iterator[_Found]:
    first: dict[object, _Found] = {}
    for each in sorted(found, key=lambda each: each.by_glob):
        first.setdefault(each.key, each)
    return (each for each in found if first[each.key] is each)


def _target(name: str, found: list[_Found], log_roots: Sequence[str]) -> Target:
    source = found[0].source
    logs = [each.log for each in found]
    labels = dict(source.labels)
    if logs[0] and all(log and log.container == logs[0].container for log in logs):
        labels = logs[0].container._asdict() | labels
        found = _oldest_first(found)
    roots = {*log_roots, *(root for each in found if each.log for root in (*_node_roots(each.path), _DOCKER_LOGS))}
    return Target(name, labels, tuple(each.path for each in found), source, tuple(sorted(map(os.path.realpath, roots))))


def _node_roots(path: str) -> Iterator[str]:
    """The directories in which kubelet keeps logs, as a log in one of them shows: /var/log/pods and /var/log/containers."""
    match = _POD_LOG.fullmatch(path)
    root = os.path.abspath(path[: match.start("tree")] if match else os.path.dirname(path))
    yield root
    if os.path.basename(root) in _NODE_DIRECTORIES:
        yield from (os.path.join(os.path.dirname(root), name) for name in _NODE_DIRECTORIES)


def _oldest_first(found: list[_Found]) -> list[_Found]:
    """By pod, of which the last written is the newest, then by the number that kubelet counts up."""
    written: dict[str, float] = {}
    for each in found:
        uid = each.log.uid if each.log else ""
        written[uid] = max(each.written, written.get(uid, 0.0))

    def key(each: _Found) -> tuple[float, str, int]:
        return (written[each.log.uid], each.log.uid, each.log.number) if each.log else (0.0, "", 0)

    return sorted(found, key=key)
