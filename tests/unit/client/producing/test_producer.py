"""The producer delivers each record once and in order over a real socket, and says what it could not deliver."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.client.errors import BrokerError, BrokerUnreachableError, ClientError, InvalidOptionError, TopicNotFoundError
from ottla.client.io.asyncio_io import AsyncioConnection, AsyncioIo
from ottla.client.options import ClientOptions
from ottla.client.producing.produce import Acks
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.model.error_code import ErrorCode
from ottla.native import build_batch, decode_records, validate_batches
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.client.model_log import ModelLog
from tests.unit.client.scripted_broker import CLOSE, SILENCE, ScriptedBroker, topic_id

pytestmark = pytest.mark.slow


class AppendingBroker(ScriptedBroker):
    """A broker with logs. `faults` are taken one a produce request: an error code, "lost before", "lost after"."""

    def __init__(self, topics: dict[str, int]) -> None:
        super().__init__(topics)
        self.logs: dict[int, ModelLog] = {}
        self.faults: list[Any] = []
        self.ids = 0
        self.handlers[ProduceRequest] = self._produce
        self.handlers[InitProducerIdRequest] = self._init_producer_id

    def _init_producer_id(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        if request.producer_id >= 0:
            return InitProducerIdResponse(producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1)
        self.ids += 1
        return InitProducerIdResponse(producer_id=1_000 + self.ids, producer_epoch=0)

    def _append(self, index: int, records: Any) -> tuple[int, int]:
        """The error code and the base offset of one partition's records."""
        return self.logs[index].append(records)

    def _produce(self, request: ProduceRequest, version: int) -> Any:
        fault = self.faults.pop(0) if self.faults else None
        if fault == "lost before":
            return CLOSE
        [topic] = request.topic_data
        answers = []
        for data in topic.partition_data:
            assert data.records is not None
            self.logs.setdefault(data.index, ModelLog())
            code, offset = (fault, -1) if isinstance(fault, int) else self._append(data.index, data.records)
            answers.append(PartitionProduceResponse(index=data.index, error_code=code, base_offset=offset))
        if fault == "lost after":
            return CLOSE
        if request.acks == 0:
            return SILENCE
        partition_responses = tuple(answers)
        return ProduceResponse(
            responses=(TopicProduceResponse(name="t", topic_id=topic_id("t"), partition_responses=partition_responses),)
        )


def producer(broker: ScriptedBroker, *, on_give_up: Callable[..., None] | None = None, **settings: Any) -> Producer:
    client = ClientOptions.of(broker.address, retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=60_000)
    return Producer(client, ProducerOptions(**{"linger_ms": 0, **settings}), on_give_up=on_give_up)


async def test_a_record_is_delivered_with_its_key_headers_and_time():
    with AppendingBroker({"t": 4}) as broker:
        async with producer(broker) as sending:
            metadata = await sending.send_and_wait(
                "t", b"value", key=b"key", partition=2, timestamp_ms=123, headers=[("a", b"1"), ("b", None)]
            )
        [data] = broker.asked(ProduceRequest)[0].topic_data[0].partition_data
    assert (metadata.topic_partition, metadata.offset) == (("t", 2), 0)
    assert decode_records(data.records, max_decompressed_bytes=1_000) == [
        (0, 123, b"key", b"value", [("a", b"1"), ("b", None)])
    ]


async def test_while_a_partition_has_no_leader_brokers_are_asked_at_the_pace_of_retries(
    monkeypatch: pytest.MonkeyPatch,
):
    leaderless, paused, pause = 5, 0, AsyncioIo.pause

    def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
        nonlocal leaderless
        answer = broker.metadata(request, version)
        if answer.topics and leaderless:
            leaderless -= 1
            [topic] = answer.topics
            [partition] = topic.partitions
            answer = replace(answer, topics=(replace(topic, partitions=(replace(partition, leader_id=-1),)),))
        return answer

    async def counted(io: AsyncioIo, pause_ms: int) -> None:
        nonlocal paused
        paused += 1
        await pause(io, pause_ms)

    monkeypatch.setattr(AsyncioIo, "pause", counted)
    with AppendingBroker({"t": 1}) as broker:
        broker.handlers[MetadataRequest] = metadata
        async with producer(broker) as sending:
            await sending.send_and_wait("t", b"value")
    assert (leaderless, paused) == (0, 4), (
        "after each answer without a leader but that which the partitions were asked of"
    )


