"""Requests to one partition, read by the kernel or by the general codec: served the same, answered byte for byte."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ottla.broker.access import Operation, ResourceType
from ottla.broker.look_ups import LookUps
from ottla.broker.produce import DISK_MS, ProduceService
from ottla.gateways.kafka import api_00_produce
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.model.principal import Principal
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.network.task_gate import TaskGate
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.replication.acknowledgement import AppendAck, OnAck
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.deadlines import Deadlines
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer

pytestmark = pytest.mark.slow

TOPIC, TOPIC_ID, NOBODYS_ID = "t", UUID(int=7), UUID(int=8)
ANOTHER_BROKER = 2
WHOLE = api_00_produce.API
GENERAL = replace(WHOLE, handle_single=None)
"""The API without the kernel's part of it."""
VERSIONS = range(WHOLE.min_version, WHOLE.max_version + 1)


class Role:
    """Says of each append what it is told to, or nothing."""

    is_replicated = False

    def __init__(self, ack: AppendAck | None) -> None:
        self.ack = ack
        self.appended: list[tuple[bytes, int]] = []
        self.waiting: list[OnAck] = []

    def append(self, records: memoryview, *, acks: int, on_ack: OnAck, on_buffer_free: Callable[[], None]) -> None:
        self.appended.append((bytes(records), acks))
        on_buffer_free()
        if self.ack is None:
            self.waiting.append(on_ack)
        else:
            on_ack(self.ack)


class Buffer:
    """Counts who holds the buffer of a request."""

    held = 0

    def retain(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1


class Slot:
    """What was answered to one request."""

    is_void = False

    frame: bytes | None = None

    def send(self, parts: Any) -> None:
        assert self.frame is None, "a request is answered once"
        self.frame = b"".join(parts)

    def answer(self, answer: bytes) -> None:
        self.send((answer,))

    def skip(self) -> None:
        self.send(())


class ServedGateway:
    """A broker whose partition `t-0` decides as it is told, though the image has another broker for its leader."""

    def __init__(self, api: Api, ack: AppendAck | None, *others: Api, **rules: Any) -> None:
        self.role = Role(ack)
        self.timer = ManualTimer()
        self.deadlines = Deadlines(self.timer.clock, self.timer)
        replicas = ReplicaManager()
        name = TopicPartition(TOPIC, 0)
        partition: Any = SimpleNamespace(role=self.role, topic_partition=name, topic_id=TOPIC_ID, flush_before_ack=True)
        self.partition = partition
        replicas.add(partition)
        topic = TopicImage(TOPIC, TOPIC_ID, (PartitionImage(0, ANOTHER_BROKER, 5, (ANOTHER_BROKER,), (2,), 0),))
        node = SimpleNamespace(node_id=ANOTHER_BROKER, host="there", port=9092, rack="r")
        broker: Any = SimpleNamespace(
            task_gate=TaskGate(),
            look_ups=LookUps(),
            produce=ProduceService(replicas, self.deadlines, **rules),
            image=MetadataImage("cluster", topics_by_name={TOPIC: topic}, topics_by_id={TOPIC_ID: topic}),
            tasks=Tasks("test"),
            cluster=SimpleNamespace(node_id=1, node=lambda node_id, _: node if node_id == ANOTHER_BROKER else None),
        )
        gateway = KafkaGateway(broker, ApiTable.of([api, *others]), None)  # type: ignore[arg-type]
        self.said: list[str] = []
        connection: Any = SimpleNamespace(peer="test", is_muted=False, fail=self._say, complain=self.said.append)
        self.connection = gateway.connect(connection)
        self.buffer = Buffer()

    def _say(self, reason: str, slot: object) -> None:
        del slot
        self.said.append(reason)

    def send(self, frame: bytes) -> Slot:
        slot = Slot()
        self.connection.on_frame(memoryview(bytearray(frame)), self.buffer, slot)  # type: ignore[arg-type]
        return slot


def frame_of(
    version: int, *, acks: int = -1, is_there: bool = True, index: int = 0, records: bytes | None = None
) -> bytes:
    """A request of one record to a partition that is there, or not."""
    topic_id, name = (TOPIC_ID, TOPIC) if is_there else (NOBODYS_ID, "nobody")
    named = {"topic_id": topic_id} if version >= 13 else {"name": name}
    batch = bytes(build_batch([(0, None, b"x", ())])) if records is None else records
    data = (PartitionProduceData(index=index, records=batch),)
    topics = (TopicProduceData(**named, partition_data=data),)
    return encode_request(77, "me", ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics), version)[4:]


