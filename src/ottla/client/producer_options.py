"""How a producer batches, what it asks of the brokers, and how long it tries."""

from msgspec import Struct

from ottla.client.errors import InvalidOptionError
from ottla.client.produce import Acks

IN_FLIGHT_MAX_IDEMPOTENT = 5
"""Brokers remember the last five batches of a producer and partition; with more in flight order could be lost."""


class ProducerOptions(Struct, frozen=True):
    """Named as Kafka's producer settings where those exist (`linger_ms` is `linger.ms`)."""

    acks: Acks = Acks.ALL
    idempotent: bool | None = None
    """None: wherever possible, which is with acks=all."""
    compression: int = 0
    """The codec's number in the batch format: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    compression_level: int | None = None
    batch_bytes: int = 128 * 1024
    linger_ms: int = 5
    """How long a batch waits for more records while an earlier one of its partition is not answered yet."""
    request_bytes_max: int = 1024 * 1024
    """Of one request and so of one record, before compression."""
    in_flight_requests_max: int = 5
    """Unanswered requests of one broker."""
    buffer_bytes: int = 32 * 1024 * 1024
    """Records that are not settled; `send` waits when there are more."""
    max_block_ms: int = 60_000
    """How long `send` may wait for metadata and for room."""
    delivery_timeout_ms: int = 120_000
    """How long a record may take from `send` to its fate, all attempts together."""
    transactional_id: str | None = None
    """With an id records are written in transactions. Of the producers with one id only the newest may write."""
    transaction_timeout_ms: int = 60_000
    """A transaction that goes on for longer is aborted by its coordinator."""

    def __post_init__(self) -> None:
        if self.idempotent and self.acks != Acks.ALL:
            raise InvalidOptionError("an idempotent producer needs acks=all")
        if self.transactional_id is not None and not (self.transactional_id and self.is_idempotent):
            raise InvalidOptionError("transactions need a transactional_id that is not empty, and idempotence")
        if self.idempotent and self.in_flight_requests_max > IN_FLIGHT_MAX_IDEMPOTENT:
            raise InvalidOptionError(
                f"an idempotent producer has at most {IN_FLIGHT_MAX_IDEMPOTENT} requests in flight"
            )
        for name in (
            "batch_bytes",
            "request_bytes_max",
            "in_flight_requests_max",
            "buffer_bytes",
            "delivery_timeout_ms",
            "transaction_timeout_ms",
        ):
            if getattr(self, name) < 1:
                raise InvalidOptionError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.request_bytes_max < self.batch_bytes:
            raise InvalidOptionError("request_bytes_max must not be less than batch_bytes")

    @property
    def is_idempotent(self) -> bool:
        """Whether appends are made idempotent."""
        if self.idempotent is None:
            return self.acks == Acks.ALL and self.in_flight_requests_max <= IN_FLIGHT_MAX_IDEMPOTENT
        return self.idempotent
