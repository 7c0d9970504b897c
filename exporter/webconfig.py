"""The web configuration file of the Prometheus exporters: TLS, client certificates, passwords, headers, a rate limit.

Keys and meaning are those of the exporter toolkit. What Python's TLS cannot do is an error, never left out in silence.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, model_validator

from exporter.config import CONTROL, Section
from exporter.config_errors import Location, did_you_mean, fault_of

_UNVERIFIED = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")
_VERIFIED = ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
_OLD_VERSIONS = ("TLS10", "TLS11")

TLS13_SUITES = frozenset(("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"))
"""They are always on: neither Go nor Python lets them be chosen."""

TLS12_SUITES = {
    f"TLS_ECDHE_{key}_WITH_{suite}": f"ECDHE-{key}-{openssl}"
    for key in ("ECDSA", "RSA")
    for suite, openssl in {
        "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
        "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
        "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
        "AES_128_CBC_SHA": "AES128-SHA",
        "AES_256_CBC_SHA": "AES256-SHA",
    }.items()
}
"""The toolkit's names, and OpenSSL's for the same."""

CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}

_HEADERS: dict[str, tuple[str, ...]] = {
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
    "Content-Security-Policy": (),
}
"""Those that may be set, and their values where these are few."""

_BCRYPT = re.compile(r"\$2[aby]\$(?:0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def _file(text: str, info: ValidationInfo) -> str:
    if CONTROL.search(text):
        raise ValueError("a path must not hold control characters")
    return str(Path(info.context or "", text)) if text else ""


def _client_auth_type(text: str) -> str:
    if text in _UNVERIFIED:
        raise ValueError(f"'{text}' takes certificates without verifying them, which Python's TLS cannot; choose {' or '.join(_VERIFIED)}")
    if text not in ("", "NoClientCert", *_VERIFIED):
        raise ValueError(f"not one of NoClientCert, {', '.join(_VERIFIED)}{did_you_mean(text, ('NoClientCert', *_VERIFIED))}")
    return text


def _version(text: str) -> str:
    if text in _OLD_VERSIONS:
        raise ValueError("OpenSSL 3 refuses TLS 1.0 and 1.1; choose TLS12 or TLS13")
    if text not in ("TLS12", "TLS13"):
        raise ValueError(f"not one of TLS12, TLS13{did_you_mean(text, ('TLS12', 'TLS13'))}")
    return text


def _suite(text: str) -> str:
    known = TLS13_SUITES | TLS12_SUITES.keys()
    if text not in known:
        raise ValueError(f"not a cipher suite that the exporter toolkit takes{did_you_mean(text, sorted(known))}")
    return text


def _curves(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) > 1:
        raise ValueError("Python's TLS takes one curve; name the first alone, or none for OpenSSL's own choice")
    for name in names:
        if name not in CURVES:
            raise ValueError(f"not one of {', '.join(CURVES)}{did_you_mean(name, CURVES)}")
    return names


def _http2(on: bool) -> bool:
    if on:
        raise ValueError("only HTTP/1.1 is spoken here; leave it out, or set it to false")
    return on


def _header(name: str) -> str:
    if name not in _HEADERS:
        raise ValueError(f"this header cannot be set{did_you_mean(name, _HEADERS)}")
    return name


def _headers(headers: Mapping[str, str | None]) -> Mapping[str, str]:
    given = {name: value for name, value in headers.items() if value}
    for name, value in given.items():
        if not value.isascii() or CONTROL.search(value):
            raise ValueError(f"the value of {name} is not plain ASCII text")
        if _HEADERS[name] and value not in _HEADERS[name]:
            raise ValueError(f"{name} may be {' or '.join(_HEADERS[name])}")
    return given


def _bcrypt(text: str) -> str:
    if not _BCRYPT.fullmatch(text):
        raise ValueError("not a bcrypt hash, as htpasswd -nB prints one behind the colon")
    return text


def _user(text: str) -> str:
    if ":" in text:
        raise ValueError("a user's name cannot hold ':'")
    return text


def _seconds(text: str) -> str:
    parts = _DURATION.findall(text)
    if text != "0" and (not parts or "".join(parts) != text):
        raise ValueError('expected a duration such as "100ms" or "1m30s"')
    return text


FilePath = Annotated[str, AfterValidator(_file)]
Version = Annotated[str, AfterValidator(_version)]
Pem = Annotated[str, Field(repr=False)]


class TlsServerConfig(Section):
    """The server's certificate, and what is asked of clients."""

    cert: Pem = ""
    key: Pem = ""
    client_ca: Pem = ""
    cert_file: FilePath = ""
    key_file: FilePath = ""
    client_ca_file: FilePath = ""
    client_auth_type: Annotated[str, AfterValidator(_client_auth_type)] = ""
    client_allowed_sans: tuple[str, ...] = ()
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    cipher_suites: tuple[Annotated[str, AfterValidator(_suite)], ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: Annotated[tuple[str, ...], AfterValidator(_curves)] = ()

    @property
    def verifies_clients(self) -> bool:
        """Whether client certificates are asked for."""
        return self.client_auth_type in _VERIFIED

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for inline, file in (("cert", "cert_file"), ("key", "key_file"), ("client_ca", "client_ca_file")):
            if getattr(self, inline) and getattr(self, file):
                raise ValueError(f"give '{inline}' or '{file}', not both")
        for inline, file in (("cert", "cert_file"), ("key", "key_file")):
            if not getattr(self, inline) and not getattr(self, file):
                raise ValueError(f"'{inline}' or '{file}' is missing")
        if self.verifies_clients != bool(self.client_ca or self.client_ca_file):
            missing = (
                "'client_ca_file' is missing" if self.verifies_clients else f"client certificates need client_auth_type {_VERIFIED[1]}"
            )
            raise ValueError(missing)
        if self.client_allowed_sans and self.client_auth_type != _VERIFIED[1]:
            raise ValueError(f"'client_allowed_sans' needs client_auth_type {_VERIFIED[1]}")
        if self.min_version > self.max_version:
            raise ValueError("'min_version' is above 'max_version'")
        if self.cipher_suites and self.min_version == "TLS12" and not set(self.cipher_suites) & TLS12_SUITES.keys():
            raise ValueError("'cipher_suites' names none of TLS 1.2: set min_version to TLS13, whose suites are always on")
        return self


class HttpServerConfig(Section):
    """What goes with each answer."""

    http2: Annotated[bool, AfterValidator(_http2)] = False
    headers: Annotated[Mapping[Annotated[str, AfterValidator(_header)], str | None], AfterValidator(_headers)] = Field(default_factory=dict)


class RateLimit(Section):
    """A token bucket for all requests together."""

    interval: Annotated[str, AfterValidator(_seconds)] = "0"
    burst: Annotated[int, Field(ge=0)] = 0

    @property
    def seconds(self) -> float:
        """The time in which a token comes back; 0 is no limit."""
        return math.fsum(float(part.rstrip("nuµmsh")) * _UNITS[part.lstrip("0123456789.")] for part in _DURATION.findall(self.interval))

    @model_validator(mode="after")
    def _lets_something_through(self) -> Self:
        if self.seconds and not self.burst:
            raise ValueError("'burst' must be at least 1, or every request is refused")
        return self


class WebSettings(Section):
    """The whole file."""

    tls_server_config: TlsServerConfig | None = None
    http_server_config: HttpServerConfig = HttpServerConfig()
    basic_auth_users: Mapping[Annotated[str, AfterValidator(_user)], Annotated[str, AfterValidator(_bcrypt)]] = Field(default_factory=dict)
    rate_limit: RateLimit = RateLimit()


_KEYS: dict[Location, Sequence[str]] = {
    (): tuple(WebSettings.model_fields),
    ("tls_server_config",): tuple(TlsServerConfig.model_fields),
    ("http_server_config",): tuple(HttpServerConfig.model_fields),
    ("rate_limit",): tuple(RateLimit.model_fields),
}


def load_web_settings(path: str | os.PathLike[str]) -> WebSettings:
    """Read a web configuration file; relative paths in it are relative to its directory. Raises ConfigError."""
    from exporter.document import Document

    document = Document(Path(path))
    faults = list(document.faults)
    settings = None
    try:
        settings = WebSettings.model_validate(document.data, context=document.path.parent)
    except ValidationError as error:
        faults += [fault_of(item, _KEYS.get(item["loc"][:-1], ())) for item in error.errors(include_url=False)]
    if settings is None or faults:
        raise document.first_error(faults)
    return settings
