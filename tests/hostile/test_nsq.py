"""Bad input at the listeners for NSQ: its connection ends or is answered, and a neighbour notices nothing."""

from __future__ import annotations

import errno
import http.client
import random
import socket
import struct
import zlib
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from ottla.gateways.nsq.gateway import UNFINISHED_BYTES_MAX
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.system.nsq_client import NsqClient, sized
from tests.system.test_nsq import LISTENERS, address, http_address

RANDOM = random.Random(7)
GARBAGE = RANDOM.randbytes(70_000)
IDENTIFY_DEFLATE = b"  V2IDENTIFY\n" + sized(b'{"feature_negotiation":true,"deflate":true}')
IDENTIFY_SNAPPY = b"  V2IDENTIFY\n" + sized(b'{"feature_negotiation":true,"snappy":true}')
BOMB = zlib.compressobj(9, zlib.DEFLATED, -15)

AT_TCP = {
    "garbage": GARBAGE,
    "another magic": b"  V1PING\n",
    "HTTP": b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "a line without an end": b"  V2" + b"x" * 100_000,
    "zeros": b"  V2" + bytes(100_000),
    "an enormous body": b"  V2PUB t\n" + struct.pack(">i", 2**31 - 1),
    "a negative body": b"  V2MPUB t\n" + struct.pack(">i", -1),
    "a count that lies": b"  V2MPUB t\n" + sized(struct.pack(">i", 2**20) + sized(b"x")),
    "half a body": b"  V2PUB t\n" + struct.pack(">i", 1000) + b"x",
    "JSON without an end": b"  V2IDENTIFY\n" + sized(b"[" * 100_000),
    "another's message": b"  V2SUB t c\nFIN 0000000000000000\nTOUCH ffffffffffffffff\nREQ 0000000000000000 0\nnope\n",
    "garbage as deflate": IDENTIFY_DEFLATE + GARBAGE,
    "a bomb of deflate": IDENTIFY_DEFLATE + BOMB.compress(bytes(64 << 20)) + BOMB.flush(zlib.Z_SYNC_FLUSH),
    "garbage as snappy": IDENTIFY_SNAPPY + GARBAGE,
    "many commands": b"  V2" + b"NOP\n" * 100_000 + b"nope\n",
}
AT_HTTP = {
    "garbage": GARBAGE,
    "a path upwards": b"GET /../../etc/passwd HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "an encoded path upwards": b"GET /config/%2e%2e%2f%2e%2e HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "a header without an end": b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000,
    "an enormous body": b"POST /mpub?topic=t HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n",
    "a body that is no chunk": b"POST /pub?topic=t HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "two lengths": b"POST /pub?topic=t HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "many fields": b"GET /stats?" + b"&".join(b"a=b" for _ in range(500)) + b" HTTP/1.1\r\nHost: h\r\n\r\n",
}


@pytest.fixture(scope="module")
def nsq_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("nsq") / "data", LISTENERS) as broker:
        yield broker
        assert "Traceback" not in "\n".join(broker.stopped_log())


@pytest.fixture
def neighbour(nsq_broker: BrokerProcess) -> Iterator[NsqClient]:
    """A client that publishes and reads as if it were alone."""
    client = NsqClient(address(nsq_broker)).subscribe("neighbours", "c", 1)
    yield client
    publisher = NsqClient(address(nsq_broker))
    publisher.publish("neighbours", b"still here")
    message = client.message()
    assert message.body == b"still here"
    client.finish(message)
    client.send(b"CLS")
    assert client.response() == b"CLOSE_WAIT"
    for each in (client, publisher):
        each.close()


def ended(where: tuple[str, int], data: bytes) -> bytes:
    """What comes back until the broker has closed the connection."""
    with socket.create_connection(where, timeout=60) as stranger:
        received = b""
        try:
            stranger.sendall(data)
            stranger.shutdown(socket.SHUT_WR)
            while more := stranger.recv(65536):
                received += more
        except OSError as error:
            # A broker that hung up first is told by a reset, a broken pipe or, at shutdown, by ENOTCONN.
            if not isinstance(error, ConnectionError) and error.errno != errno.ENOTCONN:
                raise
        return received


