"""Produce (key 0), versions 3 to 13, advertised from 0.

3 record batches of magic 2; 5 log start offset in the response; 7 zstd (KIP-110); 8 record errors (KIP-467); 9
flexible; 10 the new leader in the response (KIP-951); 11 as 10; 12 implicit AddPartitionsToTxn (KIP-890); 13 topic ids
(KIP-516).

librdkafka takes the message format of a broker from the lowest version of Produce it advertises, so 0 is advertised
although the versions below 3 are gone (KAFKA-18659).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.broker.produce import TIMED_OUT, PartitionWrite
from ottla.broker.transaction_gate import TransactionSupport
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.current_leaders import CurrentLeaders
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.network.response_slots import ResponseSlots
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.records.batch import ATTRIBUTES_POSITION
from ottla.records.compression import CompressionType
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.leader import ACKS_NONE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from ottla.broker.request_quotas import RunCharge
    from ottla.gateways.kafka.gateway import KafkaConnection
    from ottla.native import ProduceRun
    from ottla.network.connection import ResponseSlot
    from ottla.network.receive_buffer import ReceiveBuffer
    from ottla.protocol.frame import SingleProduceRequest

ZSTD_VERSION: Final = 7
TOPIC_ID_VERSION: Final = 13

_CODEC_AT: Final = ATTRIBUTES_POSITION + 1
_CODEC_MASK: Final = 0x07
_ZSTD: Final = int(CompressionType.ZSTD)
_NONE: Final = ErrorCode.NONE

_NAMED_TWICE: Final = AppendAck(
    ErrorCode.INVALID_REQUEST,
    "the request names the partition more than once, and nothing was written to it: send one batch for each partition",
)
_ZSTD_TOO_EARLY: Final = AppendAck(
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    f"zstd comes with version {ZSTD_VERSION} of Produce (KIP-110); compress with another codec, or use a newer client",
)


def handle(ctx: RequestContext, request: ProduceRequest) -> None:
    """Append each partition's batch; answer when all of them are decided."""
    if request.transactional_id is not None:
        _handle_transactional(ctx, request, request.transactional_id)
        return
    topics, writes = _writes(ctx, request)
    buffer = ctx.buffer
    for _ in writes:
        buffer.retain()

    def on_produced(acknowledgements: list[AppendAck]) -> None:
        _answer(ctx, request.acks, topics, acknowledgements)

    ctx.broker.produce.produce(
        ctx.principal,
        writes,
        acks=request.acks,
        timeout_ms=max(0, request.timeout_ms),
        on_buffer_free=buffer.release,
        on_produced=on_produced,
    )


def _handle_transactional(ctx: RequestContext, request: ProduceRequest, transactional_id: str) -> None:
    """Append each partition's batch once its transaction is known to have the partition."""
    topics, writes = _writes(ctx, request)
    buffer = ctx.buffer
    for _ in writes:
        buffer.retain()

    def on_produced(acknowledgements: list[AppendAck]) -> None:
        _answer(ctx, request.acks, topics, acknowledgements)

    ctx.broker.transactional_produce.produce(
        ctx.principal,
        transactional_id,
        TransactionSupport.of_produce(ctx.api_version),
        writes,
        acks=request.acks,
        timeout_ms=max(0, request.timeout_ms),
        on_buffer_free=buffer.release,
        on_produced=on_produced,
    )


def handle_single(
    connection: KafkaConnection, request: SingleProduceRequest, buffer: ReceiveBuffer, slot: ResponseSlot
) -> None:
    """Append to the only partition that is named, of a request that the kernel has read: nearly all are like that."""
    buffer.retain()
    connection.gateway.broker.produce.produce_one(
        SingleProduction((connection, request, buffer, slot)),
        connection.principal,
        request.key,
        request.records,
        request.acks,
        request.timeout_ms,
        buffer.release,
    )


