"""Client quotas over the whole broker: set by request, kept, told and muted, and there after a restart.

The client of these tests is called "test", as `Peer` says.
"""

from pathlib import Path
from typing import Any

import pytest

from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.server.socketless_broker import Peer, SocketlessBroker

TEST = ("client-id", "test")
ANY = ("client-id", None)


async def set_quota(broker: SocketlessBroker, key: str, value: float | None, *entity: tuple[str, str | None]) -> None:
    operation = OpData(key, 0.0 if value is None else value, value is None)
    entry = RequestEntryData(tuple(EntityData(*part) for part in entity or (TEST,)), (operation,))
    answer = await broker.connect().ask(AlterClientQuotasRequest((entry,)), 1)
    assert [(each.error_code, each.error_message) for each in answer.entries] == [(0, None)]


def batch(size: int) -> bytes:
    return bytes(build_batch([(1, None, b"v" * size, ())]))


async def produce(peer: Peer, size: int, version: int = 9) -> Any:
    data = PartitionProduceData(index=0, records=batch(size))
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=(TopicProduceData("t", partition_data=(data,)),))
    answer = await peer.ask(request, version)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return answer


def fetch(session_id: int = 0, epoch: int = -1, *, offset: int | None = 0, max_bytes: int = 1 << 20) -> FetchRequest:
    topics = (
        ()
        if offset is None
        else (
            FetchTopic(topic="t", partitions=(FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes),)),
        )
    )
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, session_id=session_id, session_epoch=epoch, topics=topics
    )


def records_of(answer: Any) -> int:
    return sum(len(part.records or b"") for topic in answer.responses for part in topic.partitions)


async def test_while_nobody_has_a_quota_nothing_is_counted(socketless_broker: SocketlessBroker) -> None:
    gateway = socketless_broker.server.gateways.kafka
    assert gateway.quotas is None
    await set_quota(socketless_broker, "producer_byte_rate", 10.0)
    assert gateway.quotas is not None
    await set_quota(socketless_broker, "producer_byte_rate", None)
    assert gateway.quotas is None
    connections = socketless_broker.server.gateways.client_quotas._connections
    assert connections.creation_rate_of is None
    await set_quota(socketless_broker, "connection_creation_rate", 10.0, ("ip", None))
    assert gateway.quotas is None
    assert connections.creation_rate_of is not None
    assert connections.creation_rate_of("192.0.2.1") == 10.0


async def test_a_producer_over_its_quota_is_served_told_and_muted(socketless_broker: SocketlessBroker) -> None:
    await socketless_broker.create_topic("t")
    await set_quota(socketless_broker, "producer_byte_rate", 1_000.0)
    peer = socketless_broker.connect()
    assert (await produce(peer, 5_000)).throttle_time_ms == 0
    assert peer.muted_ms == []
    answer = await produce(peer, 15_000)
    # 20,000 bytes and what is around them, in windows that count as 10 s
    assert 10_000 < answer.throttle_time_ms < 10_500
    assert peer.muted_ms == [answer.throttle_time_ms]
    socketless_broker.timer.advance(11_000)
    assert (await produce(peer, 5_000)).throttle_time_ms == 0


@pytest.mark.parametrize("version", range(3, 14))
async def test_every_version_of_produce_can_say_so(socketless_broker: SocketlessBroker, version: int) -> None:
    await socketless_broker.create_topic("t")
    await set_quota(socketless_broker, "producer_byte_rate", 1.0)
    named = {"topic_id": socketless_broker.topic_id("t")} if version >= 13 else {"name": "t"}
    topic = TopicProduceData(**named, partition_data=(PartitionProduceData(index=0, records=batch(100)),))
    peer = socketless_broker.connect()
    answer = await peer.ask(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=(topic,)), version)
    assert answer.throttle_time_ms > 0
    assert peer.muted_ms == [answer.throttle_time_ms]


