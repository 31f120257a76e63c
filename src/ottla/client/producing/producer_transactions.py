"""The transactions of a producer (KIP-98), in their second version (KIP-890).

```
              init()          begin()                 commit()
UNINITIALIZED ------> READY ----------> IN_TRANSACTION --------> READY
                        ^                     |                    ^
                        |                     | a record or a      |
                        |        abort()      | request failed     |
                        +---------------- ABORTABLE               abort()
any of them --> FATAL: another producer with the same transactional id took over, or nothing can be done
```

The first batch for a partition adds the partition to the transaction. The end of a transaction raises the producer's
epoch. So the broker refuses requests of the old transaction that arrive later, and sequence numbers restart.
"""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum

from ottla.client.consuming.group_offsets import NO_MEMBER, CommittedOffset, Membership, check_group
from ottla.client.errors import (
    BrokerError,
    ClientError,
    ProducerFencedError,
    TransactionAbortableError,
    UnsupportedApiError,
    broker_error,
)
from ottla.client.io.client_io import R
from ottla.client.io.cluster import TRANSACTION_COORDINATOR, Cluster
from ottla.client.io.retry import Deadline
from ottla.client.producing.accumulator import RecordAccumulator
from ottla.client.producing.producer_batch import NO_IDENTITY, Identity
from ottla.client.producing.producer_identity import TransactionalIdentity
from ottla.client.producing.settlement import Settlement
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_ABORTABLE = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)


class TransactionState(Enum):
    """Where a producer is in the picture above."""

    UNINITIALIZED = "not initialized"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    ABORTABLE = "in a transaction that can only be aborted"
    FATAL = "at its end"