FAULTS = [
    ["lost after"],
    ["lost before"],
    [int(ErrorCode.NOT_LEADER_OR_FOLLOWER)],
    ["lost before", "lost after", int(ErrorCode.NOT_ENOUGH_REPLICAS), "lost after"],
    ["lost after"] * 8,
    [None, "lost after", None, "lost before", int(ErrorCode.REQUEST_TIMED_OUT), "lost after"],
]


@pytest.mark.parametrize("faults", FAULTS)
async def test_records_arrive_once_and_in_order_whatever_is_lost(faults):
    with AppendingBroker({"t": 1}) as broker:
        broker.faults = list(faults)
        async with producer(broker, batch_bytes=300, request_bytes_max=300) as sending:
            deliveries = []
            for number in range(60):
                deliveries.append(await sending.send("t", b"%d" % number))
                if number % 7 == 0:
                    await asyncio.sleep(0)
            offsets = [(await delivery).offset for delivery in deliveries]
        assert broker.logs[0].values == [b"%d" % number for number in range(60)]
        assert offsets == list(range(60))
        assert not broker.faults


async def test_a_broker_that_forgot_the_producer_is_given_a_new_epoch():
    with AppendingBroker({"t": 1}) as broker:
        async with producer(broker) as sending:
            await sending.send_and_wait("t", b"before")
            broker.logs[0].producers = {1_001: [(0, 40, 50, 0)]}
            await sending.send_and_wait("t", b"after")
        last = validate_batches(broker.asked(ProduceRequest)[-1].topic_data[0].partition_data[0].records)[0]
    assert broker.logs[0].values == [b"before", b"after"]
    assert (last.producer_id, last.producer_epoch, last.base_sequence) == (1_001, 1, 0)


async def test_after_a_record_was_refused_those_behind_it_are_delivered():
    refused = []
    with AppendingBroker({"t": 1}) as broker:
        broker.faults = [int(ErrorCode.INVALID_RECORD)]
        async with producer(broker, on_give_up=lambda *what: refused.append(what)) as sending:
            bad = await sending.send("t", b"bad")
            await sending.flush()
            await sending.send_and_wait("t", b"good")
        assert isinstance(bad.error, BrokerError)
        assert "t-0 refused records: INVALID_RECORD" in str(bad.error)
        assert [(place, count) for place, count, _ in refused] == [(("t", 0), 1)]
        assert broker.logs[0].values == [b"good"]


class AnswerEater(AppendingBroker):
    """Appends what comes for partition 1 and does not answer the first of it; refuses what comes for partition 0."""

    def _append(self, index: int, records: Any) -> tuple[int, int]:
        return super()._append(index, records) if index else (int(ErrorCode.INVALID_RECORD), -1)

    def _produce(self, request: ProduceRequest, version: int) -> Any:
        if 1 not in self.logs:
            self.faults = ["lost after"]
        return super()._produce(request, version)


async def test_what_may_have_been_appended_is_known_again_though_another_record_was_refused():
    with AnswerEater({"t": 2}) as broker:
        client = ClientOptions.of(broker.address, retry_backoff_ms=300, retry_backoff_max_ms=300)
        async with Producer(client, ProducerOptions(linger_ms=0)) as sending:
            unanswered = await sending.send("t", b"once", partition=1)
            while 1 not in broker.logs:  # noqa: ASYNC110 (a thread's)
                await asyncio.sleep(0.001)
            refused = await sending.send("t", b"bad", partition=0)
            with pytest.raises(BrokerError, match="INVALID_RECORD"):
                await refused
            assert (await unanswered).offset == 0
            assert (await sending.send_and_wait("t", b"after", partition=1)).offset == 1
        assert broker.logs[1].values == [b"once", b"after"]


