"""Transactional records through the whole broker: written, ended by markers, and read with both isolations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, walk_batches
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.unit.server.socketless_broker import Peer, Slot, SocketlessBroker, decoded, until

A, B = 100, 200
COMMITTED, UNCOMMITTED = 1, 0


class Coordinator:
    """Says of every partition what the test wants."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.asked: list[tuple[str, int, int, tuple[TopicPartition, ...], bool]] = []

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
        waiter: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        self.asked.append((transactional_id, producer_id, producer_epoch, tuple(partitions), verify_only))
        waiter(dict.fromkeys(partitions, self.error))


@pytest.fixture
async def broker(socketless_broker: SocketlessBroker) -> SocketlessBroker:
    await socketless_broker.create_topic("t", 2)
    return socketless_broker


@pytest.fixture
def coordinator(broker: SocketlessBroker) -> Coordinator:
    coordinator = Coordinator()
    broker.server.services.gate._verifier = coordinator
    return coordinator


def batch(producer_id: int, sequence: int, *, epoch: int = 0, transactional: bool = True) -> bytes:
    return bytes(
        build_batch(
            [(1_000, b"k", b"%d-%d" % (producer_id, sequence), ())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
    )


def produced(broker: SocketlessBroker, version: int, *batches: bytes, transactional_id: str | None = "x") -> Any:
    """A batch for each of the first partitions."""
    data = tuple(PartitionProduceData(index=index, records=records) for index, records in enumerate(batches))
    named: dict[str, Any] = {"topic_id": broker.topic_id("t")} if version >= 13 else {"name": "t"}
    topics = (TopicProduceData(**named, partition_data=data),)
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=5_000, topic_data=topics)


async def produce(
    broker: SocketlessBroker, peer: Peer, *batches: bytes, version: int = 12, **options: Any
) -> list[int]:
    answer = await peer.ask(produced(broker, version, *batches, **options), version)
    return [each.error_code for each in answer.responses[0].partition_responses]


async def end(
    peer: Peer, producer_id: int, *, commit: bool, epoch: int = 0, transaction_version: int = 0, partitions: int = 1
) -> list[int]:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=(WritableTxnMarkerTopic("t", tuple(range(partitions))),),
        coordinator_epoch=4,
        transaction_version=transaction_version,
    )
    with peer.as_broker():
        answer = await peer.ask(WriteTxnMarkersRequest(markers=(marker,)), 2)
    (result,) = answer.markers
    assert result.producer_id == producer_id
    return [each.error_code for topic in result.topics for each in topic.partitions]


def fetch_of(broker: SocketlessBroker, version: int, isolation: int, **options: Any) -> FetchRequest:
    named: dict[str, Any] = {"topic_id": broker.topic_id("t")} if version >= 13 else {"topic": "t"}
    partitions = (FetchPartition(partition_max_bytes=1 << 20),)
    request: dict[str, Any] = {"max_bytes": 1 << 20, "min_bytes": 1, "session_epoch": -1} | options
    return FetchRequest(isolation_level=isolation, topics=(FetchTopic(**named, partitions=partitions),), **request)


def read(slot: Slot, version: int) -> Any:
    answer = decoded(slot, 1, version)
    (topic,) = answer.responses
    (partition,) = topic.partitions
    assert partition.error_code == ErrorCode.NONE
    return partition


async def fetch(broker: SocketlessBroker, peer: Peer, isolation: int, version: int = 12) -> Any:
    slot = peer.send(fetch_of(broker, version, isolation), version)
    await until(lambda: slot.frame is not None)
    return read(slot, version)


def offsets_in(partition: Any) -> list[int]:
    batches, _, _ = walk_batches(partition.records or b"", check_crc=True)
    return [each.base_offset for each in batches]


async def latest(peer: Peer, isolation: int) -> int:
    wanted = ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),))
    answer = await peer.ask(ListOffsetsRequest(isolation_level=isolation, topics=(wanted,)), 8)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


