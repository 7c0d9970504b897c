"""The web configuration file: what is taken, and how a mistake is told."""

from pathlib import Path

import pytest

from exporter.config_errors import ConfigError
from exporter.webconfig import RateLimit, load_web_settings

HASH = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"
TLS = "tls_server_config:\n  cert_file: c.pem\n  key_file: k.pem\n"


def load(folder: Path, text: str):
    """What a file with this text says."""
    file = folder / "web.yml"
    file.write_text(text)
    return load_web_settings(file)


def test_all_that_the_toolkit_documents_is_taken(tmp_path: Path) -> None:
    """Paths are relative to the file."""
    settings = load(
        tmp_path,
        f"""{TLS}  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
  client_allowed_sans: [prometheus.example]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences: [X25519]
http_server_config:
  http2: false
  headers: {{X-Frame-Options: deny, Content-Security-Policy: "default-src 'self'", X-XSS-Protection: ""}}
basic_auth_users: {{alice: {HASH}}}
rate_limit: {{interval: 1m0.5s, burst: 3}}
""",
    )
    tls = settings.tls_server_config
    assert tls
    assert (tls.cert_file, tls.client_ca_file) == (f"{tmp_path}/c.pem", f"{tmp_path}/ca.pem")
    assert not tls.prefer_server_cipher_suites
    assert settings.http_server_config.headers == {"X-Frame-Options": "deny", "Content-Security-Policy": "default-src 'self'"}
    assert settings.basic_auth_users == {"alice": HASH}
    assert (settings.rate_limit.seconds, settings.rate_limit.burst) == (60.5, 3)


@pytest.mark.parametrize("text", ["{}", "basic_auth_users:\n", "tls_server_config:\nrate_limit:\n"])
def test_nothing_asked_for_is_nothing(tmp_path: Path, text: str) -> None:
    """As in the toolkit."""
    settings = load(tmp_path, text)
    assert settings.tls_server_config is None
    assert not settings.basic_auth_users


MISTAKES = {
    "tls_server_confg: {}": "1:1: key 'tls_server_confg': unknown key; did you mean 'tls_server_config'?",
    TLS + "  cert_fil: c.pem\n": "4:3: key 'tls_server_config.cert_fil': unknown key; did you mean 'cert_file'?",
    TLS + "  min_version: TLS10\n": "4:16: tls_server_config.min_version: OpenSSL 3 refuses TLS 1.0 and 1.1; choose TLS12 or TLS13",
    TLS + "  min_version: tls1.2\n": "4:16: tls_server_config.min_version: not one of TLS12, TLS13; did you mean 'TLS12'?",
    TLS + "  min_version: TLS13\n  max_version: TLS12\n": "'min_version' is above 'max_version'",
    TLS + "  client_auth_type: RequireAnyClientCert\n  client_ca_file: a\n": "without verifying them, which Python's TLS cannot",
    TLS + "  client_auth_type: RequireAndVerify\n": "did you mean 'RequireAndVerifyClientCert'?",
    TLS + "  client_auth_type: RequireAndVerifyClientCert\n": "'client_ca_file' is missing",
    TLS + "  client_ca_file: ca.pem\n": "client certificates need client_auth_type RequireAndVerifyClientCert",
    TLS + "  client_allowed_sans: [a]\n": "'client_allowed_sans' needs client_auth_type RequireAndVerifyClientCert",
    TLS + "  cipher_suites: [TLS_ECDHE_RSA_WITH_RC4_128_SHA]\n": "4:19: tls_server_config.cipher_suites[0]: not a cipher suite",
    TLS + "  cipher_suites: [TLS_AES_128_GCM_SHA256]\n": "names none of TLS 1.2",
    TLS + "  curve_preferences: [X25519, CurveP256]\n": "Python's TLS takes one curve",
    TLS + "  curve_preferences: [Curve256]\n": "did you mean 'CurveP256'?",
    TLS + "  prefer_server_cipher_suites: maybe\n": "expected true or false, not a text",
    TLS + "  cert: x\n": "give 'cert' or 'cert_file', not both",
    "tls_server_config: {cert_file: c.pem}": "'key' or 'key_file' is missing",
    "tls_server_config: {min_version: TLS13}": "'cert' or 'cert_file' is missing",
    "http_server_config: {http2: true}": "1:29: http_server_config.http2: only HTTP/1.1 is spoken here",
    "http_server_config: {headers: {Server: x}}": "1:32: key 'http_server_config.headers.Server': this header cannot be set",
    "http_server_config: {headers: {x-frame-option: deny}}": "did you mean 'X-Frame-Options'?",
    "http_server_config: {headers: {X-Frame-Options: allow}}": "X-Frame-Options may be deny or sameorigin",
    'http_server_config: {headers: {X-XSS-Protection: "0\\r\\nSet-Cookie: a"}}': "the value of X-XSS-Protection is not plain ASCII text",
    "basic_auth_users: {alice: hunter2}": "1:27: basic_auth_users.alice: not a bcrypt hash",
    f"basic_auth_users: {{'a:b': {HASH}}}": "a user's name cannot hold ':'",
    "rate_limit: {interval: 1 second, burst: 1}": "expected a duration such as",
    "rate_limit: {interval: 1s}": "'burst' must be at least 1",
    "rate_limit: {interval: 1s, burst: many}": "1:35: rate_limit.burst: expected a whole number, not a text",
    "": "the file is empty",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str) -> None:
    """File, line, column and key; what is not supported is never left out in silence; no value that may be secret is quoted."""
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path}/web.yml:")
    assert MISTAKES[text] in str(error.value)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("0s", 0), ("100ms", 0.1), ("1m30s", 90), (".5s", 0.5), ("1us", 1e-6), ("2h", 7200)]
)
def test_durations_are_gos(text: str, seconds: float) -> None:
    """Each unit."""
    assert seconds == pytest.approx(RateLimit(interval=text, burst=1).seconds)
