"""What is sent in one go is done in this order: a change behind records finds them written, and none is refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.network.response_queue import ResponseQueue, ResponseSlot
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.server.socketless_broker import Peer, SocketlessBroker, _Lease, until


class Pipeline(Peer):
    """A connection whose answers leave in the order of its requests."""

    def __init__(self, broker: SocketlessBroker) -> None:
        super().__init__(broker.server)
        self._queue = ResponseQueue(self)
        self._asked: list[tuple[int, int]] = []
        self.answers: list[Any] = []

    def on_response(self, parts: Sequence[Any]) -> None:
        self.on_answer(b"".join(parts))

    def on_answer(self, answer: bytes) -> None:
        key, version = self._asked[len(self.answers)]
        self.answers.append(decode_response(key, version, answer[4:])[1])

    def on_held(self, by: int) -> None:
        """Nobody counts."""

    def on_abandoned(self, number: int) -> None:
        raise AssertionError(f"request {number} is never answered")

    def send_in_one_go(self, *requests: tuple[ApiMessage, int]) -> None:
        for message, version in requests:
            self._asked.append((message.API_KEY, version))
            frame = memoryview(bytearray(encode_request(7, "test", message, version)[4:]))
            self._handler.on_frame(frame, _Lease(), ResponseSlot(self._queue))  # type: ignore[arg-type]

    async def answered(self) -> list[Any]:
        await until(lambda: len(self.answers) == len(self._asked))
        return self.answers


def produce(transactional_id: str | None = None, **batch: Any) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=bytes(build_batch([(1_000, b"k", b"v", ())], **batch)))
    topics = (TopicProduceData(name="t", partition_data=(data,)),)
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=60_000, topic_data=topics)


def produced(answer: Any) -> tuple[int, int]:
    told = answer.responses[0].partition_responses[0]
    return told.error_code, told.base_offset


@pytest.fixture
async def broker(socketless_broker: SocketlessBroker) -> SocketlessBroker:
    await socketless_broker.create_topic("t", 1)
    return socketless_broker


async def test_records_are_deleted_once_they_are_there(broker: SocketlessBroker) -> None:
    wanted = DeleteRecordsTopic(name="t", partitions=(DeleteRecordsPartition(partition_index=0, offset=2),))
    pipeline = Pipeline(broker)
    broker.hold_writes()
    deletion = DeleteRecordsRequest(topics=(wanted,), timeout_ms=60_000)
    pipeline.send_in_one_go((produce(), 9), (produce(), 9), (deletion, 2), (produce(), 9))
    broker.let_writes_go()
    first, second, deleted, third = await pipeline.answered()
    assert [produced(each) for each in (first, second, third)] == [(0, 0), (0, 1), (0, 2)]
    (told,) = deleted.topics[0].partitions
    assert (told.error_code, told.low_watermark) == (ErrorCode.NONE, 2)


async def test_a_topic_is_deleted_behind_the_records_that_were_sent_to_it(broker: SocketlessBroker) -> None:
    await broker.create_topic("other", 1)
    pipeline = Pipeline(broker)
    broker.hold_writes()
    deletion = DeleteTopicsRequest(topic_names=("t",), timeout_ms=60_000)
    pipeline.send_in_one_go(*[(produce(), 9)] * 5, (deletion, 5), (produce(), 9))
    # A deletion that nothing stands before is done meanwhile, so this one would be too.
    await broker.connect().ask(DeleteTopicsRequest(topic_names=("other",), timeout_ms=60_000), 5)
    image = broker.server.metadata.current_image()
    assert (image.topic("other"), image.topic("t") is not None, pipeline.answers) == (None, True, [])
    broker.let_writes_go()
    *before, deleted, behind = await pipeline.answered()
    assert [produced(each) for each in before] == [(0, offset) for offset in range(5)]
    assert deleted.responses[0].error_code == ErrorCode.NONE
    assert produced(behind)[0] != ErrorCode.NONE


@pytest.mark.parametrize("version", [9, 12])
async def test_a_transaction_ends_behind_the_records_that_were_sent_in_it(
    broker: SocketlessBroker, version: int
) -> None:
    pipeline = Pipeline(broker)
    await pipeline.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=("x",)), 4)
    await until(lambda: not broker.server.services.transaction_coordinator._runtime.is_loading)
    given = await pipeline.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4)
    producer = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    records = produce("x", **producer, base_sequence=0, is_transactional=True)
    end = EndTxnRequest(transactional_id="x", committed=True, **producer)
    if version < 12:
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name="t", partitions=(0,)),),
        )
        pipeline.send_in_one_go((add, 3), (records, version), (end, 3))
    else:
        pipeline.send_in_one_go((records, version), (end, 5))
    *_, written, ended = await pipeline.answered()
    assert produced(written) == (ErrorCode.NONE, 0)
    assert ended.error_code == ErrorCode.NONE
