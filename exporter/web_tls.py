"""TLS whose certificates may change under a running server: each connection takes those that are there when it begins."""

import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

from exporter.config_errors import ConfigError
from exporter.webconfig import CURVES, TLS12_SUITES, TlsServerConfig

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_SAN_KINDS = ("DNS", "email", "IP Address", "URI")

logger = logging.getLogger("inferlog.web")


class _Tls(NamedTuple):
    """All that a context is made of."""

    settings: TlsServerConfig
    cert: bytes
    key: bytes
    client_ca: bytes

    @classmethod
    def read(cls, settings: TlsServerConfig) -> Self:
        """As the files are now. Raises ConfigError."""
        return cls(
            settings,
            _pem("cert_file", settings.cert_file, settings.cert),
            _pem("key_file", settings.key_file, settings.key),
            _pem("client_ca_file", settings.client_ca_file, settings.client_ca),
        )

    def context(self) -> ssl.SSLContext:
        """A context of these. Raises ConfigError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = _VERSIONS[self.settings.min_version], _VERSIONS[self.settings.max_version]
        if not self.settings.prefer_server_cipher_suites:
            context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        # What Go refuses in any case: a client may not make the server negotiate again and again.
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        if chosen := [TLS12_SUITES[name] for name in self.settings.cipher_suites if name in TLS12_SUITES]:
            context.set_ciphers(":".join(chosen))
        for curve in self.settings.curve_preferences:
            context.set_ecdh_curve(CURVES[curve])
        self._load_certificate(context)
        self._verify_clients(context)
        return context

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        # Python loads from a path only: a file in memory leaves a key that stands in the configuration off the disk, and
        # what was compared is what is loaded.
        memory = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(self.cert + b"\n" + self.key)
            context.load_cert_chain(f"/proc/self/fd/{memory}", password=_refuse_password)
        except ssl.SSLError as error:
            raise ConfigError(f"the certificate and its key cannot be used: {error.reason or 'no PEM, or not a pair'}") from None
        finally:
            os.close(memory)

    def _verify_clients(self, context: ssl.SSLContext) -> None:
        if not self.settings.verifies_clients:
            return
        context.verify_mode = ssl.CERT_OPTIONAL if self.settings.client_auth_type == "VerifyClientCertIfGiven" else ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(cadata=self.client_ca.decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise ConfigError("client_ca_file: no certificates in PEM") from None
        if self.settings.client_allowed_sans:
            context.sslobject_class = _allowing(frozenset(self.settings.client_allowed_sans))


def _pem(name: str, path: str, inline: str) -> bytes:
    try:
        return Path(path).read_bytes() if path else inline.encode()
    except OSError as error:
        raise ConfigError(f"{name}: {path}: {error.strerror}") from None


def _refuse_password() -> NoReturn:
    raise ConfigError("key_file: the key is encrypted; nobody is there to type a password")


def _allowing(names: frozenset[str]) -> type[ssl.SSLObject]:
    """A connection of which the client's certificate must carry one of these names."""

    class Allowing(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            certificate: dict[str, Any] = self.getpeercert() or {}
            found = {value for kind, value in certificate.get("subjectAltName", ()) if kind in _SAN_KINDS}
            if not found & names:
                raise ssl.SSLCertVerificationError("the client's certificate carries none of the allowed names")

    return Allowing


class ReloadingContext(ssl.SSLContext):
    """Gives each connection the context of the settings and files that are there when it begins.

    While they cannot be used (a certificate was replaced, its key is still to come) the last that could stays in force.
    """

    def __new__(cls, *_: object) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, settings: Callable[[], TlsServerConfig | None]) -> None:
        """`settings` are those of now, None when there are none that can be used. Raises ConfigError for the first ones."""
        self._settings = settings
        first = settings()
        assert first
        self._made_of = _Tls.read(first)
        self._context = self._made_of.context()
        self._complaint = ""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        self._renew()
        return self._context.wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def _renew(self) -> None:
        settings, complaint = self._settings(), ""
        try:
            if settings and (now := _Tls.read(settings)) != self._made_of:
                self._context, self._made_of = now.context(), now
                logger.info("TLS: what is new in its settings and certificates is in force")
        except ConfigError as error:
            complaint = str(error)
        if complaint and complaint != self._complaint:
            logger.error("TLS stays as it was: %s", complaint)
        self._complaint = complaint
