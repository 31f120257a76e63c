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
