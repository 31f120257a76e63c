"""Connections that mean harm: too many, too slow, too fast, deaf."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import pytest

from ottla.protocol.frame import encode_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.hostile.conftest import create_topic
from tests.hostile.process_memory import own_mib, peak_mib
from tests.hostile.raw_peer import RawPeer, lines_about

NewBroker = Callable[..., BrokerProcess]


def test_connections_above_the_limit_are_closed_and_the_log_says_so(new_broker: NewBroker):
    broker = new_broker(max_connections="5").start()
    peers = [RawPeer(broker.port) for _ in range(5)]
    assert all(peer.is_served() for peer in peers)
    with RawPeer(broker.port, "127.0.0.33") as refused:
        assert refused.closed_with() == b""
        address = refused.address
    assert all(peer.is_served() for peer in peers)
    peers.pop().close()
    wait_until(lambda: takes_another(broker), "the end of the other one is seen")
    for peer in peers:
        peer.close()
    (line,) = lines_about(address, broker.stopped_log())
    assert "max.connections allows" in line


def takes_another(broker: BrokerProcess) -> bool:
    """Whether it serves one more connection."""
    with RawPeer(broker.port) as another:
        try:
            return another.is_served()
        except ConnectionError:
            return False


def test_a_waiting_fetch_ends_with_its_connection(broker: BrokerProcess, peer: RawPeer, topic: str):
    """A fetch that would wait for weeks, from peers that hang up at once: nothing is left, as the memory shows."""
    partitions = tuple(FetchPartition(partition=0, partition_max_bytes=1) for _ in range(1))
    request = FetchRequest(
        max_wait_ms=2**31 - 1,
        min_bytes=2**31 - 1,
        max_bytes=2**31 - 1,
        topics=(FetchTopic(topic=topic, partitions=partitions),),
    )
    data = encode_request(7, "x" * 200, request, 11)
    before = own_mib(broker)
    for _ in range(2_000):
        with RawPeer(broker.port) as stranger:
            stranger.send(data * 8)
    assert peer.is_served()
    assert own_mib(broker) - before < 16


@pytest.mark.parametrize("count_before", [0, 100])
def test_a_client_that_has_shut_down_its_side_gets_every_answer(broker: BrokerProcess, topic: str, count_before: int):
    """Also of a fetch that would wait for weeks, of requests behind it, and of those it was held back by."""
    wanted = (FetchTopic(topic=topic, partitions=(FetchPartition(partition=0),)),)
    fetch = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, max_bytes=1, topics=wanted, session_epoch=-1)
    metadata = encode_request(7, "x", MetadataRequest(topics=None), 12)
    with RawPeer(broker.port) as peer:
        peer.send(metadata * count_before + encode_request(7, "x", fetch, 11) + metadata * 100)
        peer.sock.shutdown(socket.SHUT_WR)
        for _ in range(count_before + 101):
            assert peer.receive_frame()[:4] == struct.pack(">i", 7)
        assert peer.closed_with() == b""


def test_fetches_of_one_connection_that_would_all_wait_are_answered_but_for_a_few(broker: BrokerProcess, topic: str):
    wanted = (FetchTopic(topic=topic, partitions=(FetchPartition(partition=0, partition_max_bytes=1),)),)
    request = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, max_bytes=1, topics=wanted, session_epoch=-1)
    with RawPeer(broker.port) as stranger, RawPeer(broker.port) as other:
        stranger.send(encode_request(7, "h", request, 11) * 100)
        assert other.is_served()


def test_a_slow_sender_keeps_its_connection_and_delays_nobody(broker: BrokerProcess, peer: RawPeer):
    request = encode_request(7, "hostile", MetadataRequest(topics=()), 12)
    slow = [RawPeer(broker.port) for _ in range(20)]
    for byte in request:
        for each in slow:
            each.send(bytes([byte]))
        assert peer.is_served()
    assert all(each.receive_frame()[:4] == struct.pack(">i", 7) for each in slow)
    for each in slow:
        each.close()


def test_a_storm_of_connections_leaves_nothing_behind(broker: BrokerProcess, peer: RawPeer):
    before = own_mib(broker)
    for number in range(3_000):
        stranger = RawPeer(broker.port)
        if number % 3 == 1:
            stranger.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset
        elif number % 3 == 2:
            stranger.send(b"\0\0\0")
        stranger.close()
    assert peer.is_served()
    assert own_mib(broker) - before < 16


@pytest.mark.parametrize("count", [200])
def test_connections_that_announce_100_mb_and_send_one_byte_cost_nothing(new_broker: NewBroker, count: int):
    broker = new_broker().start()
    before = peak_mib(broker)
    strangers = [RawPeer(broker.port) for _ in range(count)]
    for stranger in strangers:
        stranger.send(struct.pack(">i", 100 << 20) + b"\0")
    with RawPeer(broker.port) as peer:
        assert peer.is_served()
    assert peak_mib(broker) - before < 8
    for stranger in strangers:
        stranger.close()


def test_readers_that_never_read_make_the_broker_hold_a_bounded_amount(new_broker: NewBroker):
    broker = new_broker().start()
    create_topic(broker.port, "wide", partitions=1_000)
    request = encode_request(7, "deaf", MetadataRequest(topics=None), 12)
    with RawPeer(broker.port) as peer:
        peer.send(request)
        answer_bytes = len(peer.receive_frame())
        before = own_mib(broker)
        deaf = [RawPeer(broker.port, receive_buffer_bytes=4096) for _ in range(100)]
        for each in deaf:
            each.send(request * 500)
        assert peer.is_served()
        held = own_mib(broker) - before
    assert answer_bytes > 20_000
    assert held < 100 * (256 + 2 * answer_bytes / 1024) / 1024 + 16
    for each in deaf:
        each.close()