async def test_a_producer_that_wants_no_answer_is_muted_as_well(socketless_broker: SocketlessBroker) -> None:
    await socketless_broker.create_topic("t")
    await set_quota(socketless_broker, "producer_byte_rate", 1.0)
    peer = socketless_broker.connect()
    data = PartitionProduceData(index=0, records=batch(100))
    request = ProduceRequest(acks=0, timeout_ms=60_000, topic_data=(TopicProduceData("t", partition_data=(data,)),))
    assert peer.send(request, 9).frame == b""
    assert len(peer.muted_ms) == 1


async def test_a_reader_over_its_quota_gets_nothing_for_a_while_and_misses_nothing(
    socketless_broker: SocketlessBroker,
) -> None:
    await socketless_broker.create_topic("t")
    writer = socketless_broker.connect()
    for _ in range(3):
        await produce(writer, 6_000)
    await set_quota(socketless_broker, "consumer_byte_rate", 1_000.0)
    peer = socketless_broker.connect()
    opened = await peer.ask(fetch(0, 0, max_bytes=7_000), 11)
    assert (records_of(opened) > 6_000, opened.throttle_time_ms) == (True, 0)
    again = fetch(opened.session_id, 1, offset=1, max_bytes=7_000)
    throttled = await peer.ask(again, 11)
    assert (throttled.responses, throttled.session_id) == ((), opened.session_id)
    assert peer.muted_ms == [throttled.throttle_time_ms]
    assert throttled.throttle_time_ms > 0
    socketless_broker.timer.advance(11_000)  # what was read before is in no window any more
    served = await peer.ask(fetch(opened.session_id, 2, offset=None, max_bytes=7_000), 11)
    assert (records_of(served) > 6_000, served.throttle_time_ms) == (True, 0)


async def test_a_fetch_that_would_have_opened_a_session_opens_none_while_it_gets_nothing(
    socketless_broker: SocketlessBroker,
) -> None:
    await socketless_broker.create_topic("t")
    await produce(socketless_broker.connect(), 6_000)
    await set_quota(socketless_broker, "consumer_byte_rate", 600.0)
    peer = socketless_broker.connect()
    assert records_of(await peer.ask(fetch(), 11)) > 6_000
    throttled = await peer.ask(fetch(0, 0), 11)
    assert (throttled.session_id, throttled.responses, throttled.throttle_time_ms > 0) == (0, (), True)


async def test_a_fetch_gives_at_most_what_all_windows_allow(socketless_broker: SocketlessBroker) -> None:
    await socketless_broker.create_topic("t")
    for _ in range(10):
        await produce(socketless_broker.connect(), 1_000)
    await set_quota(socketless_broker, "consumer_byte_rate", 300.0)
    answer = await socketless_broker.connect().ask(fetch(), 11)
    assert 2_000 < records_of(answer) <= 3_000


async def test_whoever_keeps_the_broker_busy_is_quiet_for_one_window(socketless_broker: SocketlessBroker) -> None:
    await set_quota(socketless_broker, "request_percentage", 1e-9)
    peer = socketless_broker.connect()
    answer = await peer.ask(MetadataRequest(topics=()), 12)
    assert (answer.throttle_time_ms, peer.muted_ms) == (1_000, [1_000])
    task = await peer.ask(CreateTopicsRequest(topics=(CreatableTopic("a", 1, 1),), timeout_ms=60_000), 7)
    assert (task.throttle_time_ms, task.topics[0].error_code) == (1_000, ErrorCode.NONE)


async def test_changes_beyond_the_quota_are_refused_and_said_so(socketless_broker: SocketlessBroker) -> None:
    await set_quota(socketless_broker, "controller_mutation_rate", 1.0)
    peer = socketless_broker.connect()

    def creation(*topics: tuple[str, int]) -> CreateTopicsRequest:
        return CreateTopicsRequest(topics=tuple(CreatableTopic(*each, 1) for each in topics), timeout_ms=60_000)

    answer = await peer.ask(creation(("a", 13), ("b", 1)), 6)
    assert [topic.error_code for topic in answer.topics] == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert (answer.throttle_time_ms, peer.muted_ms) == (2_000, [2_000])
    growth = CreatePartitionsRequest(topics=(CreatePartitionsTopic("a", 14, None),), timeout_ms=60_000)
    assert (await peer.ask(growth, 3)).results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    deletion = DeleteTopicsRequest(topic_names=("a",), timeout_ms=60_000)
    assert (await peer.ask(deletion, 5)).responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    older = await peer.ask(creation(("c", 3)), 5)
    assert (older.topics[0].error_code, older.throttle_time_ms) == (ErrorCode.NONE, 5_000)
    socketless_broker.timer.advance(5_000)
    assert (await peer.ask(deletion, 5)).responses[0].error_code == ErrorCode.NONE


