"""What is sent in parts comes as one stream, however little the other side takes at a time."""

import socket
import threading

import pytest

from ottla.client.io.blocking_io import PARTS_MAX, send_parts
from ottla.client.io.correlation import Correlation
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends that hold only a few kilobytes between them."""
    here, there = socket.socketpair()
    for each in (here, there):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        each.settimeout(60)
    return here, there


@pytest.mark.parametrize(
    "sizes",
    [[0], [1], [0, 1, 0], [200_000], [3, 100_000, 1, 0, 100_000, 7], [5_000] * (2 * PARTS_MAX + 1), [1] * 3_000],
)
def test_all_parts_arrive_in_their_order(sizes):
    parts = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    here, there = pair()
    received = bytearray()

    def receive() -> None:
        while data := there.recv(7_000):
            received.extend(data)

    reader = threading.Thread(target=receive)
    with there:
        reader.start()
        with here:
            send_parts(here, [bytearray(part) if number % 2 else part for number, part in enumerate(parts)])
        reader.join()
    assert received == b"".join(parts)


def test_who_takes_nothing_is_not_waited_for_for_ever():
    here, there = pair()
    with here, there:
        here.settimeout(0.01)
        with pytest.raises(TimeoutError):
            send_parts(here, [bytes(10_000_000)])


def test_the_parts_of_a_request_are_the_request_and_large_records_are_not_copied():
    records = bytearray(100_000)
    data = (
        PartitionProduceData(0, records),
        PartitionProduceData(1, bytearray(b"small")),
        PartitionProduceData(2, None),
    )
    request = ProduceRequest(acks=-1, timeout_ms=1, topic_data=(TopicProduceData(name="t", partition_data=data),))
    whole: Correlation[str] = Correlation("me")
    divided: Correlation[str] = Correlation("me")
    for _ in range(2):
        parts = divided.request_parts(request, 9, "waiter")
        assert b"".join(parts) == whole.request(request, 9, "waiter")
        assert [part is records for part in parts] == [False, True, False]
    assert len(divided) == 2