class ProducerTransactions:
    """One producer's transactions, on one event loop; for one task at a time, as there is one transaction at a time."""

    def __init__(
        self, cluster: Cluster, accumulator: RecordAccumulator, transactional_id: str, timeout_ms: int
    ) -> None:
        self.transactional_id = transactional_id
        self.identity = TransactionalIdentity(cluster, self.must_abort)
        self.state = TransactionState.UNINITIALIZED
        self._settlement: Settlement | None = None
        self._wake: Callable[[], None] = lambda: None
        self._next_settled: Callable[[], Awaitable[None]] | None = None
        self._cluster = cluster
        self._accumulator = accumulator
        self._timeout_ms = timeout_ms
        self._fatal: ClientError | None = None
        self._has_offsets = False
        self._has_records = False

    def attach(
        self, settlement: Settlement, wake: Callable[[], None], next_settled: Callable[[], Awaitable[None]]
    ) -> None:
        """What sends the batches of this producer: its `wake` is called when something changes."""
        self._settlement, self._wake, self._next_settled = settlement, wake, next_settled

    # --- records ----------------------------------------------------------------------------------------------------

    @property
    def failure(self) -> ClientError | None:
        """Why nothing more of the transaction is to be sent, if that is so."""
        if self.state is TransactionState.ABORTABLE:
            return TransactionAbortableError("another part of the transaction failed, or it was aborted")
        return self._fatal

    def require_open(self) -> None:
        """A record is about to be taken. Raises ClientError when there is no transaction that it could be part of."""
        if self.state is TransactionState.ABORTABLE:
            raise TransactionAbortableError("the transaction cannot be committed any more: abort it")
        self._require(TransactionState.IN_TRANSACTION)
        self._has_records = True

    def must_abort(self) -> None:
        """Something of the transaction failed."""
        if self.state is TransactionState.IN_TRANSACTION:
            self.state = TransactionState.ABORTABLE
            self._wake()

    @property
    def may_send(self) -> bool:
        """Whether batches may leave now."""
        return self.state is TransactionState.IN_TRANSACTION

    @property
    def can_abort(self) -> bool:
        """Whether there is a transaction that may be aborted."""
        return self.state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE)

    # --- the life of a transaction ----------------------------------------------------------------------------------

    async def init(self, deadline: Deadline) -> None:
        """Become the producer of the transactional id; what an earlier one left open is aborted."""
        self._require(TransactionState.UNINITIALIZED)
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms)

        async def attempt() -> InitProducerIdResponse:
            response = await self._ask(request, InitProducerIdResponse)
            self._check(response.error_code, f"becoming the producer of {self.transactional_id!r}")
            return response

        response = await self._cluster.retrying(attempt, deadline)
        self.identity.current = Identity(response.producer_id, response.producer_epoch, is_transactional=True)
        self.state = TransactionState.READY

    def begin(self) -> None:
        """Begin a transaction; brokers hear of it by its first record."""
        self._require(TransactionState.READY)
        self.state = TransactionState.IN_TRANSACTION
        self._has_offsets = self._has_records = False

    async def send_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        deadline: Deadline,
        member: Membership = NO_MEMBER,
    ) -> None:
        """Commit offsets of a group as part of the transaction: they hold when it is committed (KIP-447).

        Raises TransactionAbortableError when the member has lost its partitions meanwhile.
        """
        self.require_open()
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for topic_partition, committed in offsets.items():
            by_topic.setdefault(topic_partition.topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=topic_partition.partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.identity.current.producer_id,
            producer_epoch=self.identity.current.epoch,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(name=name, partitions=tuple(partitions))
                for name, partitions in by_topic.items()
            ),
        )

        async def attempt() -> None:
            response = await self._cluster.ask_coordinator(group_id, request, TxnOffsetCommitResponse)
            for topic in response.topics:
                for each in topic.partitions:
                    what = f"committing offsets of {topic.name}-{each.partition_index} for group {group_id!r}"
                    try:
                        check_group(self._cluster, group_id, each.error_code, what)
                    except BrokerError as error:
                        raise self._classified(error) from error

        if by_topic:
            self._has_offsets = True
            await self._cluster.retrying(attempt, deadline)

    async def commit(self, deadline: Deadline) -> None:
        """Commit: everything taken so far is delivered first. Raises TransactionAbortableError when it cannot be."""
        if self.state is TransactionState.ABORTABLE:
            raise TransactionAbortableError("a part of the transaction failed: abort it")
        self._require(TransactionState.IN_TRANSACTION)
        await self._end(committed=True, deadline=deadline)

    async def abort(self, deadline: Deadline) -> None:
        """Abort: what is not delivered yet is given up, and nothing of the transaction is ever read as committed."""
        if self.state is not TransactionState.ABORTABLE:
            self._require(TransactionState.IN_TRANSACTION)
        self.state = TransactionState.ABORTABLE
        settlement, next_settled = self._settlement, self._next_settled
        assert settlement is not None, "the producer was started"
        assert next_settled is not None, "attached together"
        settlement.give_up_waiting(ClientError("the transaction was aborted before the record was delivered"))
        while self._accumulator.any_in_flight:
            await next_settled()
        await self._end(committed=False, deadline=deadline)

    async def _end(self, *, committed: bool, deadline: Deadline) -> None:
        if self._has_records or self._has_offsets:
            identity = self.identity.current
            request = EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                committed=committed,
            )
            what = "committing the transaction" if committed else "aborting the transaction"

            async def attempt() -> EndTxnResponse:
                response = await self._ask(request, EndTxnResponse)
                self._check(response.error_code, what)
                return response

            response = await self._cluster.retrying(attempt, deadline)
            self.identity.current = Identity(response.producer_id, response.producer_epoch, is_transactional=True)
            self._accumulator.renumber()
        self.state = TransactionState.READY

    # --- errors -----------------------------------------------------------------------------------------------------

    async def _ask(self, request: InitProducerIdRequest | EndTxnRequest, response: type[R]) -> R:
        try:
            return await self._cluster.ask_coordinator(
                self.transactional_id, request, response, key_type=TRANSACTION_COORDINATOR
            )
        except UnsupportedApiError as error:
            raise self.end(error) from error

    def _check(self, number: int, what: str) -> None:
        """Raise the exception for an error code of the coordinator."""
        if not number:
            return
        error = broker_error(number, what)
        if error.code in _MOVED:
            self._cluster.forget_coordinator(self.transactional_id, TRANSACTION_COORDINATOR)
        raise self._classified(error)

    def _classified(self, error: BrokerError) -> BrokerError:
        """An error as what it means for the producer: try again, abort, or the end."""
        if error.retriable:
            return error
        if error.code in _FENCED:
            fenced = ProducerFencedError(self.transactional_id, str(error))
            self.end(fenced)
            return fenced
        if error.code in _ABORTABLE and self.state is TransactionState.IN_TRANSACTION:
            self.must_abort()
            return TransactionAbortableError(str(error), error.code)
        if self.state is not TransactionState.UNINITIALIZED:
            self.end(error)
        return error

    def end(self, error: ClientError) -> ClientError:
        """Nothing can be done any more; returns the error."""
        self.state = TransactionState.FATAL
        self._fatal = error
        self.identity.current = NO_IDENTITY
        return error

    def _require(self, state: TransactionState) -> None:
        if self._fatal is not None:
            raise self._fatal
        if self.state is not state:
            raise ClientError(f"the producer is {self.state.value}, and not {state.value}")
