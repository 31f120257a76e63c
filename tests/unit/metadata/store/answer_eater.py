"""Stands between a client and a ZooKeeper server, and can keep the server's answers to itself."""

import socket
import threading
from contextlib import suppress

TRANSACTION = (14).to_bytes(4)
"""The type of a request that is a transaction."""

HEAD_BYTES = 12
"""The length of a request, its number and its type."""


class _Requests:
    """Finds where requests begin in what a client sends, however it comes apart or together."""

    def __init__(self) -> None:
        self._head = b""
        self._rest = 0
        self._is_connecting = True
        """The first has neither number nor type."""

    def has_transaction(self, data: bytes) -> bool:
        """Whether one begins in these bytes, which follow those of the call before."""
        found = False
        while data:
            if self._rest:
                data, self._rest = data[self._rest :], max(0, self._rest - len(data))
                continue
            missing = HEAD_BYTES - len(self._head)
            self._head, data = self._head + data[:missing], data[missing:]
            if len(self._head) == HEAD_BYTES:
                found = found or (not self._is_connecting and self._head[8:] == TRANSACTION)
                self._rest = int.from_bytes(self._head[:4]) + 4 - HEAD_BYTES
                self._head, self._is_connecting = b"", False
        return found


class AnswerEater:
    """A proxy on a port of its own. Requests always pass; answers do unless it eats them."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._waits = threading.Event()
        self._eats = threading.Event()
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def eat(self) -> None:
        """From the next transaction on no answer arrives."""
        self._waits.set()

    def eat_all(self) -> None:
        """From now on no answer arrives."""
        self._eats.set()

    def wait_until_eating(self) -> None:
        """Wait until a transaction has passed whose answer will not."""
        assert self._eats.wait(60), "no transaction has passed"

    def cut(self) -> None:
        """End the connections there are; of those that come, answers arrive again."""
        self._waits.clear()
        self._eats.clear()
        connections, self._connections = self._connections, []
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Take no more connections, and end those there are: nobody reaches the server here any more."""
        with suppress(OSError):  # closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._connections += (client, server)
                threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        requests = _Requests()
        with suppress(OSError), source, target:
            while data := source.recv(65536):
                if not is_answer and requests.has_transaction(data) and self._waits.is_set():
                    self._eats.set()
                if not (is_answer and self._eats.is_set()):
                    target.sendall(data)
