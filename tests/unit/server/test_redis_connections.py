"""Redis clients that have to log in, and do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from ottla.gateways.redis.gateway import redis_gateway
from ottla.model.principal import ANONYMOUS
from ottla.network.address import Address
from ottla.network.config import LOGIN_MS
from ottla.settings.broker_settings import BrokerSettings
from tests.unit.server.socketless_broker import SocketlessBroker, until

MAP = "PLAINTEXT:PLAINTEXT,REDIS:"


class Client:
    """A connection, and what is sent by it."""

    listener_name = "REDIS"
    principal = ANONYMOUS
    peer = local = Address("127.0.0.1", 9)
    is_muted = False

    def __init__(self, gateway: Any) -> None:
        self.sent = b""
        self.closed_because: str | None = None
        self.handler = gateway.connect(cast("Any", self))

    def push(self, parts: Any, resume: Any) -> bool:
        self.sent += b"".join(parts)
        return True

    push_answer = push

    def close(self, reason: str = "") -> None:
        if self.closed_because is None:
            self.closed_because = reason
            self.handler.on_close()

    def skip(self) -> None:
        """As a slot."""

    def complain(self, what: str) -> None:
        """What the log says."""

    def says(self, data: bytes) -> None:
        self.handler.on_frame(memoryview(data), cast("Any", None), cast("Any", self))


async def test_who_has_to_log_in_and_does_not_is_gone_whatever_it_sends(tmp_path: Path) -> None:
    broker = await SocketlessBroker(tmp_path).open()
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_anna="pencil";'
    settings = {"sasl.enabled.mechanisms": "PLAIN", "listener.name.redis.plain.sasl.jaas.config": jaas}
    try:
        must, may = (
            redis_gateway(
                broker.server.services.broker,
                BrokerSettings({**settings, "listener.security.protocol.map": MAP + protocol}),
            )
            for protocol in ("SASL_PLAINTEXT", "PLAINTEXT")
        )
        silent, slow, known, anybody = Client(must), Client(must), Client(must), Client(may)
        known.says(b"*3\r\n$4\r\nAUTH\r\n$4\r\nanna\r\n$6\r\npencil\r\n")
        await until(lambda: known.sent == b"+OK\r\n")
        for byte in b"*3\r\n$4\r\nAUTH\r\n$4\r\n":
            slow.says(bytes([byte]))
            broker.timer.advance(LOGIN_MS // 20)
        broker.timer.advance(LOGIN_MS - 18 * (LOGIN_MS // 20) - 1)
        clients = (silent, slow, known, anybody)
        assert [each.closed_because for each in clients] == [None] * 4
        broker.timer.advance(1)
        late = f"it did not log in within {LOGIN_MS} ms"
        assert [each.closed_because for each in clients] == [late, late, None, None]
        for each in (known, anybody):
            each.close()
    finally:
        await broker.close()
