"""What producers and administrators ask of a transaction coordinator, whichever gateway they came by."""

from msgspec import Struct

from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_partition import TopicPartition
from ottla.transactions.transaction import NO_PRODUCER_ID


class InitProducer(Struct, frozen=True):
    """Become the producer of a transactional id, in place of the one before (InitProducerId).

    `expected` is what the producer was before, for one that goes on after an error (KIP-360). `new_producer_id` is an
    id that nobody had, for a transactional id that needs one.
    """

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None
    new_producer_id: int = NO_PRODUCER_ID


class AddPartitions(Struct, frozen=True):
    """Have partitions take part in the transaction, or with `verify_only` ask whether they do."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: tuple[TopicPartition, ...]
    client_version: int
    verify_only: bool = False


class EndTransaction(Struct, frozen=True):
    """Commit or abort (EndTxn). `new_producer_id` is as for `InitProducer`."""

    transactional_id: str
    producer: ProducerIdentity
    commit: bool
    client_version: int
    new_producer_id: int = NO_PRODUCER_ID


class TransactionFilter(Struct, frozen=True):
    """Which transactions to list; what is empty or negative lets everything pass."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    """Only those that go on for longer."""
