"""Fetches that meet limits, deleted topics and records that are only just written, by the libraries people use."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from ottla.model.error_code import ErrorCode
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker_process import BrokerProcess
from tests.conformance.topics import new_topic
from tests.hostile.raw_peer import RawPeer

NAMES_TOPICS_UNTIL = 12


def delete(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(60)


def produce(broker: BrokerProcess, topic: str, count: int, acks: int | str, **config: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks, **config})
    failures: list[object] = []
    for number in range(count):
        producer.produce(topic, str(number), on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failures == []


@pytest.mark.parametrize("version", range(4, NAMES_TOPICS_UNTIL + 1))
@pytest.mark.alone("one connection is asked for everything")
def test_a_fetch_that_waits_on_a_topic_that_is_deleted_is_answered_and_its_connection_lives(
    broker: BrokerProcess, version: int
) -> None:
    topic, stays = new_topic(broker), new_topic(broker)
    wanted = tuple(FetchTopic(topic=each, partitions=(FetchPartition(),)) for each in (stays, topic))
    request = FetchRequest(topics=wanted, max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20)
    with RawPeer(broker.port) as peer:
        peer.send(encode_request(7, "test", request, version))
        delete(broker, topic)
        _, answer = decode_response(request.API_KEY, version, peer.receive_frame())
        errors = {each.topic: each.partitions[0].error_code for each in answer.responses}  # type: ignore[attr-defined]
        assert errors[stays] == ErrorCode.NONE
        assert errors[topic] in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert peer.is_served()


async def test_aiokafka_reads_on_when_one_of_its_topics_is_deleted(broker: BrokerProcess) -> None:
    gone, stays = new_topic(broker), new_topic(broker)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=20_000
    )
    await consumer.start()
    try:
        consumer.assign([AioTopicPartition(gone, 0), AioTopicPartition(stays, 0)])
        reading = asyncio.ensure_future(consumer.getone())
        await asyncio.to_thread(produce, broker, gone, 1, "all")
        assert (await asyncio.wait_for(reading, 60)).topic == gone
        reading = asyncio.ensure_future(consumer.getone())
        await asyncio.to_thread(delete, broker, gone)
        await asyncio.to_thread(produce, broker, stays, 1, "all")
        assert (await asyncio.wait_for(reading, 60)).topic == stays
    finally:
        await consumer.stop()


@pytest.mark.parametrize("acks", [pytest.param(1, marks=pytest.mark.alone("no follower is waited for")), "all"])
def test_who_looks_for_the_end_after_an_acknowledgement_finds_the_record_below_it(
    broker: BrokerProcess, acks: int | str
) -> None:
    topic = new_topic(broker)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    for end in range(1, 51):
        produce(broker, topic, 1, acks)
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, end)
    consumer.close()


@pytest.mark.alone("one connection is asked for everything")
def test_a_reader_at_the_end_that_acks_1_told_is_never_sent_back_to_the_beginning(broker: BrokerProcess) -> None:
    topic = new_topic(broker)
    with RawPeer(broker.port) as peer:
        for end in range(1, 101):
            produce(broker, topic, 1, 1)
            partitions = (FetchPartition(fetch_offset=end, partition_max_bytes=1 << 20),)
            wanted = FetchRequest(topics=(FetchTopic(topic=topic, partitions=partitions),), max_bytes=1 << 20)
            ((data,),) = (each.partitions for each in peer.ask(wanted, 12).responses)
            assert (data.error_code, bytes(data.records)) == (ErrorCode.NONE, b"")


def test_acks_all_asks_for_no_more_replicas_than_there_are_and_the_setting_is_shown_as_it_was_given(
    broker: BrokerProcess,
) -> None:
    topic = new_topic(broker, min_insync_replicas="3")
    produce(broker, topic, 3, "all")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    (described,) = admin.describe_configs([resource]).values()
    assert described.result(60)["min.insync.replicas"].value == "3"
