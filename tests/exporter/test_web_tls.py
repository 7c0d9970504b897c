"""TLS, certificates and passwords as real tools see them: curl and openssl against a daemon."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import bcrypt
import pytest

from .certificates import Authority, needs_tools, openssl
from .conftest import READY, Running, free_port, inferlog, logo, wait_for

pytestmark = [pytest.mark.slow, needs_tools]

Start = Callable[..., Running]


def hashed(password: str) -> str:
    """As htpasswd prints it, cheap."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


class Served:
    """A daemon behind a web configuration file that changes."""

    def __init__(self, run: Start, folder: Path) -> None:
        self._run, self.folder = run, folder
        self.authority = Authority(folder)
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        self.authority.issue("localhost", self.cert, self.key)
        (folder / "engine.log").write_text(f"{logo()}\n{READY}\n")
        self.port = free_port()

    def write(self, tls: str = "", more: str = "") -> None:
        """Change the file."""
        section = "tls_server_config: {cert_file: cert.pem, key_file: key.pem%s}\n" % (f", {tls}" if tls else "")
        (self.folder / "web.yml").write_text(section + more)

    def start(self, *credentials: str) -> "Served":
        """Start the daemon and wait for it."""
        arguments = ("--log", str(self.folder / "engine.log"), "--web.config.file", str(self.folder / "web.yml"))
        self.daemon = self._run(*arguments, port=self.port)
        wait_for(lambda: self.daemon.process.poll() is not None or self.curl("/-/ready", *credentials)[1] == 200, "the daemon")
        return self

    def curl(self, path: str, *arguments: str, scheme: str = "https") -> tuple[int, int]:
        """Exit code and HTTP status of curl, which trusts our authority only."""
        url = f"{scheme}://127.0.0.1:{self.port}{path}"
        command = ["curl", "--silent", "--noproxy", "*", "--max-time", "10", "--cacert", str(self.authority.cert), *arguments]
        done = subprocess.run([*command, "--output", "/dev/null", "--write-out", "%{http_code}", url], capture_output=True, check=False)
        return done.returncode, int(done.stdout)

    def shown_serial(self) -> str:
        """The serial number of the certificate that the server shows."""
        shown = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        file = self.folder / "shown.pem"
        file.write_bytes(shown.stdout)
        return openssl("x509", "-in", str(file), "-noout", "-serial")

    def serial(self) -> str:
        """That of the certificate in the file."""
        return openssl("x509", "-in", str(self.cert), "-noout", "-serial")


@pytest.fixture
def served(run: Start, tmp_path: Path) -> Served:
    """A server that is to be started."""
    return Served(run, tmp_path)


def test_a_password_lets_in_and_a_wrong_one_does_not(served: Served) -> None:
    """For each path; no credentials, a wrong password and a user that there is not are one answer."""
    served.write(more=f"basic_auth_users: {{prometheus: '{hashed('right')}'}}\n")
    served.start("--user", "prometheus:right")
    for path in ("/metrics", "/", "/-/healthy", "/nothing"):
        for wrong in ((), ("--user", "prometheus:wrong"), ("--user", "nobody:right"), ("--header", "Authorization: Basic %%%")):
            assert (0, 401) == served.curl(path, *wrong)
    assert (0, 200) == served.curl("/metrics", "--user", "prometheus:right")
    assert (0, 404) == served.curl("/nothing", "--user", "prometheus:right")


def test_plain_http_is_refused(served: Served) -> None:
    """Nothing is answered to it, not even that TLS is spoken here; curl's exit code 52 or 56 is an empty answer."""
    served.write()
    served.start()
    code, status = served.curl("/metrics", scheme="http")
    assert code in {52, 56}
    assert 0 == status


def test_a_certificate_is_rotated_without_a_restart(served: Served) -> None:
    """The next connection gets the new one. Between the two files the pair does not fit: the old one stays."""
    served.write()
    served.start()
    first = served.serial()
    assert first == served.shown_serial()

    new_cert, new_key = served.folder / "new.pem", served.folder / "new.key"
    served.authority.issue("localhost", new_cert, new_key)
    new_cert.replace(served.cert)
    assert first == served.shown_serial()
    assert "TLS stays as it was" in served.daemon.errors.read_text()
    new_key.replace(served.key)
    assert first != served.serial() == served.shown_serial()
    assert (0, 200) == served.curl("/metrics")