@pytest.mark.parametrize("version", range(4, 19))
async def test_readers_of_each_isolation_get_what_is_theirs(
    broker: SocketlessBroker, coordinator: Coordinator, version: int
) -> None:
    peer = broker.connect()
    assert await produce(broker, peer, batch(A, 0)) == [ErrorCode.NONE]
    assert await end(peer, A, commit=False) == [ErrorCode.NONE]
    assert await produce(broker, peer, batch(B, 0)) == [ErrorCode.NONE]
    assert await produce(broker, peer, batch(A, 1)) == [ErrorCode.NONE]
    assert await end(peer, A, commit=True) == [ErrorCode.NONE]

    seen = await fetch(broker, peer, UNCOMMITTED, version)
    assert (offsets_in(seen), seen.aborted_transactions) == ([0, 1, 2, 3, 4], None)
    assert (seen.high_watermark, seen.last_stable_offset) == (5, 2)
    committed = await fetch(broker, peer, COMMITTED, version)
    assert offsets_in(committed) == [0, 1]
    assert [(each.producer_id, each.first_offset) for each in committed.aborted_transactions] == [(A, 0)]
    assert (committed.high_watermark, committed.last_stable_offset) == (5, 2)
    assert (await latest(peer, UNCOMMITTED), await latest(peer, COMMITTED)) == (5, 2)

    assert await end(peer, B, commit=True) == [ErrorCode.NONE]
    committed = await fetch(broker, peer, COMMITTED, version)
    assert offsets_in(committed) == [0, 1, 2, 3, 4, 5]
    assert await latest(peer, COMMITTED) == 6


async def test_a_reader_of_committed_records_waits_for_the_marker(
    broker: SocketlessBroker, coordinator: Coordinator
) -> None:
    peer, reader = broker.connect(), broker.connect()
    waiting = reader.send(fetch_of(broker, 12, COMMITTED, max_wait_ms=60_000), 12)
    assert await produce(broker, peer, batch(A, 0)) == [ErrorCode.NONE]
    assert await produce(broker, peer, batch(A, 1)) == [ErrorCode.NONE]
    assert waiting.frame is None
    await end(peer, A, commit=True)
    await until(lambda: waiting.frame is not None)
    partition = read(waiting, 12)
    assert (offsets_in(partition), partition.last_stable_offset) == ([0, 1, 2], 3)
    assert partition.aborted_transactions == ()


async def test_a_session_tells_when_the_last_stable_offset_moved(
    broker: SocketlessBroker, coordinator: Coordinator
) -> None:
    peer, reader = broker.connect(), broker.connect()
    first = await reader.ask(fetch_of(broker, 12, COMMITTED, session_epoch=0), 12)
    assert first.session_id
    await produce(broker, peer, batch(A, 0))
    told = []
    for epoch in (1, 2, 3):
        request = FetchRequest(
            session_id=first.session_id,
            session_epoch=epoch,
            isolation_level=COMMITTED,
            max_bytes=1 << 20,
            min_bytes=0,
        )
        answer = await reader.ask(request, 12)
        told.append([each.last_stable_offset for topic in answer.responses for each in topic.partitions])
        if epoch == 2:
            await end(peer, A, commit=True)
    assert told == [[0], [], [2]]


async def test_the_coordinator_is_asked_as_the_version_has_it(
    broker: SocketlessBroker, coordinator: Coordinator
) -> None:
    peer = broker.connect()
    names = (TopicPartition("t", 0), TopicPartition("t", 1))
    assert await produce(broker, peer, batch(A, 0), batch(A, 0), version=11) == [ErrorCode.NONE] * 2
    assert await produce(broker, peer, batch(A, 1), version=11) == [ErrorCode.NONE]
    assert await produce(broker, peer, batch(B, 0), version=13) == [ErrorCode.NONE]
    assert coordinator.asked == [("x", A, 0, names, True), ("x", B, 0, names[:1], False)]