async def test_what_is_not_delivered_in_time_fails_with_the_last_reason():
    with AppendingBroker({"t": 1}) as broker:
        broker.faults = [int(ErrorCode.NOT_ENOUGH_REPLICAS)] * 10_000
        async with producer(broker, delivery_timeout_ms=2_000) as sending:
            with pytest.raises(BrokerError, match=r"1 record for t-0 was .* within 2000 ms.*NOT_ENOUGH_REPLICAS"):
                await sending.send_and_wait("t", b"late")


async def test_a_batch_the_broker_finds_too_large_is_sent_in_parts():
    with AppendingBroker({"t": 1}) as broker:
        broker.faults = [int(ErrorCode.MESSAGE_TOO_LARGE)]
        async with producer(broker, linger_ms=60_000) as sending:  # all are one batch
            deliveries = [await sending.send("t", b"%d" % number) for number in range(5)]
            await sending.flush()
        assert broker.logs[0].values == [b"0", b"1", b"2", b"3", b"4"]
        assert [delivery.result().offset for delivery in deliveries] == [0, 1, 2, 3, 4]


async def test_a_record_larger_than_a_request_is_refused_at_once():
    with AppendingBroker({"t": 1}) as broker:
        async with producer(broker) as sending:
            with pytest.raises(BrokerError, match="larger than a request may be") as refused:
                await sending.send("t", b"x" * 2_000_000)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


async def test_sending_waits_for_room():
    with AppendingBroker({"t": 1}) as broker:
        async with producer(broker, buffer_bytes=1_000, batch_bytes=500) as sending:
            for number in range(100):
                await sending.send("t", b"%03d" % number + b"." * 200)
        assert len(broker.logs[0].values) == 100


async def test_no_room_within_the_time_is_an_error():
    with AppendingBroker({"t": 1}) as broker:
        broker.handlers[ProduceRequest] = lambda request, version: SILENCE
        async with producer(broker, buffer_bytes=500, batch_bytes=500, max_block_ms=20) as sending:
            await sending.send("t", b"x" * 300)
            with pytest.raises(BrokerError, match="no room for a record within 20 ms"):
                await sending.send("t", b"x" * 300)
            await sending.close(deliver=False)


async def test_a_producer_closed_as_it_sends_leaves_nothing_that_python_warns_of(monkeypatch, recwarn):
    """Closed before the task that waits for the answer has begun."""
    closing: list[asyncio.Task[None]] = []
    send = AsyncioConnection.send

    def send_and_close(connection: AsyncioConnection, message: Any, *args: Any, **settings: Any) -> Any:
        if isinstance(message, ProduceRequest):
            closing.append(asyncio.create_task(sending.close(deliver=False)))
        return send(connection, message, *args, **settings)

    monkeypatch.setattr(AsyncioConnection, "send", send_and_close)
    gc.collect()
    recwarn.clear()
    with AppendingBroker({"t": 1}) as broker:
        sending = producer(broker)
        await sending.start()
        delivered = await sending.send("t", b"x", partition=0)
        with pytest.raises(ClientError, match="closed before the record was delivered"):
            await delivered
        await asyncio.gather(*closing)
    gc.collect()
    assert [warning for warning in recwarn if "never awaited" in str(warning.message)] == []


async def test_records_of_one_key_go_to_one_partition():
    with AppendingBroker({"t": 8}) as broker:
        async with producer(broker) as sending:
            places = {(await sending.send_and_wait("t", b"v", key=b"the key")).topic_partition for _ in range(5)}
    assert len(places) == 1


async def test_an_unknown_topic_and_an_unknown_partition_are_errors():
    with AppendingBroker({"t": 1}) as broker:
        async with producer(broker, max_block_ms=20) as sending:
            with pytest.raises(TopicNotFoundError, match="topic 'other'"):
                await sending.send("other", b"v")
            with pytest.raises(TopicNotFoundError, match="partition 3 of topic 't'"):
                await sending.send("t", b"v", partition=3)


