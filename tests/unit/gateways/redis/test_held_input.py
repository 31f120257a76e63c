"""A client is read from as long as not much of what it sent waits for the disk."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from ottla.gateways.redis.connection import ALL_UNWRITTEN_BYTES_MAX, UNWRITTEN_BYTES_MAX, RedisConnection


def connection_with(*slots: Any, own: int, of_all: int, are_waiting: bool) -> Any:
    connection: Any = Mock(_commands=[], _is_busy=False, _slots=list(slots), _unwritten_bytes=own)
    connection._answers.are_waiting = are_waiting
    connection.gateway.unwritten_bytes = of_all
    connection._answer_slots = lambda: RedisConnection._answer_slots(connection)
    return connection


def answered(connection: Any, *slots: Any) -> list[bool]:
    RedisConnection._on_left(connection)
    return [slot.skip.called for slot in slots]


def test_the_last_piece_is_held_until_all_is_on_disk() -> None:
    slots = Mock(), Mock(), Mock()
    connection = connection_with(*slots, own=1_000, of_all=5_000, are_waiting=True)
    assert answered(connection, *slots) == [True, True, False]
    connection._answers.are_waiting = False
    assert answered(connection, *slots) == [True, True, True]
    assert (connection._unwritten_bytes, connection.gateway.unwritten_bytes) == (0, 4_000)


@pytest.mark.parametrize(("own", "of_all"), [(UNWRITTEN_BYTES_MAX, UNWRITTEN_BYTES_MAX), (1, ALL_UNWRITTEN_BYTES_MAX)])
def test_all_pieces_are_held_where_much_waits_for_the_disk(own: int, of_all: int) -> None:
    slots = Mock(), Mock()
    connection = connection_with(*slots, own=own, of_all=of_all, are_waiting=True)
    assert answered(connection, *slots) == [False, False]
    connection._answers.are_waiting = False
    assert answered(connection, *slots) == [True, True]
