"""Clients that take no notice of a quota: what they send ahead waits, others are served, the broker stops at once."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.native import build_batch
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker_process import BrokerProcess
from tests.hostile.conftest import create_topic, end_offset
from tests.hostile.raw_peer import RawPeer

SIZE = 10_000
GREEDY = "greedy"


@pytest.fixture
def bound_broker(new_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker with a topic, that has bound the client `greedy` to next to nothing."""
    broker = new_broker().start()
    create_topic(broker.port, "t")
    set_quota(broker, "producer_byte_rate", 3_500.0)
    return broker


def set_quota(broker: BrokerProcess, key: str, value: float) -> None:
    entry = RequestEntryData((EntityData("client-id", GREEDY),), (OpData(key, value),))
    with RawPeer(broker.port) as peer:
        (result,) = peer.ask(AlterClientQuotasRequest((entry,)), 1).entries
    assert result.error_code == 0, result.error_message


def produce(client: str, size: int = SIZE) -> bytes:
    data = PartitionProduceData(index=0, records=bytes(build_batch([(0, None, b"x" * size, ())])))
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(TopicProduceData("t", partition_data=(data,)),))
    return encode_request(7, client, request, 9)


def answered(peer: RawPeer) -> Any:
    return decode_response(0, 9, peer.receive_frame())[1]


def test_of_what_a_producer_sends_ahead_nothing_is_written_beyond_its_quota(bound_broker: BrokerProcess) -> None:
    with RawPeer(bound_broker.port) as greedy, RawPeer(bound_broker.port) as other:
        greedy.send(produce(GREEDY) * 3 + produce(GREEDY, 50 * SIZE) * 5)
        # 35,000 bytes fit ten of the eleven windows: the fourth request is too much, and the last one that is served
        # for more than two minutes.
        assert [answered(greedy).throttle_time_ms > 0 for _ in range(4)] == [False, False, False, True]
        other.send(produce("other"))
        assert answered(other).throttle_time_ms == 0
        assert end_offset(bound_broker.port, "t") == 5
    assert bound_broker.stop() == 0


@pytest.mark.parametrize("ends", ["shuts down", "resets"])
def test_a_client_that_goes_while_it_is_muted_disturbs_nobody(bound_broker: BrokerProcess, ends: str) -> None:
    set_quota(bound_broker, "producer_byte_rate", 1.0)
    greedy = RawPeer(bound_broker.port)
    greedy.send(produce(GREEDY) * 3 + produce(GREEDY)[:5_000])
    assert answered(greedy).throttle_time_ms > 3_600_000
    if ends == "shuts down":
        greedy.sock.shutdown(socket.SHUT_WR)
    else:
        greedy.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        greedy.close()
    with RawPeer(bound_broker.port) as other:
        other.send(produce("other"))
        assert answered(other).throttle_time_ms == 0
    assert end_offset(bound_broker.port, "t") == 2
    assert bound_broker.stop() == 0
    greedy.close()


def test_a_broker_stops_at_once_whoever_is_muted_and_answers_what_it_has_begun(bound_broker: BrokerProcess) -> None:
    set_quota(bound_broker, "controller_mutation_rate", 0.001)
    creations = [
        encode_request(
            7, GREEDY, CreateTopicsRequest(topics=(CreatableTopic(f"n{number}", 5, 1),), timeout_ms=30_000), 5
        )
        for number in range(5)
    ]
    with RawPeer(bound_broker.port) as greedy, RawPeer(bound_broker.port) as other:
        greedy.send(b"".join(creations))
        (topic,) = decode_response(19, 5, greedy.receive_frame())[1].topics  # type: ignore[attr-defined]
        assert topic.error_code == 0
        create_topic(bound_broker.port, "later")  # decided after whatever was asked for before
        wanted = tuple(MetadataRequestTopic(name=f"n{number}") for number in range(5))
        known = other.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12)
        assert [bool(each.partitions) for each in known.topics] == [True, False, False, False, False]
        assert bound_broker.stop() == 0
