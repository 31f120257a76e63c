"""What every client can be told about its connections and its patience."""

from msgspec import Struct

from ottla.client.address import Address, parse_addresses
from ottla.client.errors import InvalidOptionError

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

    Named as Kafka's client settings where those exist (`request_timeout_ms` is `request.timeout.ms`).
    """

    bootstrap: tuple[Address, ...]
    client_id: str = "ottla"
    connect_timeout_ms: int = 5_000
    """How long one TCP connection may take to be made."""
    handshake_timeout_ms: int = 10_000
    """How long the first answer on a new connection may take; a peer that takes longer is not taken for a broker."""
    request_timeout_ms: int = 30_000
    """How long a broker may take over one request; what it may wait by request is added to it."""
    api_timeout_ms: int = 60_000
    """How long one call may take, all its attempts together (Kafka's `default.api.timeout.ms`)."""
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    response_bytes_max: int = 256 * 1024 * 1024
    """A larger response ends the connection: it bounds the memory that a broken peer can make us allocate."""
    in_flight_requests_max: int = 64
    """Unanswered requests of one connection; a further one waits its turn."""

    def __post_init__(self) -> None:
        if not self.bootstrap:
            raise InvalidOptionError("no broker address given")
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise InvalidOptionError(f"{name} must be at least 1, not {getattr(self, name)}")

    @classmethod
    def of(cls, bootstrap: str, **settings: int | str) -> "ClientOptions":
        """Options from a comma-separated list of addresses and any of the fields above by name."""
        unknown = settings.keys() - set(cls.__struct_fields__)
        if unknown:
            raise InvalidOptionError(f"unknown client option {sorted(unknown)[0]!r}")
        return cls(bootstrap=parse_addresses(bootstrap), **settings)  # type: ignore[arg-type]
