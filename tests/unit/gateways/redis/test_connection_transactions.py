"""What stands before a transaction."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from ottla.gateways.redis.connection_transactions import ConnectionTransactions
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.placement import ElsewhereError
from ottla.gateways.redis.stream_log import Flush
from tests.unit.gateways.redis.streams_in_memory import StreamsInMemory, slices_of


@pytest.mark.parametrize("keys", [[b"mine", b"secret"], [b"secret", b"mine"]])
def test_all_keys_that_are_watched_need_a_right_wherever_they_are_led(keys: list[bytes]) -> None:
    session = Mock(queued=None)
    session.watch.side_effect = ElsewhereError((0, b"mine"), 2)
    session.require_access.side_effect = _require_access
    connection = Mock(session=session, gateway=SimpleNamespace(table={b"WATCH": None}, statistics=Mock()))
    transactions = ConnectionTransactions(cast("Any", connection), Mock())
    with pytest.raises(RedisError, match="NOPERM"):
        transactions.run(b"WATCH", [b"WATCH", *keys])
    connection.begin_task.assert_not_called()
    transactions.run(b"WATCH", [b"WATCH", b"mine"])
    connection.begin_task.assert_called_once()


def _require_access(key: bytes) -> None:
    if key == b"secret":
        raise RedisError("NOPERM")


async def _streams_with_transaction() -> tuple[StreamsInMemory, Mock]:
    """EXEC of commands in slices has begun; what the connection is to do then is the argument of `begin_task`."""
    server = StreamsInMemory(b"s")
    session = server.session()
    for number in range(1, 11):
        await server.run(session, b"XADD", b"s", b"%d-0" % number, b"f", b"v")
    await server.run(session, b"XGROUP", b"CREATE", b"s", b"g", b"0")
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # it is written
    server.keyspace.awaited.clear()
    session.queued = [
        [b"XADD", b"s", b"11-0", b"f", b"v"],
        [b"XREADGROUP", b"GROUP", b"g", b"alice", b"STREAMS", b"s", b">"],
        [b"XACK", b"s", b"g", *(b"%d-0" % number for number in range(1, 10))],
    ]
    connection = Mock(session=session, gateway=server.gateway)
    ConnectionTransactions(cast("Any", connection), Mock()).run(b"EXEC", [b"EXEC"])
    server.gateway.hold.assert_called_once()
    return server, connection


def test_a_transaction_is_done_to_its_end_when_its_client_is_gone() -> None:
    async def run() -> None:
        server, connection = await _streams_with_transaction()
        connection.begin_task.call_args.args[0].close()  # the task is cancelled before it begins
        await server.tasks_over()
        server.gateway.release.assert_called_once()
        assert list(server.streams[b"s"].groups[b"g"].pending) == [10 << 64, 11 << 64]

    with slices_of(2):
        asyncio.run(run())


def test_the_answer_of_a_transaction_waits_for_what_it_changed_whoever_answers_meanwhile() -> None:
    async def run() -> None:
        server, connection = await _streams_with_transaction()
        (flush,) = server.keyspace.awaited
        assert isinstance(flush, Flush)
        server.keyspace.awaited = set()  # another client's command timed out, and its answer waits for that
        connection.give.side_effect = lambda data: given.append((data[:4], set(server.keyspace.awaited)))
        given: list[tuple[bytes, set[Flush]]] = []
        await connection.begin_task.call_args.args[0]
        ((answer, awaited),) = given
        assert (answer, flush in awaited) == (b"*3\r\n", True)

    with slices_of(2):
        asyncio.run(run())
