"""The options of every client: addresses, timeouts, retries and limits."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from ottla.client.address import Address, parse_addresses
from ottla.client.arguments import check_kinds, instance_of, shown, whole_number
from ottla.client.errors import InvalidOptionError
from ottla.client.sasl import ClientSasl
from ottla.client.tls import ClientTls, TlsSource
from ottla.model.security_protocol import SecurityProtocol

_AT_LEAST_ONE = (
    "connect_timeout_ms",
    "handshake_timeout_ms",
    "request_timeout_ms",
    "api_timeout_ms",
    "response_bytes_max",
    "in_flight_requests_max",
)


class ClientOptions(Struct, frozen=True):
    """Settings shared by producer, consumer, admin and the blocking client.

    Names are those of Kafka's client settings, if there is one (`request_timeout_ms` is `request.timeout.ms`).
    """

    bootstrap: tuple[Address, ...]
    """Brokers to ask first. A string or a list of strings `HOST:PORT` is read into addresses."""
    client_id: str = "ottla"
    connect_timeout_ms: int = 5_000
    """The limit for opening one TCP connection."""
    handshake_timeout_ms: int = 10_000
    """The limit for the first response on a new connection. A peer that needs longer is not a broker."""
    next_address_after_ms: int = 1_000
    """How long an address may be silent before the next one is tried beside it; the first that answers is used."""
    request_timeout_ms: int = 30_000
    """The limit for one response. The time that a request lets the broker wait is added."""
    api_timeout_ms: int = 60_000
    """The limit for one call with all its attempts (Kafka's `default.api.timeout.ms`)."""
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    response_bytes_max: int = 256 * 1024 * 1024
    """A larger response ends the connection: it bounds the memory that a broken peer can make us allocate."""
    in_flight_requests_max: int = 64
    """Requests in flight on one connection; further ones wait."""
    security_protocol: str = "PLAINTEXT"
    """How the listener speaks, by Kafka's names: with SSL in it, it is TLS; with SASL, the client logs in."""
    tls: TlsSource | None = None
    """How the client speaks TLS; with SSL and None the authorities of the operating system are trusted. `of` makes it
    of the fields of `ClientTls`, such as `ssl_truststore_location`."""
    sasl: ClientSasl | None = None
    """Who the client is. `of` makes it of the fields of `ClientSasl`, such as `sasl_username`."""

    def __post_init__(self) -> None:
        force_setattr(self, "bootstrap", parse_addresses(self.bootstrap))
        check_kinds(self, wide=("metadata_max_age_ms", "response_bytes_max"))
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise InvalidOptionError(f"{name} must be at least 1, not {getattr(self, name)}")
        protocol = self.security_protocol.upper()
        if protocol not in SecurityProtocol.__members__:
            names = " or ".join(SecurityProtocol)
            raise InvalidOptionError(f"security_protocol must be {names}, not {shown(protocol)}")
        force_setattr(self, "security_protocol", protocol)
        if not SecurityProtocol(protocol).is_encrypted:
            force_setattr(self, "tls", None)
        elif self.tls is None:
            force_setattr(self, "tls", ClientTls())
        if not SecurityProtocol(protocol).has_sasl:
            force_setattr(self, "sasl", None)
        elif self.sasl is None:
            raise InvalidOptionError(f"security_protocol {protocol} needs sasl.username and sasl.password")

    def within(self, timeout_ms: int | None = None) -> "ClientOptions":
        """The same options with every timeout at most `timeout_ms` and at most `api_timeout_ms`."""
        limit_ms = self.api_timeout_ms
        if timeout_ms is not None:
            limit_ms = min(limit_ms, whole_number("timeout_ms", timeout_ms, 1))
        parts = ("connect_timeout_ms", "handshake_timeout_ms", "request_timeout_ms", "api_timeout_ms")
        return replace(self, **{name: min(getattr(self, name), limit_ms) for name in parts})

    @classmethod
    def of(cls, bootstrap: str | Iterable[str | Address], **settings: int | str | Callable[[], str]) -> "ClientOptions":
        """Options from addresses and any of the fields above by name.

        Addresses are a comma-separated string such as `"a:9092,b:9092"`, or a list. Raises InvalidOptionError.
        """
        of_tls = {name: settings[name] for name in settings if name in ClientTls.__struct_fields__}
        of_sasl = {name: settings[name] for name in settings if name in ClientSasl.__struct_fields__}
        taken = of_tls.keys() | of_sasl.keys()
        others: dict[str, Any] = {name: settings[name] for name in settings if name not in taken}
        unknown = others.keys() - set(cls.__struct_fields__)
        if unknown:
            raise InvalidOptionError(f"unknown client option {sorted(unknown)[0]!r}")
        if of_tls:
            tls = ClientTls(**of_tls)  # type: ignore[arg-type]
            if str(others.get("security_protocol", "")).upper().endswith("SSL"):
                tls.context()  # what is wrong with it is said here
            others["tls"] = tls
        if of_sasl:
            others["sasl"] = ClientSasl(**of_sasl)  # type: ignore[arg-type]
        return cls(bootstrap=parse_addresses(bootstrap), **others)


def require_client_options(given: Any) -> ClientOptions:
    """Check the options that a client is created with. Raises InvalidOptionError."""
    return instance_of("options", given, ClientOptions, ": write ClientOptions.of('localhost:9092')")


Bootstrap = str | Iterable[str | Address] | ClientOptions
"""Brokers to ask first, or all options of a client."""


def client_options(given: Bootstrap) -> ClientOptions:
    """The options that a blocking client was created with. Raises InvalidOptionError."""
    return given if isinstance(given, ClientOptions) else ClientOptions.of(given)
