"""What a scrape costs the daemon in CPU, with a password and TLS: `python bench/scrape.py`.

The daemon reads a bundled log, and its state file is written before each answer as in production. CPU time is the
daemon's own, user and system, of all its threads. curl asks; with `reused` over one connection, else over one each.
"""

import os
import subprocess
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path

import bcrypt

SCRAPES = 200
PORT = 29_977
TLS = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
COST = 10


def main() -> None:
    """Print a table."""
    with tempfile.TemporaryDirectory(prefix="inferlog-bench-") as name:
        folder = Path(name)
        subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1")
        files = ("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"))
        subprocess.run(["openssl", "req", "-x509", *curve, *files, *subject], check=True, capture_output=True)
        users = f"basic_auth_users: {{bench: '{bcrypt.hashpw(b'secret', bcrypt.gensalt(COST)).decode()}'}}\n"
        print("| web configuration | connection | CPU ms a scrape | the first, bcrypt at cost 10 |\n|---|---|---|---|")
        for label, text in (("none", "{}"), ("password", users), ("TLS and password", TLS + users)):
            for reused in (True, False):
                first, each = measure(folder, text, reused=reused)
                print(f"| {label} | {'reused' if reused else 'each its own'} | {each:.2f} | {first:.1f} |")


def measure(folder: Path, web_config: str, *, reused: bool) -> tuple[float, float]:
    """CPU milliseconds of the first scrape and of one of the next."""
    (folder / "web.yml").write_text(web_config)
    log = resources.files("exporter") / "demo_logs" / "pd-decode.log"
    arguments = ["--log", str(log), "--state-file", str(folder / "state.json"), "--web.config.file", str(folder / "web.yml")]
    daemon = subprocess.Popen(
        [sys.executable, "-m", "exporter", "run", *arguments, "--web.listen-address", f"127.0.0.1:{PORT}"], stderr=subprocess.DEVNULL
    )
    url = f"{'https' if TLS in web_config else 'http'}://127.0.0.1:{PORT}/metrics"
    try:
        deadline = time.monotonic() + 30
        while curl(folder, [f"{url.removesuffix('/metrics')}/-/ready"], "nobody:x") == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(2)
        first = cpu_ms(daemon.pid)
        curl(folder, [url])
        before = cpu_ms(daemon.pid)
        for urls in [[url] * SCRAPES] if reused else [[url]] * SCRAPES:
            assert curl(folder, urls) == len(urls), "not every scrape was answered"
        return before - first, (cpu_ms(daemon.pid) - before) / SCRAPES
    finally:
        daemon.terminate()
        daemon.wait(20)


def curl(folder: Path, urls: list[str], user: str = "bench:secret") -> int:
    """How many of these were answered with metrics; of others whether they were at all."""
    options = ["--silent", "--noproxy", "*", "--cacert", str(folder / "cert.pem"), "--user", user, "--write-out", "%{http_code}\n"]
    targets = [part for url in urls for part in ("--output", "/dev/null", url)]
    done = subprocess.run(["curl", *options, *targets], capture_output=True, text=True, check=False)
    wanted = {"200"} if urls[0].endswith("/metrics") else {"200", "401"}
    return sum(code in wanted for code in done.stdout.split())


def cpu_ms(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
