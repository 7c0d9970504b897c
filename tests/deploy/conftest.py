"""What the tests of deployment need: the tools, the rendered manifests, the image, and daemons."""

import functools
import importlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import tool
from tests.exporter.conftest import inferlog, run

__all__ = ("DEPLOY", "ROOT", "Podman", "documents", "library", "podman", "rendered", "run")

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
IMAGE = "localhost/inferlog:test"
BASE = "localhost/python:3.13-slim"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `inferlog export manifests` makes of deploy/."""
    folder = tmp_path_factory.mktemp("exported")
    done = inferlog("export", "manifests", str(folder))
    assert done.returncode == 0, done.stderr
    return folder / "deploy"


@functools.cache
def rendered(folder: str) -> str:
    """What `kubectl apply -k` would apply of a folder below deploy/, or of one elsewhere."""
    done = subprocess.run(
        [tool("kustomize", "kustomize of sid; .ci/kustomize DIR unpacks it"), "build", str(DEPLOY / folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(folder: str) -> list[dict[str, Any]]:
    """The same as objects."""
    return [each for each in yaml.safe_load_all(rendered(folder)) if each]


def library(name: str) -> Any:
    """A module of the dependency group `deploy`; where it is missing, CI fails and others skip."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{name} is not installed (pip install --group deploy)", allow_module_level=True)


class Podman:
    """podman and buildah, with settings under which they run as root in a container, too."""

    def __init__(self, folder: Path) -> None:
        runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
        (folder / "containers.conf").write_text(
            '[containers]\ndefault_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]\n'
            f'[engine]\n{runtime}cgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        )
        (folder / "registries.conf").write_text('unqualified-search-registries = ["localhost"]\n')
        self._environment = os.environ | {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
        }

    def __call__(self, *command: str, program: str = "podman", timeout: float = 120, check: bool = True) -> str:
        """Run a command; what it prints."""
        done = subprocess.run([program, *command], env=self._environment, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0 or not check, f"{program} {' '.join(command)}: {done.stderr}"
        return done.stdout

    def build(self, folder: Path, tag: str, *options: str) -> None:
        """Build an image from a folder with a Dockerfile; nothing is pulled."""
        common = ("--pull-never", "--format", "docker", "--isolation", "chroot", "--quiet")
        self("bud", *common, *options, "--tag", tag, str(folder), program="buildah", timeout=300)

    def inspect(self, name: str, form: str) -> str:
        """A field of a container or an image."""
        return self("inspect", name, "--format", form).strip()


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """With the image of this checkout as `localhost/inferlog:test`."""
    tool("podman", "podman")
    tool("buildah", "buildah")
    found = Podman(tmp_path_factory.mktemp("podman"))
    if not found("images", "--quiet", BASE).strip():
        reason = f"{BASE} is not there: see .ci/base-image"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    trust = ("--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro") if Path(CERTIFICATES).exists() else ()
    found.build(ROOT, IMAGE, "--network", "host", *trust)
    yield found
    found("rmi", "--force", IMAGE, check=False)