@pytest.mark.parametrize("data", AT_TCP.values(), ids=list(AT_TCP))
def test_bad_commands_end_their_connection_and_no_other(
    nsq_broker: BrokerProcess, neighbour: NsqClient, data: bytes
) -> None:
    ended(address(nsq_broker), data)


@pytest.mark.parametrize("data", AT_HTTP.values(), ids=list(AT_HTTP))
def test_bad_requests_are_refused_and_end_their_connection(
    nsq_broker: BrokerProcess, neighbour: NsqClient, data: bytes
) -> None:
    answer = ended(http_address(nsq_broker), data)
    assert answer.startswith(b"HTTP/1.1 4"), answer
    assert b"root:" not in answer


def test_many_clients_that_hold_back_the_end_of_large_commands_do_not_fill_the_memory(
    nsq_broker: BrokerProcess, neighbour: NsqClient
) -> None:
    size = 5 * 1024 * 1024
    unfinished = b"  V2MPUB t\n" + struct.pack(">i", size) + bytes(size - 1)
    clients = [
        socket.create_connection(address(nsq_broker), timeout=60) for _ in range(UNFINISHED_BYTES_MAX // size + 2)
    ]
    refused = 0
    for client in clients:
        try:
            client.sendall(unfinished)
        except ConnectionError:
            refused += 1
    wait_until(lambda: refused or any(is_closed(client) for client in clients), "one was hung up on")
    for client in clients:
        client.close()


def test_those_who_send_a_small_command_in_pieces_go_on_while_others_hold_back_the_end_of_large_ones(
    nsq_broker: BrokerProcess, neighbour: NsqClient
) -> None:
    sizes, left = [], UNFINISHED_BYTES_MAX - 100
    while left > 0:
        sizes.append(min(left, 5 * 1024 * 1024))
        left -= sizes[-1]
    clients = [socket.create_connection(address(nsq_broker), timeout=60) for _ in sizes]
    for client, size in zip(clients, sizes, strict=True):
        start = b"MPUB t\n" + struct.pack(">i", 5 * 1024 * 1024)
        client.sendall(b"  V2" + start + bytes(size - len(start)))
    publisher = NsqClient(address(nsq_broker))
    for _ in range(50):
        small = NsqClient(address(nsq_broker))
        small.publish("t", b"x")
        small._socket.sendall(b"PUB t\n" + sized(bytes(1_000))[:500])
        publisher.publish("t", b"x")  # the broker has read the half
        small._socket.sendall(bytes(504))
        assert small.response() == b"OK"
        small.close()
    for client in clients:
        client.close()


def is_closed(client: socket.socket) -> bool:
    """Whether the broker has hung up."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("name", [b"__consumer_offsets", b"__transaction_state", b"__share_group_state"])
def test_topics_of_coordinators_are_not_made_read_written_to_or_deleted(
    nsq_broker: BrokerProcess, neighbour: NsqClient, name: bytes
) -> None:
    admin = AdminClient({"bootstrap.servers": nsq_broker.bootstrap})
    before = admin.list_topics(timeout=60).topics.get(name.decode())
    commands = (
        (b"PUB " + name, b"x"),
        (b"DPUB " + name + b" 1000", b"x"),
        (b"MPUB " + name, struct.pack(">i", 1) + sized(b"x")),
        (b"SUB " + name + b" c", None),
    )
    for line, body in commands:
        client = NsqClient(address(nsq_broker))
        client.send(line, body)
        assert client.error().endswith(b"NSQ clients do not use internal topics")
        client.close()
    for what in ("create", "delete", "empty", "pause"):
        assert posted(nsq_broker, f"/topic/{what}?topic={name.decode()}") == (500 if what == "create" else 404)
        path = f"/channel/{what}?topic={name.decode()}&channel=c"
        assert posted(nsq_broker, path) == 404
    after = admin.list_topics(timeout=60).topics.get(name.decode())
    assert (before is None) == (after is None)
    assert before is None or after is None or len(before.partitions) == len(after.partitions) > 1


def posted(broker: BrokerProcess, path: str) -> int:
    """The status of the answer to a POST without a body."""
    connection = http.client.HTTPConnection(*http_address(broker), timeout=60)
    connection.request("POST", path)
    status = connection.getresponse().status
    connection.close()
    return status
