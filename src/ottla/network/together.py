"""Requests that are served as one: of many connections in a turn, or of one that does not wait for answers.

    received    A's request | B's | a part of C's | D's | ...
    taken       A's, B's, D's    with one place for each in the order of its connection (`ResponseSlots`)
    left        C's              handed out one by one, as ever

What is taken is decided by who serves it, who leaves alone whatever is out of the common. The limits, the order and the
answers are those of requests one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from ottla.network.connection_handler import ConnectionHandler
    from ottla.network.receive_buffer import ReceiveBuffer
    from ottla.network.response_queue import ResponseQueue


class Requester(Protocol):
    """A connection, as far as who serves its requests goes."""

    handler: ConnectionHandler | None
    """Who takes those that are handed out."""
    responses: ResponseQueue
    """Where the answers have their places."""

    def close(self, reason: str = "") -> None:
        """End it at once."""
        ...


Arrival: TypeAlias = "tuple[Any, int, int]"
"""Whose bytes lie where in a buffer: a `Connection`, which is a `Requester`."""


class Together(Protocol):
    """Serves requests as one. A frame is what follows a 4-byte length, as `LengthPrefixReader` has it."""

    def take(self, received: list[Arrival], buffer: ReceiveBuffer) -> list[Arrival]:
        """Serve what can be served as one of what was received of connections that are clear; returns what is left.

        Of a connection that is taken from, all that was received is one request. The buffer is retained for as long
        as it is needed.
        """
        ...

    def take_of_one(
        self, connection: Requester, buffer: ReceiveBuffer, begin: int, end: int, count_max: int, *, is_whole: bool
    ) -> int:
        """The same for whole requests at the front of what one connection sent, two at least and `count_max` at most.
        Returns where the next begins: `begin` when none was taken. With `is_whole` all that it sent is taken, which may
        be one request, or none is.
        """
        ...

    def take_at_once(
        self, connection: Requester, buffer: ReceiveBuffer, begin: int, end: int, count_max: int
    ) -> tuple[int, bytes] | None:
        """Serve all that one connection sent, `count_max` requests at most, if that is over before this returns: how
        many requests that were, and their answers. None, and nothing has happened, where that cannot be. The connection
        waits for no answer.
        """
        ...
