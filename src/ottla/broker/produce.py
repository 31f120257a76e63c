"""Writing for producers: one request may write to many partitions and is answered once, when all of them are decided.

With acks=1 a partition is decided when its records are written, with acks=all when they are committed. How long the
latter is waited for is for the producer to say (`timeout_ms`), as far as other brokers are waited for: what is not
decided by then is answered with REQUEST_TIMED_OUT, and may still become committed.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, require
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.topic_name import INTERNAL_TOPICS
from ottla.native import ProduceRun
from ottla.replication.acknowledgement import AppendAck, OnAck
from ottla.replication.leader import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from ottla.replication.partition import Partition, WritableBuffer
from ottla.replication.replica_manager import PartitionKey, ReplicaManager
from ottla.runtime.deadlines import Deadlines
from ottla.storage.log_append_info import LogAppendInfo

DISK_MS: Final = 5_000
"""How long the records of a broker alone may take to be on disk, at least."""

_NO_END: Final = sys.maxsize

_ACKS: Final = frozenset({ACKS_NONE, ACKS_LEADER, ACKS_ALL})
TIMED_OUT: Final = AppendAck(ErrorCode.REQUEST_TIMED_OUT, "the records were not acknowledged within the request's time")
"""What becomes of what is not decided when the producer's time is up."""


PartitionAppend: TypeAlias = Callable[[Partition, WritableBuffer, int, OnAck, Callable[[], None]], None]
"""Appends to a partition: records, acks, on_ack and on_buffer_free, as of `Leader.append`."""


class PartitionWrite(NamedTuple):
    """Records for one partition of a topic, which is named or given by its id; `refusal` says why not to write them."""

    topic: str | UUID
    partition: int
    records: WritableBuffer | None
    refusal: AppendAck | None = None


class SingleProduction(Protocol):
    """A produce request to one partition on its way, which most are. The gateway that it came by makes it."""

    is_over: bool
    """Whether the producer has its answer."""

    def decide(self, ack: AppendAck, /) -> None:
        """The partition is decided: answer, unless that was done. Does not raise."""
        ...

    def expire(self) -> None:
        """The producer's time is up: it is decided as `TIMED_OUT`."""
        ...


OnProduced: TypeAlias = Callable[[list[AppendAck]], None]
"""Told what became of each partition of a request."""

WriteRun: TypeAlias = "Callable[[Principal, ProduceRun], LogAppendInfo | None]"
"""See `ProduceService.write_run`."""


def _ignore(acks: list[AppendAck]) -> None:
    del acks


def _ack_timeout_ms(partition: Partition, timeout_ms: int) -> int:
    """How long a producer that asks for `timeout_ms` waits for a partition.

    Its time is for the other replicas: what only this broker writes, Kafka writes before it looks at the time. So the
    disk gets a while whatever the producer says, and records that are only written are waited for without end.
    """
    if partition.role.is_replicated:
        return timeout_ms
    return max(timeout_ms, DISK_MS) if partition.flush_before_ack else _NO_END


class Production:
    """One produce request on its way: counts what is undecided and answers when nothing is."""

    __slots__ = ("_acks", "_on_produced", "_undecided", "is_over")

    def __init__(self, count: int, on_produced: OnProduced) -> None:
        self._acks: list[AppendAck | None] = [None] * count
        self._undecided = count
        self._on_produced = on_produced
        self.is_over = False
        """Whether the producer has its answer."""

    def decide(self, index: int, ack: AppendAck) -> None:
        """One partition is decided; the last one answers the request."""
        if self.is_over:
            return
        self._acks[index] = ack
        self._undecided -= 1
        if self._undecided == 0:
            self._answer()

    def expire(self) -> None:
        """The producer's time is up: answer with what is decided."""
        if not self.is_over:
            self._answer()

    def _answer(self) -> None:
        self.is_over = True
        on_produced, self._on_produced = self._on_produced, _ignore
        on_produced([ack if ack is not None else TIMED_OUT for ack in self._acks])


