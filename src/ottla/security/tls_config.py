"""What Kafka's `ssl.` settings say, of a broker's listener or of a client."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ottla.settings.value import SettingValue

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
"""The versions that are spoken, the lowest first."""


class Store(Struct, frozen=True):
    """Where a key or certificates come from: a file, or PEM that the settings hold themselves."""

    type: str
    """`PEM`, `PKCS12`, or `JKS`, which stands for PKCS12 as well."""
    location: str | None = None
    password: str | None = None
    certificates: str | None = None
    key: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether there is any."""
        return self.location is not None or self.certificates is not None or self.key is not None


class TlsConfig(Struct, frozen=True):
    """One side of TLS. Names are those of Kafka's settings."""

    key_store: Store
    trust_store: Store
    key_password: str | None = None
    versions: tuple[str, ...] = TLS_VERSIONS
    cipher_suites: tuple[str, ...] = ()
    client_auth: str = "none"
    """Of a server: `required`, `requested` or `none`."""
    checks_host_name: bool = True
    """Of a client: whether the certificate must name the host that it connects to."""

    @classmethod
    def from_settings(cls, value_of: Callable[[str], SettingValue]) -> "TlsConfig":
        """`value_of` gives the typed value of a setting by its name."""

        def text(name: str) -> str | None:
            value = value_of(name)
            return value if isinstance(value, str) and value else None

        def items(name: str) -> tuple[str, ...]:
            value = value_of(name)
            return value if isinstance(value, tuple) else ()

        highest = text("ssl.protocol")
        versions = items("ssl.enabled.protocols") or TLS_VERSIONS
        return cls(
            key_store=Store(
                type=text("ssl.keystore.type") or "JKS",
                location=text("ssl.keystore.location"),
                password=text("ssl.keystore.password"),
                certificates=text("ssl.keystore.certificate.chain"),
                key=text("ssl.keystore.key"),
            ),
            trust_store=Store(
                type=text("ssl.truststore.type") or "JKS",
                location=text("ssl.truststore.location"),
                password=text("ssl.truststore.password"),
                certificates=text("ssl.truststore.certificates"),
            ),
            key_password=text("ssl.key.password"),
            versions=tuple(each for each in versions if highest not in TLS_VERSIONS or each <= highest),
            cipher_suites=tuple(each for each in items("ssl.cipher.suites") if each),
            client_auth=text("ssl.client.auth") or "none",
            checks_host_name=text("ssl.endpoint.identification.algorithm") is not None,
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it is made of."""
        return tuple(each for each in (self.key_store.location, self.trust_store.location) if each is not None)
