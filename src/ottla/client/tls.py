"""How a client speaks TLS: Kafka's `ssl.` settings, with underscores.

    ClientOptions.of("kafka.example:9093", security_protocol="SSL", ssl_truststore_location="/etc/kafka/ca.pem")

Without a trust store the authorities of the operating system are trusted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from ottla.client.arguments import check_kinds
from ottla.client.errors import InvalidOptionError
from ottla.security.file_states import FileStates, file_states
from ottla.security.tls_config import Store, TlsConfig
from ottla.settings.definition import InvalidSettingError
from ottla.settings.value import parse_list

if TYPE_CHECKING:
    import ssl

_CONTEXTS_MAX: Final = 16
_LAST: Final[dict[ClientTls, ssl.SSLContext]] = {}
"""What was read last for which settings."""
_STORE_TYPES: Final = ("", "PEM", "PKCS12", "JKS")
_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


class TlsSource(Protocol):
    """What the next connection of a client is made by."""

    def context(self) -> ssl.SSLContext:
        """May read files, and raise InvalidOptionError or OSError."""
        ...


class ClientTls(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A `TlsSource` of settings. Files are read once by all clients of a process that have the same, and again by the
    next connection when they have changed.
    """

    ssl_keystore_type: str = ""
    """PEM or PKCS12; empty where the file says it."""
    ssl_keystore_location: str = ""
    ssl_keystore_password: str = ""
    ssl_keystore_key: str = ""
    ssl_keystore_certificate_chain: str = ""
    ssl_key_password: str = ""
    ssl_truststore_type: str = ""
    ssl_truststore_location: str = ""
    ssl_truststore_password: str = ""
    ssl_truststore_certificates: str = ""
    ssl_protocol: str = ""
    """The highest version."""
    ssl_enabled_protocols: str = "TLSv1.2,TLSv1.3"
    ssl_cipher_suites: str = ""
    ssl_endpoint_identification_algorithm: str = "https"
    """Empty for a certificate that need not name the host."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("ssl_keystore_type", "ssl_truststore_type"):
            _require_one_of(name, getattr(self, name).upper(), _STORE_TYPES)
        for version in parse_list(self.ssl_enabled_protocols):
            _require_one_of("ssl_enabled_protocols", version, _VERSIONS)
        _require_one_of("ssl_protocol", self.ssl_protocol, ("", "TLS", *_VERSIONS))
        _require_one_of(
            "ssl_endpoint_identification_algorithm", self.ssl_endpoint_identification_algorithm.lower(), ("", "https")
        )

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"<ClientTls trusting {self.ssl_truststore_location or 'others'}>"

    def context(self) -> ssl.SSLContext:
        """As `TlsSource` says."""
        try:
            made = _context_of(self, file_states(self.config))
        except (InvalidOptionError, OSError):
            if self in _LAST:  # somebody may be writing the files now
                return _LAST[self]
            raise
        _LAST[self] = made
        while len(_LAST) > _CONTEXTS_MAX:
            del _LAST[next(iter(_LAST))]
        return made

    @property
    def config(self) -> TlsConfig:
        """The same as both sides have it."""
        return TlsConfig(
            key_store=Store(
                self.ssl_keystore_type.upper() or "JKS",
                self.ssl_keystore_location or None,
                self.ssl_keystore_password or None,
                self.ssl_keystore_certificate_chain or None,
                self.ssl_keystore_key or None,
            ),
            trust_store=Store(
                self.ssl_truststore_type.upper() or "JKS",
                self.ssl_truststore_location or None,
                self.ssl_truststore_password or None,
                self.ssl_truststore_certificates or None,
            ),
            key_password=self.ssl_key_password or None,
            versions=tuple(
                each
                for each in parse_list(self.ssl_enabled_protocols)
                if self.ssl_protocol not in _VERSIONS or each <= self.ssl_protocol
            ),
            cipher_suites=parse_list(self.ssl_cipher_suites),
            checks_host_name=bool(self.ssl_endpoint_identification_algorithm),
        )


def _require_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidOptionError(f"{name} must be {' or '.join(filter(None, allowed))}, not {value[:100]!r}")


@lru_cache(_CONTEXTS_MAX)
def _context_of(tls: ClientTls, _states: FileStates) -> ssl.SSLContext:
    from ottla.security.tls_context import client_context  # OpenSSL, which clients of plaintext do without

    try:
        return client_context(tls.config)
    except InvalidSettingError as error:
        raise InvalidOptionError(error.message) from error