def handle_run(
    connections: Sequence[KafkaConnection], run: ProduceRun, buffer: ReceiveBuffer, charge: RunCharge | None
) -> bool:
    """Append what many such requests of one principal to one partition bring, as one. `charge` counts them."""
    first = connections[0]
    production = RunProduction()
    if not first.gateway.broker.produce.produce_run(production, first.principal, run, buffer.release):
        return False
    buffer.retain()
    if len(connections) == 1:
        connections = (first,) * len(run)
    elif len(connections) != len(run):
        connections = [owner.handler for owner in run.owners]
    slots = ResponseSlots([each.connection.responses for each in connections])
    production.in_flight = connections, run, buffer, slots
    if charge is not None:
        production.throttle_ms = charge.settle(each.connection for each in connections)
    return True


class RunProduction(Struct, eq=False):
    """As `SingleProduction`, of all requests of a run."""

    in_flight: tuple[Sequence[KafkaConnection], ProduceRun, ReceiveBuffer, ResponseSlots] | None = None
    is_over: bool = False
    throttle_ms: int = 0

    def decide(self, ack: AppendAck) -> None:
        """Answer all of them, unless that was done. `ack` is that of the first."""
        in_flight = self.in_flight
        if in_flight is None:
            return
        self.in_flight, self.is_over = None, True
        connections, run, buffer, slots = in_flight
        if ack.error is _NONE and not self.throttle_ms:
            answers = run.answers(ack.base_offset, ack.log_append_time_ms, ack.log_start_offset)
            if connections[0] is connections[-1]:
                slots.send_to_one(answers)
            else:
                slots.send(answers)
            return
        base_offset, batches = ack.base_offset, run.batches
        for index, (connection, slot) in enumerate(zip(connections, slots.apart(), strict=True)):
            production = SingleProduction((connection, run.request(index), buffer, slot), throttle_ms=self.throttle_ms)
            production.decide(replace(ack, base_offset=base_offset) if ack.error is _NONE else ack)
            base_offset += batches[index].record_count

    def expire(self) -> None:
        """The producers' time is up."""
        self.decide(TIMED_OUT)


class SingleProduction(Struct, eq=False):
    """One such request on its way, see `ottla.broker.produce.SingleProduction`."""

    in_flight: tuple[KafkaConnection, SingleProduceRequest, ReceiveBuffer, ResponseSlot] | None
    """The request, until it is answered: the deadlines may hold this for longer, but not what it takes."""
    is_over: bool = False
    throttle_ms: int = 0

    def decide(self, ack: AppendAck) -> None:
        """Answer, unless that was done."""
        in_flight = self.in_flight
        if in_flight is None:
            return
        self.in_flight, self.is_over = None, True
        connection, request, buffer, slot = in_flight
        try:
            if ack.error is _NONE and request.acks and not self.throttle_ms:
                slot.answer(request.answer(ack.base_offset, ack.log_append_time_ms, ack.log_start_offset))
            else:
                version, correlation_id, client_id = request.api_version, request.correlation_id, request.client_id
                ctx = RequestContext(connection, slot, version, correlation_id, client_id, buffer)
                data = (PartitionProduceData(index=request.partition),)
                topic = TopicProduceData(name=request.topic_name, topic_id=request.topic_id, partition_data=data)
                _answer(ctx, request.acks, (topic,), (ack,), self.throttle_ms)
        except Exception as error:
            connection.fail(error, slot)

    def expire(self) -> None:
        """The producer's time is up."""
        self.decide(TIMED_OUT)


