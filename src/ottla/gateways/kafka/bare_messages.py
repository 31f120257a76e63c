"""The exchange behind SaslHandshake version 0: messages of the mechanism alone, after their lengths (KIP-43).

    client                              here
    SaslHandshake v0           -->
                               <--      the mechanisms
    length, message            -->
                               <--      length, message        until it is over; requests follow

Who cannot prove who it is gets no answer: the connection is closed, after a while.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.security.sasl_server import SaslError
from ottla.security.scram_server import CredentialMissingError

if TYPE_CHECKING:
    from ottla.gateways.kafka.gateway import KafkaConnection
    from ottla.network.connection import ResponseSlot


def answer_bare(connection: KafkaConnection, frame: memoryview, slot: ResponseSlot) -> None:
    """Take the next message."""
    login = connection.login
    assert login is not None
    server = login.server
    if server is None:
        connection.connection.fail("a message of an exchange that is over", slot)
        return
    try:
        answer = server.answer(frame)
        if server.user is not None:
            connection.logged_in(server)
            connection.has_bare_messages = False
    except CredentialMissingError as missing:
        connection.gateway.broker.tasks.spawn(_again(connection, bytes(frame), slot, missing), "kafka-login")
        return
    except SaslError as error:
        login.fail()
        connection.connection.complain(f"a client could not log in: {error}")
        connection.connection.drain()
        gateway = connection.gateway
        close = partial(connection.connection.fail, "a client could not log in", slot)
        gateway.broker.timer.schedule(gateway.failure_delay_ms, close)
        return
    slot.send((len(answer).to_bytes(4, "big"), answer))


async def _again(
    connection: KafkaConnection, message: bytes, slot: ResponseSlot, missing: CredentialMissingError
) -> None:
    await missing.load()
    answer_bare(connection, memoryview(message), slot)
