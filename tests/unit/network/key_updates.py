"""A client of TLS 1.3 that asks for other keys when it likes, which Python's `ssl` does not let one do."""

from __future__ import annotations

import _ssl
import ctypes
import socket
from typing import Any

REQUESTED = 1
_POINTER, _INT, _BYTES = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_FUNCTIONS = {
    "TLS_client_method": (_POINTER, []),
    "SSL_CTX_new": (_POINTER, [_POINTER]),
    "SSL_CTX_free": (None, [_POINTER]),
    "SSL_new": (_POINTER, [_POINTER]),
    "SSL_free": (None, [_POINTER]),
    "SSL_set_fd": (_INT, [_POINTER, _INT]),
    "SSL_connect": (_INT, [_POINTER]),
    "SSL_key_update": (_INT, [_POINTER, _INT]),
    "SSL_do_handshake": (_INT, [_POINTER]),
    "SSL_write": (_INT, [_POINTER, _BYTES, _INT]),
    "SSL_read": (_INT, [_POINTER, _BYTES, _INT]),
}


def openssl() -> Any:
    """The library that Python uses, None where it cannot be called."""
    try:
        library = ctypes.CDLL(_ssl.__file__)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (AttributeError, OSError):
        return None
    return library


class AskingClient:
    """BLOCKING. It looks at no certificate."""

    def __init__(self, library: Any, address: tuple[str, int]) -> None:
        self._library = library
        self._socket = socket.create_connection(address, timeout=None)
        self._context = library.SSL_CTX_new(library.TLS_client_method())
        self._session = library.SSL_new(self._context)
        library.SSL_set_fd(self._session, self._socket.fileno())
        assert library.SSL_connect(self._session) == 1

    def asks(self) -> bool:
        """Ask for other keys; False where the server is gone."""
        library = self._library
        return bool(
            library.SSL_key_update(self._session, REQUESTED) == 1 and library.SSL_do_handshake(self._session) == 1
        )

    def says(self, data: bytes) -> bytes:
        """Send, and receive as much."""
        assert self._library.SSL_write(self._session, data, len(data)) == len(data)
        received = b""
        while len(received) < len(data):
            buffer = ctypes.create_string_buffer(len(data) - len(received))
            count = self._library.SSL_read(self._session, buffer, len(buffer))
            assert count > 0
            received += buffer.raw[:count]
        return received

    def close(self) -> None:
        self._library.SSL_free(self._session)
        self._library.SSL_CTX_free(self._context)
        self._socket.close()