async def test_what_was_refused_for_another_reason_does_not_count(socketless_broker: SocketlessBroker) -> None:
    await set_quota(socketless_broker, "controller_mutation_rate", 1.0)
    peer = socketless_broker.connect()
    request = CreateTopicsRequest(topics=(CreatableTopic("bad name", 1_000, 1),), timeout_ms=60_000)
    for version in (5, 7):
        answer = await peer.ask(request, version)
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)


async def test_quotas_hold_after_a_restart_and_are_described(tmp_path: Path) -> None:
    broker = await SocketlessBroker(tmp_path / "data").open()
    await set_quota(broker, "producer_byte_rate", 5.0)
    await set_quota(broker, "request_percentage", 50.5, ("user", "anna"), ANY)
    await broker.close()
    broker = await SocketlessBroker(tmp_path / "data").open()
    try:
        assert broker.server.gateways.kafka.quotas is not None
        assert await described(broker) == {
            (TEST,): {"producer_byte_rate": 5.0},
            (ANY, ("user", "anna")): {"request_percentage": 50.5},
        }
    finally:
        await broker.close()


async def described(broker: SocketlessBroker, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    request = DescribeClientQuotasRequest(tuple(ComponentData(*each) for each in components), strict)
    answer = await broker.connect().ask(request, 1)
    assert answer.error_code == ErrorCode.NONE
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


EXACT, DEFAULT, SPECIFIED = 0, 1, 2


async def test_entities_are_found_by_their_parts(socketless_broker: SocketlessBroker) -> None:
    user, other = ("user", "anna"), ("client-id", "x")
    entities = ((user,), (("user", None),), (TEST,), (TEST, user), (other, user), (("ip", "::1"),))
    for entity in entities:
        key = "connection_creation_rate" if entity[0][0] == "ip" else "producer_byte_rate"
        await set_quota(socketless_broker, key, 1.0, *entity)

    async def found(*components: tuple[str, int, str | None], strict: bool = False) -> set[Any]:
        return set(await described(socketless_broker, *components, strict=strict))

    assert await found() == set(entities)
    assert await found(("user", EXACT, "anna")) == {(user,), (TEST, user), (other, user)}
    assert await found(("user", EXACT, "anna"), strict=True) == {(user,)}
    assert await found(("user", DEFAULT, None)) == {(("user", None),)}
    assert await found(("user", SPECIFIED, None), strict=True) == {(user,), (("user", None),)}
    assert await found(("user", SPECIFIED, None), ("client-id", EXACT, "test")) == {(TEST, user)}
    assert await found(("ip", SPECIFIED, None)) == {(("ip", "::1"),)}


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("host", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("user", EXACT, "b")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("ip", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_question_that_cannot_be_meant_is_refused(
    socketless_broker: SocketlessBroker, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    request = DescribeClientQuotasRequest(tuple(ComponentData(*each) for each in components))
    answer = await socketless_broker.connect().ask(request, 1)
    assert (answer.error_code, answer.entries) == (code, None)
    assert answer.error_message


async def test_topics_that_come_to_be_because_they_are_asked_for_count_as_well(
    socketless_broker: SocketlessBroker,
) -> None:
    await set_quota(socketless_broker, "controller_mutation_rate", 1.0)
    peer = socketless_broker.connect()
    names = [f"asked-{number}" for number in range(7)]
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    answer = await peer.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 12)
    created = [topic.error_code for topic in answer.topics]
    # Two partitions each: six topics take the eleven partitions there are, and one more; the seventh is for later.
    assert created == [ErrorCode.NONE] * 6 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (answer.throttle_time_ms, peer.muted_ms) == (1_000, [1_000])
    socketless_broker.timer.advance(1_000)
    answer = await peer.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 12)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE] * 7
