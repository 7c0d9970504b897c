"""Certificates by the real openssl, for servers and clients of a test."""

import shutil
import subprocess
from pathlib import Path

import pytest

needs_tools = pytest.mark.skipif(not (shutil.which("curl") and shutil.which("openssl")), reason="needs curl and openssl")


def openssl(*arguments: str) -> str:
    """Run it; what it printed."""
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True, text=True, timeout=30).stdout


class Authority:
    """A certificate authority in a folder of its own."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder, self._name = folder, name
        self.cert = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        files = ("-keyout", str(self._key), "-out", str(self.cert))
        openssl("req", "-x509", *curve, *files, "-days", "2", "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign")

    def issue(self, name: str, cert: Path, key: Path) -> None:
        """Write a certificate for a name, and for 127.0.0.1, replacing what is there."""
        request = self._folder / f"{name}.csr"
        names = f"subjectAltName=DNS:{name},IP:127.0.0.1"
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", *curve, "-keyout", str(key), "-out", str(request), "-subj", f"/CN={name}", "-addext", names)
        signed = ("-CA", str(self.cert), "-CAkey", str(self._key), "-CAcreateserial", "-copy_extensions", "copy", "-days", "2")
        openssl("x509", "-req", "-in", str(request), *signed, "-out", str(cert))
