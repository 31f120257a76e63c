"""A client that speaks NSQ's TCP protocol, frame by frame, as a test tells it to."""

from __future__ import annotations

import json
import socket
import ssl
import struct
from typing import Any, NamedTuple


class Message(NamedTuple):
    """A message as it is pushed."""

    timestamp_ns: int
    attempts: int
    message_id: bytes
    body: bytes


def sized(body: bytes) -> bytes:
    """A body with its length."""
    return struct.pack(">i", len(body)) + body


class NsqClient:
    """One connection. A heartbeat is answered and not handed out."""

    def __init__(self, address: tuple[str, int], *, magic: bytes = b"  V2") -> None:
        self._socket = socket.create_connection(address, timeout=60)
        self._socket.sendall(magic)
        self._received = b""

    def send(self, line: bytes, body: bytes | None = None) -> None:
        """Send a command."""
        self._socket.sendall(line + b"\n" + (b"" if body is None else sized(body)))

    def frame(self) -> tuple[int, bytes]:
        """The next frame: its type and data. Raises EOFError when the server has closed."""
        size = struct.unpack(">i", self._take(4))[0]
        data = self._take(size)
        kind = struct.unpack(">i", data[:4])[0]
        if data[4:] == b"_heartbeat_":
            self.send(b"NOP")
            return self.frame()
        return kind, data[4:]

    def response(self) -> bytes:
        """The next frame, which has to be a response."""
        kind, data = self.frame()
        assert kind == 0, data
        return data

    def error(self) -> bytes:
        """The next frame, which has to be an error."""
        kind, data = self.frame()
        assert kind == 1, data
        return data

    def message(self) -> Message:
        """The next frame, which has to be a message."""
        kind, data = self.frame()
        assert kind == 2, data
        timestamp_ns, attempts = struct.unpack(">qH", data[:10])
        return Message(timestamp_ns, attempts, data[10:26], data[26:])

    def identify(self, **said: Any) -> Any:
        """Say what it is; what is negotiated."""
        self.send(b"IDENTIFY", json.dumps({"feature_negotiation": True, **said}).encode())
        return json.loads(self.response())

    def begin_tls(self) -> None:
        """Go on with TLS, which was negotiated; whose certificate it is does not matter."""
        self._socket = ssl._create_unverified_context().wrap_socket(self._socket)
        assert self.response() == b"OK"

    def publish(self, topic: str, *bodies: bytes) -> None:
        """PUB of one body, MPUB of several; returns when they are acknowledged."""
        if len(bodies) == 1:
            self.send(f"PUB {topic}".encode(), bodies[0])
        else:
            self.send(f"MPUB {topic}".encode(), struct.pack(">i", len(bodies)) + b"".join(map(sized, bodies)))
        assert self.response() == b"OK"

    def subscribe(self, topic: str, channel: str, ready: int) -> NsqClient:
        """Read a channel."""
        self.send(f"SUB {topic} {channel}".encode())
        assert self.response() == b"OK"
        self.send(f"RDY {ready}".encode())
        return self

    def finish(self, message: Message) -> None:
        """It is done."""
        self.send(b"FIN " + message.message_id)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            data = self._socket.recv(65536)
            if not data:
                raise EOFError
            self._received += data
        taken, self._received = self._received[:size], self._received[size:]
        return taken
