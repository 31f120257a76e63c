"""A server that registers at a lookup service, and one that does not come to an end of what it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ottla.gateways.nsq.lookup.connection import COMMAND_MS, LookupConnection
from ottla.runtime.timer import ManualTimer


class Peer:
    """The connection of a server, and what it was answered."""

    def __init__(self) -> None:
        self.timer = ManualTimer()
        self.answers = b""
        self.closed_because: str | None = None
        service = SimpleNamespace(environment=SimpleNamespace(timer=self.timer), registry=None)
        self.handler = LookupConnection(cast("Any", service), cast("Any", self))

    def send(self, parts: Any) -> None:
        """As a slot."""
        self.answers += b"".join(parts)

    def close(self, reason: str = "") -> None:
        self.closed_because = reason
        self.handler.on_close()

    fail = close

    def says(self, data: bytes) -> None:
        self.handler.on_frame(memoryview(data), cast("Any", None), cast("Any", self))


def test_a_command_that_comes_byte_by_byte_has_a_time_to_be_there() -> None:
    for said, begun in ((b"", b"  V"), (b"  V1", b"PIN"), (b"  V1PING\n", b"IDENTIFY\n\0\0")):
        peer = Peer()
        peer.says(said)
        for byte in begun:
            peer.says(bytes([byte]))
            peer.timer.advance(COMMAND_MS // 20)
        peer.timer.advance(COMMAND_MS - len(begun) * (COMMAND_MS // 20) - 1)
        assert peer.closed_because is None
        peer.timer.advance(1)
        assert peer.closed_because == f"its command took more than {COMMAND_MS} ms"


def test_a_server_that_says_nothing_between_its_commands_owes_nothing() -> None:
    peer = Peer()
    peer.says(b"  V1")
    for _ in range(3):
        peer.timer.advance(10 * COMMAND_MS)
        peer.says(b"PI")
        peer.timer.advance(COMMAND_MS - 1)
        peer.says(b"NG\n")
    peer.says(b"PING\nPI")  # another one has begun, and its time with it
    peer.timer.advance(COMMAND_MS - 1)
    assert (peer.answers.count(b"OK"), peer.closed_because) == (4, None)
    peer.timer.advance(1)
    assert peer.closed_because == f"its command took more than {COMMAND_MS} ms"
