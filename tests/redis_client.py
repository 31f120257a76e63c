"""A client of Redis' protocol that shows replies as they come, for tests that compare two servers or look at bytes."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from select import select
from types import TracebackType
from typing import Any


class ReplyError(str):
    """An error reply; a value, for those within arrays."""


class RawRedis:
    """One connection. Maps are lists of pairs marked `%`, verbatim strings tuples, simple strings `+...`."""

    def __init__(self, address: tuple[str, int], protocol: int = 2) -> None:
        self.socket = socket.create_connection(address, timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""
        if protocol == 3:
            self.call("HELLO", "3")

    def __enter__(self) -> RawRedis:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, *words: str | bytes) -> Any:
        """The reply to a command."""
        self.send(*words)
        return self.reply()

    def send(self, *words: str | bytes) -> None:
        """Send a command and do not look at the reply."""
        self.socket.sendall(encoded(words))

    def pipeline(self, commands: Sequence[tuple[str | bytes, ...]]) -> list[Any]:
        """The replies to commands that are sent together."""
        self.socket.sendall(b"".join(encoded(command) for command in commands))
        return [self.reply() for _ in commands]

    def has_reply(self, timeout_s: float) -> bool:
        """Whether something of the next reply is here, or comes within a time."""
        return bool(self._data) or bool(select([self.socket], [], [], timeout_s)[0])

    def reply(self) -> Any:
        """The next reply."""
        line = self._line()
        kind, rest = line[:1], line[1:]
        match kind:
            case b"+":
                return "+" + rest.decode()
            case b"-":
                return ReplyError(rest.decode(errors="replace"))
            case b":":
                return int(rest)
            case b"$" | b"=":
                if rest == b"-1":
                    return None
                text = self._take(int(rest) + 2)[:-2]
                return ("verbatim", text[4:]) if kind == b"=" else text
            case b"*":
                return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
            case b"%":
                return ["%", *([self.reply(), self.reply()] for _ in range(int(rest)))]
            case b"_":
                return None
        raise ValueError(f"not a reply: {line!r}")

    def _line(self) -> bytes:
        while (at := self._data.find(b"\r\n")) < 0:
            self._receive()
        line, self._data = self._data[:at], self._data[at + 2 :]
        return line

    def _take(self, size: int) -> bytes:
        while len(self._data) < size:
            self._receive()
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def _receive(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError("the server closed the connection")
        self._data += data


def encoded(words: tuple[str | bytes, ...]) -> bytes:
    """The bytes of a command."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word.encode() if isinstance(word, str) else word
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)
