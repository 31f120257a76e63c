"""Very many Redis clients that wait: a neighbour is served, one entry wakes all, and nothing stays of who leaves."""

from __future__ import annotations

import resource
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.server.open_files import OpenFileShares
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.redis_client import RawRedis, encoded
from tests.system.redis_address import redis_address

pytestmark = pytest.mark.long

WAITS = encoded(("XREAD", "BLOCK", "0", "STREAMS", "news", "$"))
WOKEN = b"*1\r\n*2\r\n$4\r\nnews\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nn\r\n$1\r\nv\r\n"


@pytest.fixture
def clients_max() -> int:
    """How many clients this process may have, and a broker takes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(10_000, OpenFileShares.of(hard).connections - 100)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """One that takes so many."""
    settings = {"redis.listener": "127.0.0.1:0", "max.connections": "12000"}
    with BrokerProcess(tmp_path / "data", settings) as broker:
        yield broker
        assert "Traceback" not in "\n".join(broker.stopped_log())


def blocked_clients(neighbour: RawRedis) -> int:
    """What the broker says."""
    (line,) = [
        each for each in neighbour.call("INFO", "clients").split(b"\r\n") if each.startswith(b"blocked_clients:")
    ]
    return int(line.partition(b":")[2])


def test_ten_thousand_clients_that_wait_are_woken_by_one_entry(broker: BrokerProcess, clients_max: int) -> None:
    with RawRedis(redis_address(broker)) as neighbour:
        clients = []
        for _ in range(clients_max):
            clients.append(socket.create_connection(redis_address(broker), timeout=60))
            clients[-1].sendall(WAITS)
        wait_until(lambda: blocked_clients(neighbour) == clients_max, "all wait")
        assert neighbour.call("XADD", "other", "1-1", "n", "v") == b"1-1"
        assert neighbour.call("XADD", "news", "1-1", "n", "v") == b"1-1"
        answers = dict.fromkeys(clients, b"")
        poll = select.epoll()
        by_number = {each.fileno(): each for each in clients}
        for number in by_number:
            poll.register(number, select.EPOLLIN)
        while by_number:
            ready = poll.poll(60)
            assert ready, f"{len(by_number)} clients got no answer"
            for number, _ in ready:
                client = by_number[number]
                answers[client] += client.recv(65536)
                if len(answers[client]) >= len(WOKEN):
                    poll.unregister(number)
                    del by_number[number]
        assert set(answers.values()) == {WOKEN}
        assert blocked_clients(neighbour) == 0
        for client in clients:
            client.sendall(WAITS)
        wait_until(lambda: blocked_clients(neighbour) == clients_max, "all wait again")
        for client in clients:
            client.close()
        wait_until(lambda: blocked_clients(neighbour) == 0, "nobody waits any more")
        assert neighbour.call("XLEN", "news") == 1
