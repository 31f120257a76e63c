"""What a gateway gives for each connection."""

from typing import Protocol

from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.response_queue import ResponseSlot


class ConnectionHandler(Protocol):
    """Takes the requests of one connection. Called from the event loop, never after `on_close`."""

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        """A request has arrived. `frame` is writable, without what delimits it, and valid until the return unless
        `buffer`, in which it lies, is retained. `slot` is to be filled once, now or later.

        InvalidInputError closes the connection with one line in the log, any other exception with its traceback.
        """
        ...

    def on_end_of_input(self) -> None:
        """The peer sends nothing more while requests are unanswered, though it may still read, or a request has failed:
        whatever only waits for something better to say is to be answered now. The connection closes when all requests
        are, or those before the one that failed; those behind it are void (`ResponseSlot.is_void`).
        """
        ...

    def on_close(self) -> None:
        """The connection is closed, by whomever. Called once; slots that are filled later are ignored."""
        ...
