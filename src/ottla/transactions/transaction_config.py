"""The settings of the transaction coordinator, and the limits on what strangers can make it hold."""

from typing import Final, Self

from msgspec import Struct

from ottla.settings.broker_settings import BrokerSettings

TRANSACTIONAL_ID_BYTES_MAX: Final = 1024
"""A transactional id is kept in memory and stored in every record of its transactions; as much as a group id may take.
"""

IDS_PER_SHARD_MAX: Final = 5_000
"""Transactional ids of one partition of the transaction topic. Each is made by naming it in a request and is kept for
`transactional.id.expiration.ms`, a week: with 50 partitions 250,000, of 1 to 2 KB each.
"""

PARTITIONS_PER_TRANSACTION_MAX: Final = 4_096
"""Partitions of one transaction. The whole record of a transaction is written again for each that it begins to write
to, so the work grows with the square; the largest applications know of write to a few hundred.
"""

OPEN_PARTITIONS_PER_SHARD_MAX: Final = 40_000
"""The same over all transactions of one partition of the transaction topic: with 50 partitions two million, of about
100 bytes each.
"""


class TransactionConfig(Struct, frozen=True):
    """Kafka's `transaction.*` settings, in their words; times in milliseconds. Raises ValueError for what cannot be."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`: a producer may not ask for a longer time-out of its transactions."""
    abort_timed_out_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`: how often to look for transactions to abort."""
    remove_expired_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`: how often to look for ids to forget."""
    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`: how long an id is kept that nobody uses."""
    state_log_partitions: int = 50
    """`transaction.state.log.num.partitions`: over how many partitions transactional ids are spread."""
    load_buffer_bytes: int = 5_242_880
    """`transaction.state.log.load.buffer.size`: how much of the topic is read at a time while a shard loads."""
    record_bytes_max: int = 1_000_000
    """The record of one transaction may be this large: it must fit a batch of its topic (`max.message.bytes`)."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    @classmethod
    def from_settings(cls, settings: BrokerSettings) -> Self:
        """The section of a broker's settings."""
        return cls(**{field: settings.integer(name) for field, name in _SETTINGS})


_SETTINGS = (
    ("max_timeout_ms", "transaction.max.timeout.ms"),
    ("abort_timed_out_interval_ms", "transaction.abort.timed.out.transaction.cleanup.interval.ms"),
    ("remove_expired_interval_ms", "transaction.remove.expired.transaction.cleanup.interval.ms"),
    ("id_expiration_ms", "transactional.id.expiration.ms"),
    ("state_log_partitions", "transaction.state.log.num.partitions"),
    ("load_buffer_bytes", "transaction.state.log.load.buffer.size"),
)
