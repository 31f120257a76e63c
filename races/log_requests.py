"""Requests about records, of every version: Produce, Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from ottla.native import build_batch, decode_records, walk_batches
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages import delete_records as dr
from ottla.protocol.messages import describe_producers as dp
from ottla.protocol.messages import fetch as f
from ottla.protocol.messages import init_producer_id as ipi
from ottla.protocol.messages import list_offsets as lo
from ottla.protocol.messages import offset_for_leader_epoch as ofle
from ottla.protocol.messages import produce as p
from races.history import Append, At, Exchange, Look, Read
from races.keys import key_of
from races.raw_connection import Ask
from races.stage import KEPT, TRIMMED, Stage, answered
from workload.payload import Payload, read_value, value_of

OPENED_BYTES_MAX = 64 << 20
VALUE_BYTES = 200
ZSTD_SINCE_VERSION = 7
"""Of Produce (KIP-110)."""
ZSTD_FETCH_VERSION = 10
"""The first of Fetch that is given batches in zstd."""


@dataclass(slots=True)
class RawProducer:
    """Numbers records, and gives them sequence numbers once it has a producer id."""

    name: str
    next_number: int = 0
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, UUID | None, int], int] = field(default_factory=dict)
    """By topic, its id, and partition."""
    last: dict[tuple[str, UUID | None, int], tuple[bytearray, Append]] = field(default_factory=dict)
    """The newest batch of each."""
    is_broken: bool = False
    """A batch was refused: those behind it would be out of order."""


def pick_version(message_class: Any, rng: Random, least: int = 0) -> int:
    """One of the versions of a request."""
    return rng.randint(max(least, message_class.MIN_VERSION), message_class.MAX_VERSION)


def _names(stage: Stage, topic: str, rng: Random, version: int, by_id_from: int) -> tuple[str, UUID, UUID | None]:
    """How to ask for a topic in a version: a name, or an id; and the id once more when it is asked for by it."""
    if version < by_id_from:
        return topic, ZERO_UUID, None
    topic_id = stage.topic_id(topic, rng) or UUID(int=rng.getrandbits(128))
    return "", topic_id, topic_id


def produce(
    stage: Stage, rng: Random, producer: RawProducer, topic: str, acks: int, *, value_bytes: int = VALUE_BYTES
) -> Ask:
    """A batch of a few records, of a producer with sequence numbers if it has them; or its newest batch once more."""
    version = pick_version(p.ProduceRequest, rng)
    if producer.producer_id >= 0:
        acks = -1
        if topic not in KEPT + TRIMMED:
            # Sequence numbers belong to one life of a topic: only by its id is it sure to be that one.
            version = p.ProduceRequest.MAX_VERSION
            if (life := stage.lives.get(topic)) is None or life.topic_id is None:
                topic = rng.choice(KEPT)
    life = stage.lives.get(topic)
    name, topic_id, by_id = _names(stage, topic, rng, version, 13)
    if producer.producer_id >= 0 and by_id is not None and life is not None and life.topic_id is not None:
        topic_id = by_id = life.topic_id
    partition = stage.partition_of(topic, rng)
    key = (topic, life.topic_id if life is not None else None, partition)
    known = producer.last.get(key) if producer.producer_id >= 0 and version >= ZSTD_SINCE_VERSION else None
    if known is not None and rng.random() < 0.15:
        batch, earlier = known
        first, count = earlier.first_number, earlier.count
    else:
        first, count = producer.next_number, rng.randint(1, 8)
        producer.next_number += count
        batch = _batch(rng, producer, key, first, count, version, value_bytes)
    append = Append(
        topic,
        partition,
        stage.now(),
        topic_id=by_id,
        producer=producer.name,
        first_number=first,
        count=count,
        acks=acks,
    )
    stage.history.appends.append(append)
    if producer.producer_id >= 0:
        producer.last[key] = batch, append
    request = p.ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=(
            p.TopicProduceData(
                name=name,
                topic_id=topic_id,
                partition_data=(p.PartitionProduceData(index=partition, records=batch),),
            ),
        ),
    )

    def on_answer(response: Any, exchange: Exchange) -> None:
        for told in response.responses[0].partition_responses:
            answered(append, exchange, told.error_code)
            if told.error_code:
                producer.is_broken = True
            else:
                append.offset, append.log_start = told.base_offset, told.log_start_offset

    return Ask(request, version, on_answer, wait_s=30.0, about=topic, is_answered=acks != 0)


def _batch(
    rng: Random,
    producer: RawProducer,
    key: tuple[str, UUID | None, int],
    first: int,
    count: int,
    version: int,
    value_bytes: int,
) -> bytearray:
    now_ms = int(time.time() * 1000)
    records = [
        (now_ms, key_of(payload), value_of(*payload, value_bytes), ())
        for payload in (Payload(producer.name, number) for number in range(first, first + count))
    ]
    codec = rng.choice((0, 0, 0, 1, 2, 3, 4 if version >= ZSTD_SINCE_VERSION else 3))
    if producer.producer_id < 0:
        return build_batch(records, codec=codec)
    sequence = producer.sequences.get(key, 0)
    producer.sequences[key] = sequence + count
    return build_batch(
        records,
        codec=codec,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
    )


def init_producer_id(stage: Stage, rng: Random, producer: RawProducer) -> Ask:
    """A producer id; the producer goes on under a new name."""

    def on_answer(response: Any, _: Exchange) -> None:
        if response.error_code == 0:
            producer.name, producer.next_number = stage.name("raw"), 0
            producer.producer_id, producer.epoch = response.producer_id, response.producer_epoch
            producer.sequences.clear()
            producer.last.clear()
            producer.is_broken = False

    request = ipi.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    return Ask(request, pick_version(ipi.InitProducerIdRequest, rng), on_answer)


def fetch(
    stage: Stage,
    rng: Random,
    topic: str,
    offset: int,
    *,
    partition: int | None = None,
    max_wait_ms: int = 0,
    max_bytes: int | None = None,
    reads: list[Read] | None = None,
    least_version: int = 0,
) -> Ask:
    """A fetch of one partition, outside of any session; what came is added to `reads` as well."""
    version = pick_version(f.FetchRequest, rng, least_version)
    partition = stage.partition_of(topic, rng) if partition is None else partition
    name, topic_id, by_id = _names(stage, topic, rng, version, 13)
    read = Read(topic, partition, stage.now(), topic_id=by_id, fetch_offset=offset)
    stage.history.reads.append(read)
    size = rng.choice((1, 2_000, 1 << 20)) if max_bytes is None else max_bytes
    wanted = f.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size)
    request = f.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=50 << 20,
        topics=(f.FetchTopic(topic=name, topic_id=topic_id, partitions=(wanted,)),),
    )

    def on_answer(response: Any, exchange: Exchange) -> None:
        for told_topic in response.responses:
            for told in told_topic.partitions:
                take_fetched(read, told, exchange)
        if reads is not None:
            reads.append(read)

    return Ask(request, version, on_answer, wait_s=max_wait_ms / 1000, about=topic)


def take_fetched(read: Read, told: f.PartitionData, exchange: Exchange) -> None:
    """What a Fetch says of a partition."""
    answered(read, exchange, told.error_code)
    if told.error_code:
        return
    read.high_watermark, read.log_start = told.high_watermark, told.log_start_offset
    if told.records is not None and len(told.records):  # type: ignore[arg-type]
        found = decode_records(
            told.records,  # type: ignore[arg-type]
            max_decompressed_bytes=OPENED_BYTES_MAX,
            start_offset=max(read.fetch_offset, 0),
        )
        batches, _, _ = walk_batches(told.records, check_crc=True)  # type: ignore[arg-type]
        read.end = batches[-1].last_offset + 1 if batches else -1
        read.records = [(offset, read_value(value)) for offset, _, _, value, _ in found]
        for batch in batches:
            identity = batch.producer_id, batch.producer_epoch
            read.identities.update(dict.fromkeys(range(batch.base_offset, batch.last_offset + 1), identity))


def list_offsets(stage: Stage, rng: Random, topic: str, at: At, partition: int | None = None) -> Ask:
    """Where one partition starts, ends, has its newest record, or a time."""
    version = pick_version(lo.ListOffsetsRequest, rng, 7 if at is At.MAX_TIMESTAMP else 0)
    partition = stage.partition_of(topic, rng) if partition is None else partition
    look = Look(topic, partition, stage.now(), at=at)
    stage.history.looks.append(look)
    timestamp = int((time.time() - rng.uniform(0, 20)) * 1000) if at is At.TIME else at.value
    request = lo.ListOffsetsRequest(
        replica_id=-1,
        topics=(
            lo.ListOffsetsTopic(
                name=topic, partitions=(lo.ListOffsetsPartition(partition_index=partition, timestamp=timestamp),)
            ),
        ),
        timeout_ms=30_000,
    )

    def on_answer(response: Any, exchange: Exchange) -> None:
        (told,) = response.topics[0].partitions
        answered(look, exchange, told.error_code)
        look.offset = told.offset

    return Ask(request, version, on_answer, about=f"{topic} {at.name}")


def delete_records(stage: Stage, rng: Random, topic: str) -> Ask | None:
    """Take away records up to an offset that was seen. None where nothing is known."""
    life = stage.lives.get(topic)
    if life is None:
        return None
    partition = rng.randrange(life.partition_count)
    known = [
        each.end
        for each in stage.history.appends[-400:]
        if each.topic == topic and each.partition == partition and each.is_acknowledged
    ]
    if not known:
        return None
    offset = rng.choice(known)
    if rng.random() < 0.3:
        offset = max(known)
    # Noted for every life it can reach.
    for each in stage.history.lives:
        if each.topic == topic:
            each.deletions[partition] = max(offset, each.deletions.get(partition, 0))
    look = Look(topic, partition, stage.now(), at=At.EARLIEST)
    request = dr.DeleteRecordsRequest(
        topics=(
            dr.DeleteRecordsTopic(
                name=topic, partitions=(dr.DeleteRecordsPartition(partition_index=partition, offset=offset),)
            ),
        ),
        timeout_ms=30_000,
    )

    def on_answer(response: Any, exchange: Exchange) -> None:
        (told,) = response.topics[0].partitions
        answered(look, exchange, told.error_code)
        look.offset = told.low_watermark
        stage.history.looks.append(look)

    return Ask(request, pick_version(dr.DeleteRecordsRequest, rng), on_answer, about=topic)


def offset_for_leader_epoch(stage: Stage, rng: Random, topic: str) -> Ask:
    """Where an epoch ends."""
    partition = ofle.OffsetForLeaderPartition(partition=stage.partition_of(topic, rng), leader_epoch=rng.randrange(3))
    request = ofle.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=(ofle.OffsetForLeaderTopic(topic=topic, partitions=(partition,)),)
    )
    return Ask(request, pick_version(ofle.OffsetForLeaderEpochRequest, rng), about=topic)


def describe_producers(stage: Stage, rng: Random, topic: str) -> Ask:
    """Who writes to a partition."""
    wanted = dp.TopicRequest(name=topic, partition_indexes=(stage.partition_of(topic, rng),))
    return Ask(dp.DescribeProducersRequest(topics=(wanted,)), 0, about=topic)
