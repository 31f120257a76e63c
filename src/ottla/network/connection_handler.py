"""What a gateway gives for each connection."""

from typing import Protocol

from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.response_queue import ResponseSlot


class ConnectionHandler(Protocol):
    """Takes the requests of one connection. Called from the event loop, never after `on_close`."""

    def on_frame(self, frame: memoryview, lease: ReceiveBuffer, slot: ResponseSlot) -> None:
        """A request has arrived. `frame` is writable, without the 4-byte length, and valid until the return unless
        `lease` is retained. `slot` is to be filled once, now or later.

        InvalidInputError closes the connection with one line in the log, any other exception with its traceback.
        """
        ...

    def on_close(self) -> None:
        """The connection is closed, by whomever. Called once; slots that are filled later are ignored."""
        ...