class Nobody:
    """Nobody may write to `t`."""

    version = 0

    def allows_on_any(self, *_: object) -> bool:
        return False

    def allows(self, principal: Principal, operation: Operation, kind: ResourceType, name: str) -> bool:
        return False


RULES: dict[str, dict[str, Any]] = {"none": {}, "authorizer": {"authorizer": Nobody()}}

int64 = st.integers(-(2**63), 2**63 - 1)
written = st.builds(AppendAck, st.just(ErrorCode.NONE), st.none(), int64, int64, int64)
refused = st.builds(
    AppendAck,
    st.sampled_from([error for error in ErrorCode if error is not ErrorCode.NONE]),
    st.none() | st.text(max_size=20),
    record_errors=st.lists(st.tuples(st.integers(0, 2**31 - 1), st.text(max_size=9)), max_size=3).map(tuple),
)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_write_the_same_and_answer_with_the_same_bytes(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    taken: list[str] = []

    def noted(*arguments: Any) -> None:
        taken.append("single")
        api_00_produce.handle_single(*arguments)

    apis = (replace(WHOLE, handle_single=noted), GENERAL)

    @given(
        written | refused,
        st.sampled_from([-1, 1, 0]),
        st.booleans(),
        st.sampled_from([0, 1]),
        st.sampled_from(list(RULES)),
    )
    def check(ack: AppendAck, acks: int, is_there: bool, index: int, rules: str) -> None:
        frame = frame_of(version, acks=acks, is_there=is_there, index=index)
        outcomes = []
        for api in apis:
            taken.clear()
            gateway = ServedGateway(api, ack, **RULES[rules])
            slot = gateway.send(frame)
            assert gateway.buffer.held == 0
            assert bool(taken) == (api is not GENERAL)
            outcomes.append((slot.frame, gateway.said, gateway.role.appended))
        assert outcomes[0] == outcomes[1]
        assert outcomes[0][0] is not None or outcomes[0][1], "neither answered nor closed"

    check()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("records", [b"", b"short", bytes(61)], ids=["none", "short", "of magic 0"])
def test_records_that_are_no_batch_are_answered_by_the_general_way(version: int, records: bytes) -> None:
    frame = frame_of(version, records=records)
    ack = AppendAck(ErrorCode.CORRUPT_MESSAGE, "said the log")
    slots = [ServedGateway(api, ack).send(frame) for api in (WHOLE, GENERAL)]
    assert slots[0].frame == slots[1].frame
    assert slots[0].frame is not None


def test_a_request_whose_time_is_up_is_answered_once_and_then_holds_nothing() -> None:
    gateway = ServedGateway(WHOLE, None)
    gateway.role.is_replicated = True
    slot = gateway.send(frame_of(9))
    assert slot.frame is None
    assert len(gateway.deadlines) == 1
    gateway.timer.advance(1_000)
    assert slot.frame is not None
    response: Any = decode_response(ApiKey.PRODUCE, 9, slot.frame[4:])[1]
    [topic] = response.responses
    assert [each.error_code for each in topic.partition_responses] == [ErrorCode.REQUEST_TIMED_OUT]
    [decide] = gateway.role.waiting
    decide(AppendAck(ErrorCode.NONE, base_offset=1))
    assert decide.__self__.in_flight is None


@pytest.mark.parametrize("api", [WHOLE, GENERAL], ids=["one partition", "the general way"])
@pytest.mark.parametrize(
    ("flushes", "is_replicated", "timed_out_after_ms"),
    [(False, False, None), (True, False, DISK_MS), (False, True, 1_000), (True, True, 1_000)],
    ids=["written by this broker alone", "on disk first", "on others too", "on disk and on others"],
)
def test_the_time_counts_where_others_are_waited_for_and_the_disk_gets_a_while_whatever_it_says(
    api: Api, flushes: bool, is_replicated: bool, timed_out_after_ms: int | None
) -> None:
    gateway = ServedGateway(api, None)
    gateway.partition.flush_before_ack, gateway.role.is_replicated = flushes, is_replicated
    slot = gateway.send(frame_of(9))
    gateway.timer.advance(999)
    assert slot.frame is None
    gateway.timer.advance(1)
    assert (slot.frame is not None) == (timed_out_after_ms == 1_000)
    gateway.timer.advance(DISK_MS - 1_001)
    assert (slot.frame is not None) == (timed_out_after_ms == 1_000)
    gateway.timer.advance(1)
    assert (slot.frame is not None) == (timed_out_after_ms is not None)


def test_a_request_that_was_answered_has_no_deadline_left() -> None:
    gateway = ServedGateway(WHOLE, None)
    slot = gateway.send(frame_of(9))
    [decide] = gateway.role.waiting
    decide(AppendAck(ErrorCode.NONE, base_offset=1))
    assert slot.frame is not None
    assert len(gateway.deadlines) == 0
    gateway.timer.advance(1_000)


def test_a_version_that_is_not_served_closes_the_connection_though_the_kernel_can_read_it() -> None:
    gateway = ServedGateway(replace(WHOLE, max_version=12), AppendAck(ErrorCode.NONE))
    with pytest.raises(InvalidInputError, match=r"PRODUCE version 13; .* 3 to 12"):
        gateway.send(frame_of(13))


def test_an_answer_that_cannot_be_made_closes_the_connection() -> None:
    gateway = ServedGateway(WHOLE, AppendAck(ErrorCode.NONE, base_offset=1 << 63))
    slot = gateway.send(frame_of(9))
    assert slot.frame is None
    assert gateway.said == ["a request failed inside the broker"]


async def test_a_request_behind_one_that_is_a_task_is_not_served_before_that_is_done() -> None:
    go_on = asyncio.Event()

    async def create(_ctx: RequestContext, _request: CreateTopicsRequest) -> CreateTopicsResponse:
        await go_on.wait()
        return CreateTopicsResponse()

    slow = Api(ApiKey.CREATE_TOPICS, 2, 7, create, is_async=True)
    gateway = ServedGateway(WHOLE, AppendAck(ErrorCode.NONE, base_offset=4), slow)
    first, second = gateway.send(encode_request(1, "me", CreateTopicsRequest(), 7)[4:]), gateway.send(frame_of(9))
    assert gateway.role.appended == []
    go_on.set()
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    assert first.frame is not None
    assert second.frame is not None
    assert len(gateway.role.appended) == 1
    assert gateway.buffer.held == 0


def test_requests_of_a_client_that_has_a_quota_go_the_general_way_where_they_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = ServedGateway(WHOLE, AppendAck(ErrorCode.NONE, base_offset=4))
    served: list[Any] = []
    has_quota = True
    quotas: Any = SimpleNamespace(binds=lambda *_: has_quota)
    monkeypatch.setattr("ottla.gateways.kafka.gateway.serve_charged", lambda *request: served.append(request))
    gateway.connection.gateway.quotas = quotas
    gateway.send(frame_of(9))
    assert (len(served), len(gateway.role.appended)) == (1, 0)
    has_quota = False
    gateway.send(frame_of(9))
    assert (len(served), len(gateway.role.appended)) == (1, 1), "a quota of another client changes nothing"
