"""What a Redis client may have the broker keep for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.gateways.redis import session as sessions
from ottla.gateways.redis.client_commands import NAME_BYTES_MAX, client
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.gateway import RedisGateway
from ottla.gateways.redis.session import Session
from ottla.model.principal import ANONYMOUS

LARGEST = 10_000


@pytest.fixture
def gateway() -> Any:
    return SimpleNamespace(
        keyspace=None,
        logins=SimpleNamespace(is_required=False),
        has_rules=False,
        config=SimpleNamespace(command_bytes_max=LARGEST),
        held_bytes=0,
    )


def session_of(gateway: Any) -> Session:
    return Session(cast("RedisGateway", gateway), 1, "", "", 0, ANONYMOUS)


def test_a_transaction_holds_as_much_as_a_command_may_have(gateway: Any) -> None:
    session = session_of(gateway)
    queued: list[list[bytes]] = []
    session.queue(queued, [b"ECHO", bytes(LARGEST - 1_000)])
    with pytest.raises(RedisError, match=r"redis\.client\.query\.buffer\.limit"):
        session.queue(queued, [b"ECHO", bytes(1_000)])
    assert len(queued) == 1
    session.end_transaction()
    assert gateway.held_bytes == 0
    session.queue(queued, [b"ECHO", bytes(1_000)])


def test_keys_that_are_watched_count_once_each(gateway: Any) -> None:
    session = session_of(gateway)
    for _ in range(1_000):
        session.remember((0, bytes(4_000)), b"1")
    session.remember((1, bytes(4_000)), b"1")
    with pytest.raises(RedisError):
        session.remember((2, bytes(4_000)), b"1")
    assert len(session.watched) == 2
    session.reset()
    assert (session.watched, gateway.held_bytes) == ({}, 0)


def test_transactions_of_all_clients_have_a_bound(gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "HELD_BYTES_MAX", 3 * LARGEST)
    clients = [session_of(gateway) for _ in range(4)]
    for each in clients[:3]:
        each.queue([], [b"ECHO", bytes(LARGEST - 500)])
    with pytest.raises(RedisError, match="all clients"):
        clients[3].queue([], [b"ECHO", bytes(LARGEST - 500)])
    clients[0].end_transaction()
    clients[3].queue([], [b"ECHO", bytes(LARGEST - 500)])
    for each in clients:
        each.end_transaction()
    assert gateway.held_bytes == 0


@pytest.mark.parametrize("words", [(b"SETNAME",), (b"SETINFO", b"LIB-NAME"), (b"SETINFO", b"LIB-VER")])
def test_names_that_are_kept_have_a_bound(gateway: Any, words: tuple[bytes, ...]) -> None:
    session = session_of(gateway)
    client(session, [b"CLIENT", *words, b"x" * NAME_BYTES_MAX])
    with pytest.raises(RedisError, match="64 KiB"):
        client(session, [b"CLIENT", *words, b"x" * (NAME_BYTES_MAX + 1)])
