"""However many clients wait for a key, some look at a time, each once, in the order in which they came."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from ottla.gateways.redis.session import BlockError
from ottla.gateways.redis.waiters import WOKEN_A_TURN, Waiter, Waiters


def test_many_clients_look_again_in_several_turns() -> None:
    more: Any = Mock()
    waiters = Waiters(Mock(), more)
    woken: list[int] = []

    def client(number: int) -> Waiter:
        connection: Any = Mock()
        connection.session.database = 0

        def look(_: Waiter) -> bool:
            woken.append(number)
            return number % 2 == 0

        connection.woken.side_effect = look
        return Waiter(waiters, connection, BlockError([b"s"], 0, []), 0)

    clients = [client(number) for number in range(2 * WOKEN_A_TURN + 10)]
    waiters.changed(0, b"s")
    waiters.serve()
    assert woken == list(range(WOKEN_A_TURN))
    more.assert_called_once_with()
    clients[-1].cancel()
    waiters.changed(0, b"s")  # who has not looked yet does so once
    waiters.serve()
    waiters.serve()
    assert woken[: 2 * WOKEN_A_TURN + 9] == list(range(2 * WOKEN_A_TURN + 9))
    assert not any(number % 2 == 0 for number in woken[2 * WOKEN_A_TURN + 9 :])
    waiters.serve()
    assert not waiters.is_behind
    assert len(woken) == 2 * WOKEN_A_TURN + 9 + WOKEN_A_TURN // 2


def test_who_waits_when_nothing_changed_is_left_alone() -> None:
    more: Any = Mock()
    waiters = Waiters(Mock(), more)
    waiters.changed(0, b"s")
    waiters.serve()
    more.assert_not_called()


def test_workers_of_a_group_look_until_the_first_of_them_gets_nothing() -> None:
    waiters = Waiters(Mock(), Mock())
    looked: list[str] = []
    entries = 2

    def client(name: str, group: bytes, *options: bytes) -> Waiter:
        connection: Any = Mock()
        connection.session.database = 0

        def look(_: Waiter) -> bool:
            nonlocal entries
            looked.append(name)
            entries -= 1
            return entries >= 0

        connection.woken.side_effect = look
        arguments = [b"XREADGROUP", b"GROUP", group, name.encode(), *options, b"STREAMS", b"s", b">"]
        return Waiter(waiters, connection, BlockError([b"s"], 0, arguments), 0)

    workers = [client(f"g{number}", b"g") for number in range(5)]
    client("h0", b"h")
    claiming = [client(f"c{number}", b"g", b"CLAIM", b"10") for number in range(2)]
    waiters.changed(0, b"s")
    waiters.serve()
    assert looked == ["g0", "g1", "g2", "h0", "c0", "c1"]
    assert not waiters.is_behind
    assert waiters.count == 6
    looked.clear()
    workers[2].cancel()
    entries = 1
    waiters.changed(0, b"s")
    waiters.serve()
    assert looked == ["g3", "g4", "h0", "c0", "c1"]
    for each in (*workers, *claiming):
        each.cancel()
    assert waiters.places == [(0, b"s")]
