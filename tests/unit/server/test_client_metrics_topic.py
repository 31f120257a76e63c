"""Pushed metrics become records of a topic, and those that cannot are dropped within bounds."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from ottla.broker.client_metrics import ClientAttributes, Push, kafka_id
from ottla.client.address import Address
from ottla.client.admin.pushed_metrics import CLIENT_METRICS_TOPIC, PushedMetrics
from ottla.client.io.asyncio_io import AsyncioConnection, AsyncioIo
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError, InvalidInputError
from ottla.native import decode_records
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.runtime.clock import ManualClock
from ottla.runtime.tasks import Tasks
from ottla.server.client_metrics_topic import WAITING_BYTES_MAX, WAITING_MAX, ClientMetricsTopic
from ottla.server.own_client_io import OwnClientIo
from tests.unit.client.scripted_broker import SILENCE, ScriptedBroker, topic_id

INSTANCE = UUID(int=9)
CLIENT = ClientAttributes("etl", "librdkafka", "2.16.1", "10.0.0.7", 4711)


def push(metrics: bytes = b"m") -> Push:
    return Push(INSTANCE, CLIENT, 4, metrics, is_last=False)


class Keeper:
    """A broker that has the topic or makes it, and keeps what is written."""

    def __init__(self, broker: ScriptedBroker, error: int = 0) -> None:
        self.broker = broker
        self.error = error
        self.created: list[dict[str, str | None]] = []
        self.records: list[Any] = []
        broker.handlers[CreateTopicsRequest] = self._create
        broker.handlers[ProduceRequest] = self._produce

    def _create(self, request: CreateTopicsRequest, version: int) -> CreateTopicsResponse:
        [topic] = request.topics
        answer = CreateTopicsResponse(topics=(CreatableTopicResult(name=topic.name, error_code=self.error),))
        self.broker.topics[topic.name] = 1
        self.created.append({each.name: each.value for each in topic.configs})  # last: the test looks, and goes on
        return answer

    def _produce(self, request: ProduceRequest, version: int) -> ProduceResponse:
        [topic] = request.topic_data
        [partition] = topic.partition_data
        assert partition.records is not None
        self.records += decode_records(partition.records, max_decompressed_bytes=1 << 20)
        answer = PartitionProduceResponse(index=partition.index, base_offset=len(self.records))
        return ProduceResponse(
            responses=(
                TopicProduceResponse(
                    name=CLIENT_METRICS_TOPIC, topic_id=topic_id(CLIENT_METRICS_TOPIC), partition_responses=(answer,)
                ),
            )
        )


class OtherIo(OwnClientIo):
    """Connects to a broker in another process, which asks for nothing."""

    def __init__(self, address: str) -> None:
        AsyncioIo.__init__(self)
        self._address = address

    @property
    def bootstrap(self) -> str:
        return self._address

    async def connect(self, address: Address, options: ClientOptions) -> AsyncioConnection:
        return await AsyncioIo.connect(self, address, options)


class Opened:
    """A topic's writer that is closed at the end."""

    def __init__(self, bootstrap: str) -> None:
        self.tasks = Tasks()
        self.clock = ManualClock()
        self.topic = ClientMetricsTopic(lambda: OtherIo(bootstrap), 3, 1_000, self.clock, self.tasks)

    async def __aenter__(self) -> ClientMetricsTopic:
        return self.topic

    async def __aexit__(self, *_: object) -> None:
        await self.topic.close()
        assert len(self.tasks) == 0
        await self.tasks.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("error", [0, ErrorCode.TOPIC_ALREADY_EXISTS])
async def test_pushes_are_written_as_they_came_with_what_is_known_of_the_client(error):
    with ScriptedBroker() as broker:
        keeper = Keeper(broker, error)
        async with Opened(broker.address) as topic:
            for number in range(3):
                topic.receive(push(b"%d" % number))
            await until(lambda: len(keeper.records) == 3)
    assert len(keeper.created) == 1
    assert keeper.created[0]["cleanup.policy"] == "delete"
    pushed = [PushedMetrics.of_record(key, value, headers, time) for _, time, key, value, headers in keeper.records]
    assert [each.metrics for each in pushed] == [b"0", b"1", b"2"]
    assert {each.client_instance_id for each in pushed} == {kafka_id(INSTANCE)}
    [first, *_] = pushed
    assert (first.client_id, first.software_name, first.software_version) == ("etl", "librdkafka", "2.16.1")
    assert (first.address, first.port, first.broker_id, first.compression) == ("10.0.0.7", 4711, 3, "zstd")
    assert not first.is_last


async def test_what_cannot_be_written_is_dropped_and_said_once_and_the_next_is_written(caplog):
    caplog.set_level(logging.WARNING)
    with ScriptedBroker() as broker:
        keeper = Keeper(broker, ErrorCode.POLICY_VIOLATION)
        async with Opened(broker.address) as topic:
            topic.receive(push(b"refused"))
            await until(lambda: len(keeper.created) == 1)
            topic.receive(push(b"refused too"))
            await until(lambda: len(keeper.created) == 2)
            keeper.error = 0
            topic.receive(push(b"kept"))
            await until(lambda: len(keeper.records) == 1)
    assert [record[3] for record in keeper.records] == [b"kept"]
    assert [record.message for record in caplog.records if "could not store" in record.message] == [
        (
            "could not store metrics that clients pushed: topic '__client_metrics' was not created: POLICY_VIOLATION: "
            "the request does not satisfy the configured policy"
        )
    ]


@pytest.mark.parametrize(
    ("size", "fit"), [(1, WAITING_MAX), (WAITING_BYTES_MAX // 4, 4), (2 * WAITING_BYTES_MAX, 1)], ids=str
)
async def test_pushes_that_wait_are_bounded_and_one_fits_always(size, fit):
    async with Opened("127.0.0.1:1") as topic:
        for _ in range(fit):
            topic.receive(push(bytes(size)))  # nothing is written before this task waits
        with pytest.raises(ApiError) as refused:
            topic.receive(push(bytes(size)))
    assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def test_closing_ends_what_is_being_written_and_nothing_is_taken_any_more():
    asked = threading.Event()

    def asked_for_ever(request: ProduceRequest, version: int) -> object:
        asked.set()
        return SILENCE

    with ScriptedBroker() as broker:
        Keeper(broker)
        broker.handlers[ProduceRequest] = asked_for_ever
        opened = Opened(broker.address)
        before = asyncio.all_tasks()
        opened.topic.receive(push())
        await until(asked.is_set)
        opened.topic.receive(push())
        await opened.topic.close()
        assert asyncio.all_tasks() == before
        with pytest.raises(ApiError) as refused:
            opened.topic.receive(push())
        assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert len(opened.tasks) == 0


async def test_closing_at_once_leaves_nothing_behind():
    opened = Opened("127.0.0.1:1")
    opened.topic.receive(push())
    await opened.topic.close()
    assert len(opened.tasks) == 0


@pytest.mark.parametrize(
    "headers", [[], [("compression", b"zip")], [("client_source_port", b"x")]], ids=["none", "codec", "port"]
)
def test_a_record_that_no_broker_wrote_is_refused(headers):
    good = dict(PushedMetrics("i", "c", "s", "v", "a", 1, 1, "none", False, 0, b"").headers)
    with pytest.raises(InvalidInputError, match="not a broker's"):
        PushedMetrics.of_record(b"i", b"", [*({**good, **dict(headers)} if headers else {}).items()], 0)
