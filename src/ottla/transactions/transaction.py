"""What the coordinator knows of one transactional id, and what it may become.

The epoch of its producer tells apart who may still write. Each InitProducerId raises it. With transactions V2 (KIP-890)
the end of each transaction raises it too, so that a request that was delayed from one transaction to the next is
refused:

    epoch   3      records of a transaction, EndTxn
            4      its markers, the answer to EndTxn; the records of the next transaction

Epochs go up to 32,766; the one beyond it is for markers. What comes then has a new producer id, at epoch 0.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_partition import TopicPartition
from ottla.transactions.transaction_state import IDLE, PREPARED, TRANSITIONS, TransactionState

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1

EPOCH_MAX: Final = 32_767
"""The largest epoch an int16 holds; no client is ever given it."""

EPOCH_BUMP_VERSION: Final = 2
"""The transaction version from which the end of each transaction raises the epoch (KIP-890)."""

Partitions = Mapping[str, frozenset[int]]
"""The partitions of a transaction, their numbers by topic. Never changed in place."""

NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class Transaction(Struct, frozen=True):
    """The state of a transactional id. A value: what changes is another one, in a record of the log.

    `previous_producer_id` is the producer id before the last change, `next_producer_id` the one that follows when
    epochs run out, `last_producer_epoch` the epoch before the last InitProducerId or EndTxn, kept in memory only, as in
    Kafka: after a load it is not known. Times are in milliseconds; `start_ms` is that of the first partition.
    `client_version` is the transaction version of the client that was here last.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: Partitions = NO_PARTITIONS
    start_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    client_version: int = 0

    @property
    def producer(self) -> ProducerIdentity:
        """Who may write now."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    def is_followed_by(self, producer: ProducerIdentity) -> bool:
        """Whether it is decided, and this is who the answer to its end said may write the next one.

        Where epochs ran out that is the next producer id, which replaces this one with the last marker.
        """
        if self.state not in PREPARED:
            return False
        if self.next_producer_id != NO_PRODUCER_ID:
            return producer == ProducerIdentity(self.next_producer_id, 0)
        return producer == self.producer and self.producer_epoch != EPOCH_MAX

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether there is no epoch left that could be given to a client, for good."""
        return self.producer_epoch >= EPOCH_MAX - 1

    @property
    def partition_count(self) -> int:
        """How many partitions have a part in it."""
        return sum(map(len, self.partitions.values()))

    def has(self, partition: TopicPartition) -> bool:
        """Whether a partition has a part in it."""
        numbers = self.partitions.get(partition.topic)
        return numbers is not None and partition.partition in numbers

    def all_partitions(self) -> Iterable[TopicPartition]:
        """Every partition of it."""
        return (TopicPartition(topic, number) for topic, numbers in self.partitions.items() for number in numbers)

    # What it becomes. None of these is asked of a state that does not lead there (`TRANSITIONS`).

    def initialized(
        self, timeout_ms: int, expected: ProducerIdentity | None, new_producer_id: int, now_ms: int
    ) -> Self:
        """With the epoch of the producer that asks (InitProducerId).

        `expected` is who the producer says it is; `new_producer_id` is taken when epochs run out. Raises ApiError
        PRODUCER_FENCED when another producer took over.
        """
        changes: dict[str, object] = {
            "timeout_ms": timeout_ms,
            "updated_ms": now_ms,
            "start_ms": NO_TIME,
            "partitions": NO_PARTITIONS,
        }
        last_epoch = NO_EPOCH if expected is None or self.producer_epoch == NO_EPOCH else expected.producer_epoch
        if expected is not None and self.producer_epoch != NO_EPOCH and expected.producer_epoch != self.producer_epoch:
            if expected.producer_epoch != self.last_producer_epoch:
                raise ApiError(
                    ErrorCode.PRODUCER_FENCED,
                    f"a producer with epoch {self.producer_epoch} took over from epoch {expected.producer_epoch}",
                )
            # Asked again by a producer that did not get the answer, or whose transaction was aborted: it has the epoch
            # behind its own already. Another one would have set the last epoch to -1.
            if self.producer_epoch < EPOCH_MAX:
                return self._moved(TransactionState.EMPTY, **changes)
        changes |= {"last_producer_epoch": last_epoch, "previous_producer_id": self.producer_id}
        if self.is_epoch_exhausted:
            return self._moved(TransactionState.EMPTY, producer_id=new_producer_id, producer_epoch=0, **changes)
        return self._moved(TransactionState.EMPTY, producer_epoch=self.producer_epoch + 1, **changes)

    def with_partitions(self, added: Iterable[TopicPartition], client_version: int, now_ms: int) -> Self:
        """Ongoing, with more partitions."""
        partitions = dict(self.partitions)
        for topic, number in added:
            partitions[topic] = partitions.get(topic, frozenset()) | {number}
        return self._moved(
            TransactionState.ONGOING,
            partitions=partitions,
            start_ms=now_ms if self.state in IDLE else self.start_ms,
            updated_ms=now_ms,
            previous_producer_id=self.producer_id,
            client_version=client_version,
        )

    def prepared(self, *, commit: bool, client_version: int, next_producer_id: int, now_ms: int) -> Self:
        """Decided. With transactions V2 the epoch is the next one from here on, also where nothing was written."""
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_version >= EPOCH_BUMP_VERSION:
            epoch, last_epoch = min(epoch + 1, EPOCH_MAX), epoch
        return self._moved(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            start_ms=now_ms if self.state in IDLE else self.start_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self, *, cluster_version: int, now_ms: int) -> Self:
        """Being aborted by us: the epoch is one that no client has.

        With transactions V2 its producer may have it, as after an abort of its own, when it asks before another takes
        over (KIP-588): who only was too slow goes on.
        """
        fenced = self
        if cluster_version < EPOCH_BUMP_VERSION:
            fenced = replace(self, producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX), last_producer_epoch=NO_EPOCH)
        return fenced.prepared(
            commit=False, client_version=cluster_version, next_producer_id=NO_PRODUCER_ID, now_ms=now_ms
        )

    def completed(self, now_ms: int) -> Self:
        """Every marker is written."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        changes: dict[str, object] = {
            "previous_producer_id": self.producer_id,
            "next_producer_id": NO_PRODUCER_ID,
        }
        if self.client_version >= EPOCH_BUMP_VERSION and self.next_producer_id != NO_PRODUCER_ID:
            # Its last epoch stays that which the client had: who asks again is told of the new producer id.
            changes |= {"producer_id": self.next_producer_id, "producer_epoch": 0}
        return self._moved(
            TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
            partitions=NO_PARTITIONS,
            updated_ms=now_ms,
            **changes,
        )

    def _moved(self, state: TransactionState, **changes: object) -> Self:
        assert state in TRANSITIONS[self.state], f"{self.state.label} does not lead to {state.label}"
        return replace(self, state=state, **changes)