async def test_without_acks_nobody_waits():
    with AppendingBroker({"t": 1}) as broker:
        async with producer(broker, acks=Acks.NONE) as sending:
            metadata = await sending.send_and_wait("t", b"v")
            await sending.send_and_wait("t", b"w")
        assert metadata.offset == -1
        assert broker.asked(InitProducerIdRequest) == []


@pytest.mark.parametrize("codec", range(5))
async def test_batches_are_compressed_as_asked(codec):
    with AppendingBroker({"t": 1}) as broker:
        async with producer(broker, compression=codec) as sending:
            await sending.send_and_wait("t", b"v" * 500)
        [info] = validate_batches(broker.asked(ProduceRequest)[0].topic_data[0].partition_data[0].records)
        assert info.codec == codec
        assert broker.logs[0].values == [b"v" * 500]


async def test_an_encoded_batch_is_delivered_once_in_its_place():
    with AppendingBroker({"t": 1}) as broker:
        broker.faults = ["lost after", "lost after"]
        async with producer(broker) as sending:
            await sending.send("t", b"first")
            batch = build_batch([(0, None, b"a", ()), (0, None, b"b", ())])
            delivery = await sending.send_encoded("t", 0, batch, 2)
            await sending.send("t", b"last")
        assert broker.logs[0].values == [b"first", b"a", b"b", b"last"]
        assert delivery.result().offset == 1


async def test_records_that_cannot_be_encoded_fail_alone():
    with AppendingBroker({"t": 1}) as broker:
        async with producer(broker) as sending:
            headers: list[object] = [("name", b"value")]
            bad = await sending.send("t", b"v", headers=headers)  # type: ignore[arg-type]
            headers[0] = "changed after it was sent"
            await sending.flush()
            await sending.send_and_wait("t", b"good")
        assert isinstance(bad.error, ClientError)
        assert broker.logs[0].values == [b"good"]


async def test_a_broker_restart_loses_nothing():
    with AppendingBroker({"t": 1}) as broker:
        async with producer(broker) as sending:
            await sending.send_and_wait("t", b"0")
            for number in range(1, 30):
                await sending.send("t", b"%d" % number)
                if number % 10 == 0:
                    broker.drop_connections()
                    await asyncio.sleep(0)
        assert broker.logs[0].values == [b"%d" % number for number in range(30)]


async def test_a_leader_is_looked_for_again_after_it_has_moved():
    with AppendingBroker({"t": 1}) as broker:
        async with producer(broker) as sending:
            await sending.send_and_wait("t", b"0")
            before = len(broker.asked(MetadataRequest))
            broker.faults = [int(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
            await sending.send_and_wait("t", b"1")
            assert len(broker.asked(MetadataRequest)) > before


async def test_a_record_that_cannot_be_encoded_fails_alone():
    with AppendingBroker({"t": 1}) as broker:
        async with producer(broker) as sending:
            before = await sending.send("t", b"before")
            with pytest.raises(TypeError, match="the value of header 'name' must be bytes or None, not str"):
                await sending.send("t", b"wrong", headers=[("name", "text")])  # type: ignore[list-item]
            after = await sending.send("t", b"after")
            assert [(await before).offset, (await after).offset] == [0, 1]


async def test_a_producer_that_was_not_started_says_so():
    sending = Producer(ClientOptions.of("localhost:1"))
    with pytest.raises(BrokerUnreachableError):
        await sending.start()
    with pytest.raises(ClientError):
        await sending.send("t", b"v")
    await sending.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": Acks.LEADER, "idempotent": True},
        {"in_flight_requests_max": 6, "idempotent": True},
        {"batch_bytes": 0},
        {"batch_bytes": 100, "request_bytes_max": 50},
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings):
    with pytest.raises(InvalidOptionError):
        ProducerOptions(**settings)
