"""What those who ask something of a transaction coordinator are told."""

from collections.abc import Mapping

from msgspec import Struct, field

from ottla.coordination.outcome import Answer
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.transactions.transaction import NO_EPOCH, NO_PARTITIONS, NO_PRODUCER_ID, Partitions


class InitAnswer(Answer, frozen=True):
    """Who the producer is now. `needs_producer_id` says to ask again with a new one: nothing was decided."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    needs_producer_id: bool = False


class AddAnswer(Answer, frozen=True):
    """Whether the partitions have a part in the transaction; an `error` concerns all of them."""

    refused: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


class EndAnswer(Answer, frozen=True):
    """The transaction is decided, and who its producer is from now on. `needs_producer_id` as in `InitAnswer`."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    needs_producer_id: bool = False


class DescribeTransactionAnswer(Answer, frozen=True):
    """A transactional id as administrators see it."""

    state: str = ""
    timeout_ms: int = 0
    start_ms: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    partitions: Partitions = NO_PARTITIONS


class TransactionListing(Struct, frozen=True):
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str
