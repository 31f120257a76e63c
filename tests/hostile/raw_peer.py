"""A peer that sends whatever bytes it is told to, and reads only when it is told to."""

from __future__ import annotations

import re
import socket
import struct
from types import TracebackType
from typing import Any

from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.api_versions import ApiVersionsRequest

WAIT_S = 60


def lines_about(address: str, lines: list[str]) -> list[str]:
    """The lines that name exactly this peer: `127.0.0.1:4567` does not stand in `127.0.0.1:45678`."""
    whole = re.compile(rf"(?<![\w.]){re.escape(address)}(?!\d)")
    return [line for line in lines if whole.search(line)]


def framed(payload: bytes) -> bytes:
    """Bytes behind their length."""
    return struct.pack(">i", len(payload)) + payload


def header(api_key: int, version: int, client_id: bytes = b"hostile", *, flexible: bool = False) -> bytes:
    """The header of a request with the correlation id 7."""
    return struct.pack(">hhih", api_key, version, 7, len(client_id)) + client_id + (b"\0" if flexible else b"")


class RawPeer:
    """One connection. `source` is the address it comes from: any in 127.0.0.0/8."""

    def __init__(self, port: int, source: str = "127.0.0.1", receive_buffer_bytes: int = 0) -> None:
        self.sock = socket.socket()
        self.sock.settimeout(WAIT_S)
        if receive_buffer_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.sock.bind((source, 0))
        self.sock.connect(("127.0.0.1", port))
        self.address = "{}:{}".format(*self.sock.getsockname())

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.sock.sendall(data)

    def receive(self, count: int) -> bytes:
        """Exactly `count` bytes."""
        data = bytearray()
        while len(data) < count:
            piece = self.sock.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise ConnectionError(f"closed after {len(data)} of {count} bytes")
            data += piece
        return bytes(data)

    def receive_frame(self) -> bytes:
        """A response without its length."""
        (size,) = struct.unpack(">i", self.receive(4))
        return self.receive(size)

    def ask(self, request: ApiMessage, version: int, client_id: str | None = "hostile") -> Any:
        """The response to a request."""
        self.send(encode_request(7, client_id, request, version))
        correlation_id, response = decode_response(request.API_KEY, version, self.receive_frame())
        assert correlation_id == 7
        return response

    def is_served(self) -> bool:
        """Whether the connection still answers."""
        return bool(self.ask(ApiVersionsRequest(), 0).api_keys)

    def closed_with(self) -> bytes:
        """What still comes until the broker closes the connection; fails when it stays open."""
        data = bytearray()
        try:
            while piece := self.sock.recv(1 << 20):
                data += piece
        except ConnectionResetError:
            pass
        return bytes(data)

    def close(self) -> None:
        """Hang up."""
        self.sock.close()

    def __enter__(self) -> RawPeer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
