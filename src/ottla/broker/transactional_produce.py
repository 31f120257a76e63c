"""Writing for transactional producers: their batches go through the gate before they are appended."""

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, require
from ottla.broker.produce import OnProduced, PartitionWrite, ProduceService
from ottla.broker.transaction_gate import Entry, TransactionGate, TransactionSupport
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, MAGIC, Attribute
from ottla.replication.acknowledgement import AppendAck, OnAck
from ottla.replication.partition import Partition, WritableBuffer

_PRODUCER: Final = Struct(">h20xqhi")
_MAGIC_AT: Final = 16


class BatchProducer(NamedTuple):
    """Who wrote a transactional batch."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


class TransactionalProduceService:
    """Belongs to the event loop; its methods never block."""

    __slots__ = ("_authorizer", "_gate", "_produce")

    def __init__(self, produce: ProduceService, gate: TransactionGate, authorizer: Authorizer = ALLOW_ALL) -> None:
        self._produce = produce
        self._gate = gate
        self._authorizer = authorizer

    def produce(
        self,
        principal: Principal,
        transactional_id: str,
        support: TransactionSupport,
        writes: Sequence[PartitionWrite],
        *,
        acks: int,
        timeout_ms: int,
        on_buffer_free: Callable[[], None],
        on_produced: OnProduced,
    ) -> None:
        """`ProduceService.produce` for a request with a transactional id.

        An acknowledgement may say besides TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_PRODUCER_ID_MAPPING (batches
        of several producers), and what the gate says.
        """
        try:
            self._require(principal, transactional_id, writes)
        except ApiError as error:
            refusal = AppendAck.refused(error)
            writes = [write._replace(refusal=refusal) for write in writes]
        self._produce.produce(
            principal,
            writes,
            acks=acks,
            timeout_ms=timeout_ms,
            on_buffer_free=on_buffer_free,
            on_produced=on_produced,
            append=partial(self._append, transactional_id, support),
        )

    def _require(self, principal: Principal, transactional_id: str, writes: Sequence[PartitionWrite]) -> None:
        producers = [producer_of(write.records) for write in writes if write.records]
        transactional = {producer[:2] for producer in producers if producer is not None}
        if transactional:
            require(self._authorizer, principal, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        if len(transactional) > 1:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the request has transactional batches of several producers"
            )

    def _append(
        self,
        transactional_id: str,
        support: TransactionSupport,
        partition: Partition,
        records: WritableBuffer,
        acks: int,
        on_ack: OnAck,
        on_buffer_free: Callable[[], None],
    ) -> None:
        producer = producer_of(records)
        if producer is None or producer.base_sequence < 0:  # what is refused anyhow begins no transaction
            partition.append(records, acks=acks, on_ack=on_ack, on_buffer_free=on_buffer_free)
            return

        def on_entered(entry: Entry) -> None:
            if entry.error is ErrorCode.NONE:
                partition.append(records, acks=acks, on_ack=on_ack, on_buffer_free=on_buffer_free, guard=entry.guard)
            else:
                on_buffer_free()
                on_ack(AppendAck(entry.error, entry.message))

        self._gate.enter(partition, transactional_id, *producer, support, on_entered)


def producer_of(records: WritableBuffer) -> BatchProducer | None:
    """Who wrote the batch at the start of `records`, by its header alone; None when it is no transactional batch."""
    if len(records) < HEADER_BYTES or records[_MAGIC_AT] != MAGIC:
        return None
    attributes, producer_id, producer_epoch, base_sequence = _PRODUCER.unpack_from(records, ATTRIBUTES_POSITION)
    if not attributes & Attribute.TRANSACTIONAL or producer_id < 0:
        return None
    return BatchProducer(producer_id, producer_epoch, base_sequence)