@pytest.mark.parametrize(
    ("version", "error", "told"),
    [
        (10, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (12, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
async def test_what_the_coordinator_refuses_is_not_written(
    broker: SocketlessBroker, coordinator: Coordinator, version: int, error: ErrorCode, told: ErrorCode
) -> None:
    peer = broker.connect()
    coordinator.error = error
    assert await produce(broker, peer, batch(A, 0), version=version) == [told]
    assert await latest(peer, UNCOMMITTED) == 0


async def test_without_a_coordinator_a_transaction_is_told_to_try_again(broker: SocketlessBroker) -> None:
    assert await produce(broker, broker.connect(), batch(A, 0)) == [ErrorCode.NOT_ENOUGH_REPLICAS]


async def test_requests_that_cannot_be_meant_are_refused(broker: SocketlessBroker, coordinator: Coordinator) -> None:
    peer = broker.connect()
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await produce(broker, peer, batch(A, 0), transactional_id=None) == [denied]
    assert await produce(broker, peer, batch(A, 0), batch(A, 0), transactional_id=None) == [denied] * 2
    several = await produce(broker, peer, batch(A, 0), batch(B, 0))
    assert several == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    plain = batch(A, 0, transactional=False)
    assert await produce(broker, peer, plain) == [ErrorCode.NONE]
    assert await produce(broker, peer, b"") == [ErrorCode.INVALID_RECORD]
    assert await produce(broker, peer, b"\0" * 100) == [ErrorCode.CORRUPT_MESSAGE]
    assert coordinator.asked == []
    assert await latest(peer, UNCOMMITTED) == 1


async def test_markers_are_answered_partition_by_partition(broker: SocketlessBroker, coordinator: Coordinator) -> None:
    peer = broker.connect()
    await produce(broker, peer, batch(A, 0, epoch=5))
    assert await end(peer, A, commit=True, epoch=4, partitions=3) == [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert await end(peer, A, commit=True, epoch=5, transaction_version=2) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await end(peer, A, commit=True, epoch=6, transaction_version=2) == [ErrorCode.NONE]
    assert await end(peer, A, commit=True, epoch=6, transaction_version=2) == [ErrorCode.NONE]
    assert (await peer.ask(WriteTxnMarkersRequest(), 1)).markers == ()


async def test_nobody_but_a_broker_is_believed_that_a_transaction_was_committed(
    broker: SocketlessBroker, coordinator: Coordinator
) -> None:
    peer = broker.connect()
    await produce(broker, peer, batch(A, 0))
    topics = (WritableTxnMarkerTopic("t", (0,)),)
    commit = WritableTxnMarker(A, 5, transaction_result=True, topics=topics)
    abort = WritableTxnMarker(A, 5, transaction_result=False, topics=topics)
    for markers in ((commit,), (abort, commit)):
        answer = await peer.ask(WriteTxnMarkersRequest(markers=markers), 1)
        refused = [each.error_code for marker in answer.markers for topic in marker.topics for each in topic.partitions]
        assert set(refused) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    described = await peer.ask(DescribeProducersRequest(topics=(TopicRequest("t", (0,)),)), 0)
    assert described.topics[0].partitions[0].active_producers[0].current_txn_start_offset == 0
    answer = await peer.ask(WriteTxnMarkersRequest(markers=(abort,)), 1)
    assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE


async def test_producers_are_described_with_their_open_transaction(
    broker: SocketlessBroker, coordinator: Coordinator
) -> None:
    peer = broker.connect()
    await produce(broker, peer, batch(A, 0))
    await end(peer, A, commit=True)
    await produce(broker, peer, batch(A, 1))
    answer = await peer.ask(DescribeProducersRequest(topics=(TopicRequest("t", (0,)),)), 0)
    (described,) = answer.topics[0].partitions[0].active_producers
    assert (described.producer_id, described.coordinator_epoch, described.current_txn_start_offset) == (A, 4, 2)


async def test_a_topic_id_names_the_partition_of_a_transaction(
    broker: SocketlessBroker, coordinator: Coordinator
) -> None:
    assert isinstance(broker.topic_id("t"), UUID)
    assert await produce(broker, broker.connect(), batch(A, 0), version=13) == [ErrorCode.NONE]
    assert coordinator.asked[0][3] == (TopicPartition("t", 0),)
