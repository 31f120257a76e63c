"""The options of a producer: batches, acknowledgements, timeouts, transactions."""

from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from ottla.client.arguments import check_kinds, flag, member_of, require_text, whole_number
from ottla.client.errors import InvalidOptionError
from ottla.client.producing.produce import Acks

CODECS: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
LEVELS: Final = {1: (1, 9), 3: (1, 17), 4: (-131072, 22)}
"""The lowest and the highest compression level of each codec that has levels."""
IN_FLIGHT_MAX_IDEMPOTENT = 5
"""Brokers remember the last five batches of a producer and partition; with more in flight order could be lost."""


class ProducerOptions(Struct, frozen=True):
    """Named as Kafka's producer settings where those exist (`linger_ms` is `linger.ms`)."""

    acks: Acks = Acks.ALL
    idempotent: bool | None = None
    """None: yes if possible, which needs acks=all and at most 5 requests in flight."""
    compression: int = 0
    """The codec's number in the batch format: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    compression_level: int | None = None
    batch_bytes: int = 128 * 1024
    linger_ms: int = 5
    """The time a batch waits for more records while an earlier batch of its partition is in flight."""
    request_bytes_max: int = 1024 * 1024
    """The size limit of one request, and so of one record, before compression."""
    in_flight_requests_max: int = 5
    """Requests in flight to one broker."""
    buffer_bytes: int = 32 * 1024 * 1024
    """The memory for records that are not acknowledged; `send` waits while it is full."""
    max_block_ms: int = 60_000
    """The time `send` waits for metadata and for free memory."""
    delivery_timeout_ms: int = 120_000
    """The time from `send` until a record succeeds or fails, all attempts together."""
    transactional_id: str | None = None
    """With an id, records are written in transactions. Only the newest producer with an id can write."""
    transaction_timeout_ms: int = 60_000
    """The coordinator aborts a transaction that takes longer."""

    def __post_init__(self) -> None:
        force_setattr(self, "acks", member_of(Acks, "acks", self.acks))
        require_text("transactional_id", self.transactional_id)
        if self.idempotent is not None:
            flag("idempotent", self.idempotent)
        if not isinstance(self.compression, int) or self.compression not in CODECS:
            numbers = ", ".join(f"{number} ({name})" for number, name in CODECS.items())
            raise InvalidOptionError(f"compression must be one of {numbers}, not {self.compression!r}")
        if self.compression_level is not None:
            if self.compression not in LEVELS:
                raise InvalidOptionError(
                    f"compression {CODECS[self.compression]} has no levels: leave compression_level out"
                )
            whole_number("compression_level", self.compression_level, *LEVELS[self.compression])
        check_kinds(self, wide=("buffer_bytes",))
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
