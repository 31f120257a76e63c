"""TLS over a blocking socket, with the methods of a socket that a `BlockingConnection` uses."""

import socket
import ssl
from collections.abc import Iterable
from typing import Final

_HELD_BYTES: Final = 16 * 1024
"""What a record of TLS holds at most."""


class SecureSocket:
    """For one thread at a time. Errors are those of a socket; `ssl.SSLError` is one of them."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str) -> None:
        """Take over a connected socket; `do_handshake` comes first. Raises OSError."""
        self._socket = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        self._held = b""

    def do_handshake(self) -> None:
        """Agree with the other side. Raises OSError; SSLWantReadError and SSLWantWriteError when it would block."""
        self._socket.do_handshake()

    def fileno(self) -> int:
        """What can be waited for."""
        return self._socket.fileno()

    def settimeout(self, seconds: float) -> None:
        """How long to wait."""
        self._socket.settimeout(seconds)

    def sendmsg(self, parts: Iterable[bytes | bytearray | memoryview]) -> int:
        """Send all of these."""
        data = b"".join(parts)
        self._socket.sendall(data)
        return len(data)

    def recv_into(self, buffer: memoryview) -> int:
        """Receive what is there, at least a byte; 0 at the end."""
        if self._held:
            count = min(len(self._held), len(buffer))
            buffer[:count] = self._held[:count]
            self._held = self._held[count:]
            return count
        return self._socket.recv_into(buffer)

    def has_input(self) -> bool:
        """Whether `recv_into` would return at once. Changes the time-out to 0."""
        if not self._held:
            self._socket.settimeout(0)
            try:
                self._held = self._socket.recv(_HELD_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            except OSError:
                return True  # `recv_into` will say what it is
        return True

    def close(self) -> None:
        """End it."""
        self._socket.close()
