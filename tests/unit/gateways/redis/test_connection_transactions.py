"""What stands before a transaction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from ottla.gateways.redis.connection_transactions import ConnectionTransactions
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.placement import ElsewhereError


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