def test_a_client_certificate_is_required_when_set(served: Served) -> None:
    """Of our authority and no other; and, where names are listed, with one of these."""
    served.write("client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem")
    client = served.folder / "client.pem", served.folder / "client.key"
    served.authority.issue("prometheus", *client)
    stranger = served.folder / "stranger.pem", served.folder / "stranger.key"
    Authority(served.folder, "other").issue("prometheus", *stranger)
    own, others = (("--cert", str(cert), "--key", str(key)) for cert, key in (client, stranger))
    served.start(*own)
    assert (0, 200) == served.curl("/metrics", *own)
    assert 0 == served.curl("/metrics")[1]
    assert 0 == served.curl("/metrics", *others)[1]

    served.write("client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem, client_allowed_sans: [somebody.else]")
    assert 0 == served.curl("/metrics", *own)[1]
    served.write("client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem, client_allowed_sans: [prometheus]")
    assert (0, 200) == served.curl("/metrics", *own)

    served.write("client_auth_type: RequireAndVerifyClientCert, client_ca_file: other.pem")
    assert 0 == served.curl("/metrics", *own)[1]
    assert (0, 200) == served.curl("/metrics", *others)


def test_versions_and_suites_are_those_that_are_set(served: Served) -> None:
    """TLS 1.2 with one suite, then 1.3 only."""
    served.write("max_version: TLS12, cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]")
    served.start()
    assert (0, 200) == served.curl("/metrics", "--ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384")
    assert 35 == served.curl("/metrics", "--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256")[0]
    assert 35 == served.curl("/metrics", "--tlsv1.3")[0]
    served.write("min_version: TLS13")
    assert 35 == served.curl("/metrics", "--tls-max", "1.2")[0]
    assert (0, 200) == served.curl("/metrics", "--tlsv1.3")


def test_a_certificate_and_key_may_stand_in_the_file(served: Served) -> None:
    """As the toolkit has it; the key is written to no disk."""
    inline = "".join(
        f"  {key}: |\n" + "".join(f"    {line}\n" for line in file.read_text().splitlines())
        for key, file in (("cert", served.cert), ("key", served.key))
    )
    (served.folder / "web.yml").write_text(f"tls_server_config:\n{inline}")
    served.start()
    assert (0, 200) == served.curl("/metrics")


def test_the_file_is_read_at_each_request(served: Served) -> None:
    """Users come and go, headers change; while it is no good nobody gets in, and it is said once."""
    served.write(more=f"basic_auth_users: {{a: '{hashed('1')}'}}\n")
    served.start("--user", "a:1")
    served.write(more=f"basic_auth_users: {{b: '{hashed('2')}'}}\n")
    assert (0, 401) == served.curl("/metrics", "--user", "a:1")
    assert (0, 200) == served.curl("/metrics", "--user", "b:2")

    served.write(more="basic_auth_user: {}\n")
    assert [(0, 500)] * 3 == [served.curl("/metrics", "--user", "b:2") for _ in range(3)]
    told = served.daemon.errors.read_text()
    assert 1 == told.count("all requests are refused")
    assert "did you mean 'basic_auth_users'?" in told
    (served.folder / "web.yml").write_text("{}")
    assert (0, 500) == served.curl("/metrics")

    served.write(more="rate_limit: {interval: 1h, burst: 2}\n")
    assert [(0, 200), (0, 200), (0, 429)] == [served.curl("/metrics") for _ in range(3)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tls_server_config: {cert_file: cert.pem, key_file: other.pem}", "other.pem: No such file or directory"),
        ("tls_server_config: {cert_file: cert.pem, key_file: ca.key}", "the certificate and its key cannot be used: KEY_VALUES_MISMATCH"),
        ("tls_server_config: {cert_file: web.yml, key_file: key.pem}", "the certificate and its key cannot be used"),
        ("tls_server_config: {cert_file: cert.pem, key_file: locked.key}", "the key is encrypted"),
        (
            "tls_server_config: {cert_file: cert.pem, key_file: key.pem, client_ca_file: key.pem, client_auth_type: VerifyClientCertIfGiven}",
            "client_ca_file: no certificates in PEM",
        ),
        ("basic_auth_users: {a: b}", "web.yml:1:23: basic_auth_users.a: not a bcrypt hash"),
    ],
)
def test_a_bad_file_ends_the_start(served: Served, text: str, reason: str) -> None:
    """At once, with exit code 2 and one line."""
    openssl("ec", "-in", str(served.key), "-aes128", "-passout", "pass:x", "-out", str(served.folder / "locked.key"))
    (served.folder / "web.yml").write_text(text)
    done = inferlog(
        "run", "--log", "engine.log", "--web.config.file", "web.yml", "--web.listen-address", f"127.0.0.1:{served.port}", cwd=served.folder
    )
    assert 2 == done.returncode
    assert reason in done.stderr.decode()
    assert 1 == done.stderr.count(b"\n")
