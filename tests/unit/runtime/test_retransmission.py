"""How soon TCP sends again."""

import os
import socket
from pathlib import Path

import pytest

from ottla.runtime.retransmission import SOON_MS, TCP_RTO_MAX_MS, retransmit_soon

OPEN = Path("/proc/self/fd")


def test_a_connection_sends_again_within_a_second_and_stays_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        try:
            before_ms = client.getsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS)
        except OSError:
            pytest.skip("this system cannot bound it")
        assert before_ms > SOON_MS
        retransmit_soon(client.fileno())
        assert client.getsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS) == SOON_MS
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"x")
            assert accepted.recv(1) == b"x"


def test_what_is_no_connection_is_left_as_it_is_and_nothing_stays_open() -> None:
    before = len(list(OPEN.iterdir()))
    one, other = socket.socketpair()
    with one, other, Path(os.devnull).open() as file:
        for number in (one.fileno(), file.fileno(), -1, 1 << 20):
            retransmit_soon(number)
        one.sendall(b"x")
        assert other.recv(1) == b"x"
    assert len(list(OPEN.iterdir())) == before
