"""A release of an engine or a library: a wheel, an archive or a source tree, read member by member and never unpacked to disk."""

import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

PYTHON = (".py",)
NATIVE = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".go", ".rs")
BINARY = (".so",)
_METADATA = re.compile(r"(?:[^/]+\.dist-info/METADATA|(?:[^/]+/)?PKG-INFO)$")
_FILE_NAME = re.compile(r"(?P<name>[A-Za-z][\w.]*?)-(?P<version>\d[^-/]*?)(?:-|\.tar|\.zip|/|$)")
_LARGEST_MEMBER = 96 * 1024 * 1024
_NOT_THE_ENGINE = re.compile(r"(?:^|/)(?:tests?|benchmarks?|examples?|cutlass|cute|3rdparty)/")


Wanted: TypeAlias = Callable[[str, int], bool]
"""Whether a member of this name and size is read."""


class ReleaseError(Exception):
    """A path that is no release; the message is for people."""


@dataclass(frozen=True)
class Member:
    """One file of a release."""

    path: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class Release:
    """The sources of one release. Raises ReleaseError when the path is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            raise ReleaseError(f"{path}: no such file or directory")
        self.name, self.version = self._identity()

    def members(self, suffixes: tuple[str, ...]) -> Iterator[Member]:
        """Files with these suffixes, without tests, benchmarks and other projects' trees."""
        for name, data in self._files(suffixes):
            if not _NOT_THE_ENGINE.search(name):
                yield Member(name, data)

    def _identity(self) -> tuple[str, str]:
        """Name and version: of the metadata, else of the file's name."""
        for _, data in self._files(("METADATA", "PKG-INFO"), _METADATA):
            fields = dict(line.split(": ", 1) for line in data.decode("utf-8", "replace").split("\n\n")[0].splitlines() if ": " in line)
            if "Name" in fields and "Version" in fields:
                return normalised(fields["Name"]), fields["Version"]
        if found := _FILE_NAME.match(self.path.name):
            return normalised(found["name"]), found["version"]
        if not self.path.is_dir():
            raise ReleaseError(f"{self.path}: neither its metadata nor its name tells a version")
        return normalised(self.path.resolve().name), self._declared_version()

    def _declared_version(self) -> str:
        """What a source tree without metadata says: a file of its package that is called after it."""
        for candidate in ("pyproject.toml", "version.py", "_version.py", "*/version.py", "*/_version.py"):
            for file in sorted(self.path.glob(candidate)):
                if found := re.search(r"(?m)^(?:__version__|version)\s*=\s*[\"']([\w.+-]+)", file.read_text("utf-8", "replace")):
                    return found[1]
        return "unknown"

    def _files(self, suffixes: tuple[str, ...], pattern: re.Pattern[str] | None = None) -> Iterator[tuple[str, bytes]]:
        def wanted(name: str, size: int) -> bool:
            return (
                (name.endswith(suffixes) or (BINARY[0] in suffixes and ".so." in name))
                and size <= _LARGEST_MEMBER
                and (pattern is None or pattern.match(name) is not None)
            )

        if self.path.is_dir():
            for file in sorted(self.path.rglob("*")):
                name = file.relative_to(self.path).as_posix()
                if file.is_file() and wanted(name, file.stat().st_size):
                    yield name, file.read_bytes()
        elif zipfile.is_zipfile(self.path):
            yield from self._of_zip(wanted)
        else:
            yield from self._of_tar(wanted)

    def _of_zip(self, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                for entry in archive.infolist():
                    if wanted(entry.filename, entry.file_size):
                        yield entry.filename, archive.read(entry)
        except (OSError, zipfile.BadZipFile, RuntimeError) as error:
            raise ReleaseError(f"{self.path}: {error}") from error

    def _of_tar(self, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
        try:
            with tarfile.open(self.path) as archive:
                for entry in archive:
                    if entry.isfile() and wanted(entry.name, entry.size) and (file := archive.extractfile(entry)) is not None:
                        yield entry.name, file.read()
        except (OSError, tarfile.TarError, EOFError) as error:
            raise ReleaseError(f"{self.path}: neither a wheel, an archive nor a directory") from error


def normalised(name: str) -> str:
    """A distribution's name as the index compares them."""
    return re.sub(r"[-_.]+", "-", name).lower()