def _writes(ctx: RequestContext, request: ProduceRequest) -> tuple[list[TopicProduceData], list[PartitionWrite]]:
    """Each topic and each partition once, as they are answered, and what is to be written, in the same order.

    A partition that is named more than once is refused: of its batches Kafka keeps the last, and acknowledges it alone.
    """
    by_topic: dict[tuple[str, UUID], dict[int, PartitionProduceData]] = {}
    repeated: set[tuple[str, UUID, int]] = set()
    for topic in request.topic_data:
        partitions = by_topic.setdefault((topic.name, topic.topic_id), {})
        for data in topic.partition_data:
            if data.index in partitions:
                repeated.add((topic.name, topic.topic_id, data.index))
            partitions[data.index] = data
    topics, writes = [], []
    for (name, topic_id), partitions in by_topic.items():
        if not partitions:
            continue
        topics.append(TopicProduceData(name=name, topic_id=topic_id, partition_data=tuple(partitions.values())))
        for index, data in partitions.items():
            write = _write(ctx, topics[-1], data)
            writes.append(
                write._replace(refusal=_NAMED_TWICE) if repeated and (name, topic_id, index) in repeated else write
            )
    return topics, writes


def _write(ctx: RequestContext, topic: TopicProduceData, data: PartitionProduceData) -> PartitionWrite:
    """What is to be written, and whether this version or this broker cannot have it at all."""
    version, records = ctx.api_version, data.records
    batch = records if isinstance(records, memoryview) else None
    refusal = None
    if version < ZSTD_VERSION and batch and len(batch) > _CODEC_AT and batch[_CODEC_AT] & _CODEC_MASK == _ZSTD:
        refusal = _ZSTD_TOO_EARLY
    return PartitionWrite(topic.topic_id if version >= TOPIC_ID_VERSION else topic.name, data.index, batch, refusal)


def _answer(
    ctx: RequestContext,
    acks: int,
    topics: Sequence[TopicProduceData],
    acknowledgements: Sequence[AppendAck],
    throttle_ms: int = 0,
) -> None:
    """Tell the producer what became of the partitions that `topics` names, one acknowledgement each, in order."""
    try:
        if acks == ACKS_NONE:
            _finish_unacknowledged(ctx, acknowledgements)
        else:
            ctx.respond(_response(ctx, topics, acknowledgements, throttle_ms))
    except Exception as error:
        ctx.fail(error)


def _finish_unacknowledged(ctx: RequestContext, acknowledgements: Sequence[AppendAck]) -> None:
    """A producer that wants no answer learns of a failure by losing its connection, as with Apache Kafka."""
    for ack in acknowledgements:
        if ack.error is not ErrorCode.NONE:
            raise InvalidInputError(f"produce with acks=0 failed: {ack.error.name}: {ack.message}")
    ctx.no_response()


def _response(
    ctx: RequestContext,
    named: Sequence[TopicProduceData],
    acknowledgements: Sequence[AppendAck],
    throttle_ms: int = 0,
) -> ProduceResponse:
    answers = iter(acknowledgements)
    leaders = CurrentLeaders(ctx, ApiKey.PRODUCE)
    topics = []
    for topic in named:
        partitions = []
        for data in topic.partition_data:
            ack = next(answers)
            if ack.error is not ErrorCode.NONE:
                ctx.note_refusal(ack.error, ack.message)
            leader = leaders.of(topic.name, topic.topic_id, data.index, ack.error)
            partitions.append(
                PartitionProduceResponse(
                    index=data.index,
                    error_code=ack.error,
                    base_offset=ack.base_offset,
                    log_append_time_ms=ack.log_append_time_ms,
                    log_start_offset=ack.log_start_offset,
                    record_errors=tuple(BatchIndexAndErrorMessage(*each) for each in ack.record_errors),
                    error_message=ack.message if ack.error is not ErrorCode.NONE else None,
                    current_leader=LeaderIdAndEpoch(*leader),
                )
            )
        topics.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=tuple(partitions))
        )
    return ProduceResponse(
        responses=tuple(topics), throttle_time_ms=throttle_ms, node_endpoints=leaders.endpoints(NodeEndpoint)
    )


API = Api(
    ApiKey.PRODUCE,
    3,
    13,
    handle,
    advertised_min_version=0,
    handle_single=handle_single,
    handle_run=handle_run,
)
