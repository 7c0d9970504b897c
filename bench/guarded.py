"""What a scrape costs behind a password and TLS, over one connection and over one each: curl asks."""

import subprocess
import time
from pathlib import Path

import bcrypt

from bench.process import Daemon, workspace
from bench.report import Section
from bench.resident import copies
from bench.sizes import Sizes

_TLS = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
_COST = 10
_USER = "bench:secret"


def measure(sizes: Sizes) -> Section:
    """One engine."""
    section = Section(
        "A scrape with a password and TLS",
        f"CPU of the daemon for each of {sizes.scrapes} plain scrapes of one engine; the first one of a password has its hash to compute.",
        ("web configuration", "connection", "CPU ms", f"the first, bcrypt at cost {_COST}"),
    )
    with workspace() as folder:
        _certificate(folder)
        users = f"basic_auth_users: {{bench: '{bcrypt.hashpw(b'secret', bcrypt.gensalt(_COST)).decode()}'}}\n"
        for label, text in (("none", "{}"), ("password", users), ("TLS and password", _TLS + users)):
            for reused in (True, False):
                first, each = _of_one(folder, text, sizes.scrapes, reused=reused)
                section.rows.append((label, "kept" if reused else "one each", f"{each:.2f}", f"{first:.1f}"))
    return section


def _certificate(folder: Path) -> None:
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1")
    files = ("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"))
    subprocess.run(["openssl", "req", "-x509", *curve, *files, *subject], check=True, capture_output=True)


def _of_one(folder: Path, web_config: str, scrapes: int, *, reused: bool) -> tuple[float, float]:
    """CPU milliseconds of the first scrape and of one of the next."""
    (folder / "web.yml").write_text(web_config)
    with Daemon(copies(folder, 1), folder, "--web.config.file", str(folder / "web.yml")) as daemon:
        base = f"{'https' if _TLS in web_config else 'http'}://127.0.0.1:{daemon.port}"
        deadline = time.monotonic() + 30
        while not _curl(folder, [f"{base}/-/ready"], "nobody:x", {"200", "401"}) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(2)
        url = f"{base}/metrics"
        before = daemon.cpu
        _curl(folder, [url])
        after = daemon.cpu
        for urls in [[url] * scrapes] if reused else [[url]] * scrapes:
            assert _curl(folder, urls) == len(urls), "not every scrape was answered"
        return (after - before) * 1000, (daemon.cpu - after) * 1000 / scrapes


def _curl(folder: Path, urls: list[str], user: str = _USER, wanted: frozenset[str] | set[str] = frozenset({"200"})) -> int:
    """How many were answered as wanted."""
    options = ["--silent", "--noproxy", "*", "--cacert", str(folder / "cert.pem"), "--user", user, "--write-out", "%{http_code}\n"]
    targets = [part for url in urls for part in ("--output", "/dev/null", url)]
    done = subprocess.run(["curl", *options, *targets], capture_output=True, text=True, check=False)
    return sum(code in wanted for code in done.stdout.split())
