"""Releases as the index has them: wheels, archives and source trees with a few files."""

import io
import tarfile
import zipfile

import pytest


@pytest.fixture
def wheel(tmp_path):
    """Makes a wheel of a distribution from the text of its files."""

    def make(files, name="vllm", version="0.33.0"):
        path = tmp_path / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for file, text in files.items():
                archive.writestr(file, text)
            archive.writestr(
                f"{name}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nAbout it.\n"
            )
        return path

    return make


@pytest.fixture
def archive(tmp_path):
    """The same as a source archive."""

    def make(files, name="vllm", version="0.33.0"):
        path = tmp_path / f"{name}-{version}.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            for file, text in {**files, "PKG-INFO": f"Name: {name}\nVersion: {version}\n"}.items():
                data = text.encode()
                entry = tarfile.TarInfo(f"{name}-{version}/{file}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        return path

    return make
