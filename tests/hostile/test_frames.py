"""Bytes that are no request: the connection is closed with one line in the log, and nobody else notices."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from ottla.gateways.kafka.apis import APIS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from tests.broker_process import BrokerProcess
from tests.hostile.raw_peer import RawPeer, framed, header, lines_about

HTTP = b"GET /metrics HTTP/1.1\r\nHost: broker:9092\r\n\r\n"
TLS = bytes.fromhex("16030100c8010000c40303") + bytes(190)
SERVED = max(key for key in APIS if not ApiKey(key).is_extension)
WINDOW_S = 10
"""Of the lines that peers cause."""

NO_REQUESTS = {
    "HTTP": (HTTP, "the peer speaks HTTP on a port of the Kafka protocol"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "the peer speaks HTTP"),
    "TLS": (TLS, "the peer begins a TLS handshake on a plaintext port; set its security.protocol to PLAINTEXT"),
    "a negative length": (struct.pack(">i", -1), "announces a negative length (-1)"),
    "the least length": (struct.pack(">i", -(2**31)), "announces a negative length"),
    "a length above the limit": (struct.pack(">i", (100 << 20) + 1), "larger than socket.request.max.bytes"),
    "the largest length": (struct.pack(">i", 2**31 - 1), "larger than socket.request.max.bytes"),
    "an empty request": (framed(b""), "RequestHeader: byte 0"),
    "half a header": (framed(b"\0\x12\0"), "RequestHeader"),
    "an API key that nobody has": (framed(header(9_999, 0)), "API key 9999"),
    "a negative API key": (framed(header(-1, 0)), "API key -1"),
    "an API key of brokers only": (framed(header(56, 0) + bytes(40)), "API key 56"),
    "a version from the future": (framed(header(3, 999)), "METADATA version 999; this broker serves 0 to"),
    "a negative version": (framed(header(3, -1)), "METADATA version -1"),
    "a client id longer than the request": (framed(struct.pack(">hhih", 18, 0, 1, 500)), "client_id"),
    "a client id of a negative length": (framed(struct.pack(">hhih", 18, 0, 1, -2)), "client_id"),
    "a client id that is not UTF-8": (framed(header(18, 0, b"\xff\xfe")), "not UTF-8"),
    "bytes behind the end": (framed(header(18, 0) + b"more"), "4 bytes after the end of the message"),
    "too many tagged fields": (framed(header(18, 3) + b"\xff\xff\xff\xff\x0f"), "tagged fields cannot be in"),
}


@pytest.mark.parametrize("data", [data for data, _ in NO_REQUESTS.values()], ids=list(NO_REQUESTS))
def test_what_is_no_request_closes_its_connection_and_no_other(broker: BrokerProcess, peer: RawPeer, data: bytes):
    with RawPeer(broker.port) as stranger:
        stranger.send(data)
        assert stranger.closed_with() == b""
    assert peer.is_served()


def test_the_log_says_which_peer_it_was_and_why(quiet_broker: BrokerProcess):
    said = {}
    for what, (data, why) in list(NO_REQUESTS.items())[:9]:
        with RawPeer(quiet_broker.port, "127.0.0.77") as stranger:
            stranger.send(data)
            stranger.closed_with()
            said[what] = (stranger.address, why)
    lines = quiet_broker.stopped_log()
    for what, (address, why) in said.items():
        (line,) = lines_about(address, lines)
        assert why in line, what


def test_a_flood_of_bad_peers_writes_few_lines(quiet_broker: BrokerProcess):
    begun = time.monotonic()
    for _ in range(300):
        with RawPeer(quiet_broker.port) as stranger:
            stranger.send(HTTP)
            stranger.closed_with()
    lines = quiet_broker.stopped_log()
    windows = 1 + (time.monotonic() - begun) // WINDOW_S
    assert 10 <= len(lines) <= windows * 11  # ten in each window, and one that says how many were kept back


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(peer: RawPeer):
    peer.send(framed(header(18, 99, flexible=True)))
    answer = peer.receive_frame()
    correlation_id, error, count = struct.unpack_from(">ihi", answer)
    assert (correlation_id, error, count) == (7, 35, 1)
    assert peer.is_served()


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 11, 20])
def test_a_request_that_is_cut_off_is_dropped_when_its_peer_hangs_up(broker: BrokerProcess, peer: RawPeer, cut: int):
    request = encode_request(7, "hostile", MetadataRequest(topics=None), 12)
    with RawPeer(broker.port) as stranger:
        stranger.send(request[:cut])
        stranger.sock.shutdown(socket.SHUT_WR)
        assert stranger.closed_with() == b""
    assert peer.is_served()


def test_requests_before_a_broken_one_are_answered(broker: BrokerProcess):
    request = encode_request(7, "hostile", ApiVersionsRequest(), 0)
    with RawPeer(broker.port) as stranger:
        stranger.send(request * 20 + struct.pack(">i", -5))
        answers = stranger.closed_with()
    (size,) = struct.unpack_from(">i", answers)
    assert len(answers) == 20 * (size + 4)


def test_a_request_that_comes_byte_by_byte_is_served(peer: RawPeer):
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in encode_request(7, "hostile", ApiVersionsRequest(), 0):
        peer.send(bytes([byte]))
    assert peer.receive_frame()[:4] == struct.pack(">i", 7)


def test_a_thousand_requests_are_pipelined_without_reading_an_answer(broker: BrokerProcess, peer: RawPeer):
    request = encode_request(7, "hostile", MetadataRequest(topics=None), 12)
    with RawPeer(broker.port, receive_buffer_bytes=4096) as stranger:
        stranger.send(request * 1_000)
        assert peer.is_served()
        for _ in range(1_000):
            assert stranger.receive_frame()[:4] == struct.pack(">i", 7)


def test_a_half_closed_connection_gets_no_answer_and_costs_nothing(broker: BrokerProcess, peer: RawPeer):
    with RawPeer(broker.port) as stranger:
        stranger.sock.shutdown(socket.SHUT_WR)
        assert stranger.closed_with() == b""
    assert peer.is_served()