class ProduceService:
    """Finds what is written to, asks whether the producer may, and sees to it that he is answered once.

    Belongs to the event loop; its methods never block.
    """

    __slots__ = ("_authorizer", "_deadlines", "_replicas")

    def __init__(self, replicas: ReplicaManager, deadlines: Deadlines, authorizer: Authorizer = ALLOW_ALL) -> None:
        self._replicas = replicas
        self._deadlines = deadlines
        self._authorizer = authorizer

    def produce_one(
        self,
        production: SingleProduction,
        principal: Principal,
        key: PartitionKey,
        records: WritableBuffer,
        acks: int,
        timeout_ms: int,
        on_buffer_free: Callable[[], None],
        append: PartitionAppend | None = None,
    ) -> None:
        """`produce` of records that are there to a single partition, with acks that exist: nearly every request.

        `production` is decided once, as `produce` says; it may be decided again, which does not count.
        """
        try:
            partition = self._writable(principal, key)
        except ApiError as error:
            on_buffer_free()
            production.decide(AppendAck.refused(error))
            return
        if append is None:
            partition.role.append(records, acks=acks, on_ack=production.decide, on_buffer_free=on_buffer_free)
        else:
            append(partition, records, acks, production.decide, on_buffer_free)
        self._expire_later(production, acks, _ack_timeout_ms(partition, timeout_ms))

    def produce_run(
        self, production: SingleProduction, principal: Principal, run: ProduceRun, on_buffer_free: Callable[[], None]
    ) -> bool:
        """`produce_one` for all requests of a run, those taken out of it that have something wrong with them.

        True: `production` is decided once for all of them, with the base offset of the first, and never before this
        returns. False: nothing has happened, and each of them is to be produced by itself.
        """
        try:
            partition = self._writable(principal, run.key)
        except ApiError:
            return False
        if not partition.role.append_run(run, on_ack=production.decide, on_buffer_free=on_buffer_free):
            return False
        self._expire_later(production, run.acks, _ack_timeout_ms(partition, run.timeout_ms))
        return True

    def write_run(self, principal: Principal, run: ProduceRun) -> LogAppendInfo | None:
        """`produce_run` of all requests of a run where it is over when this returns: what becomes of them is returned.

        None: nothing has happened.
        """
        try:
            partition = self._writable(principal, run.key)
        except ApiError:
            return None
        return partition.role.write_run(run)

    def produce(
        self,
        principal: Principal,
        writes: Sequence[PartitionWrite],
        *,
        acks: int,
        timeout_ms: int,
        on_buffer_free: Callable[[], None],
        on_produced: OnProduced,
        append: PartitionAppend | None = None,
    ) -> None:
        """Append to every partition; `on_produced` is called exactly once with one acknowledgement a write, in order.

        `on_buffer_free` is called once for each write, when its records are no longer needed. An acknowledgement says
        TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION (a
        coordinator's topic), INVALID_REQUIRED_ACKS, INVALID_RECORD (no records), or what `Leader.append` says.
        Who appends in another way than the partition by itself gives `append`.
        """
        production = Production(len(writes), on_produced)
        patience_ms = _NO_END
        for index, write in enumerate(writes):
            try:
                partition = self._find(principal, write, acks)
            except ApiError as error:
                on_buffer_free()
                production.decide(index, AppendAck.refused(error))
                continue
            assert write.records is not None
            patience_ms = min(patience_ms, _ack_timeout_ms(partition, timeout_ms))
            on_ack = partial(production.decide, index)
            if append is None:
                partition.role.append(write.records, acks=acks, on_ack=on_ack, on_buffer_free=on_buffer_free)
            else:
                append(partition, write.records, acks, on_ack, on_buffer_free)
        if not writes:
            on_produced([])
        else:
            self._expire_later(production, acks, patience_ms)

    def _expire_later(self, production: SingleProduction | Production, acks: int, patience_ms: int) -> None:
        """Answer a producer that waits for replicas when its time is up."""
        if acks == ACKS_ALL and patience_ms != _NO_END and not production.is_over:
            self._deadlines.add(production, patience_ms)

    def _find(self, principal: Principal, write: PartitionWrite, acks: int) -> Partition:
        """Where to write to. Raises ApiError when nothing is to be written."""
        topic, index, records, refusal = write
        if refusal is not None:
            raise ApiError(refusal.error, refusal.message or "")
        if acks not in _ACKS:
            raise ApiError(
                ErrorCode.INVALID_REQUIRED_ACKS, f"invalid value for required acks: it must be 0, 1 or -1, not {acks}"
            )
        if not records:
            raise ApiError(ErrorCode.INVALID_RECORD, "a partition was named without records for it")
        return self._writable(principal, (topic if isinstance(topic, str) else topic.bytes, index))

    def _writable(self, principal: Principal, key: PartitionKey) -> Partition:
        """The partition, if the principal may write to it. Raises ApiError."""
        topic, index = key
        if isinstance(topic, str):
            require(self._authorizer, principal, Operation.WRITE, ResourceType.TOPIC, topic)
            partition = self._replicas.by_key.get(key) or self._replicas.get(topic, index)
        else:
            partition = self._replicas.by_key.get(key) or self._replicas.get_by_id(UUID(bytes=topic), index)
            require(self._authorizer, principal, Operation.WRITE, ResourceType.TOPIC, partition.topic_partition.topic)
        if partition.topic_partition.topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "only coordinators write to internal topics")
        return partition
