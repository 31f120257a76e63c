"""Requests that are served as one: of many connections in a turn, or of one that does not wait for answers.

    received    A's request | B's | a part of C's | D's | ...
    taken       A's, B's, D's    with one place for each in the order of its connection (`ResponseSlots`)
    left        C's              handed out one by one, as ever

What is taken is decided by who serves it, who leaves alone whatever is out of the common. The limits, the order and the
answers are those of requests one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from ottla.network.connection import Connection
    from ottla.network.receive_buffer import ReceiveBuffer

Arrival: TypeAlias = "tuple[Connection, int, int]"
"""Whose bytes lie where in a buffer."""


class Together(Protocol):
    """Serves requests as one. A frame is what follows a 4-byte length, as `LengthPrefixReader` has it."""

    def take(self, received: list[Arrival], buffer: ReceiveBuffer) -> list[Arrival]:
        """Serve what can be served as one of what was received of connections that are clear; returns what is left.

        Of a connection that is taken from, all that was received is one request. The buffer is retained for as long
        as it is needed.
        """
        ...

    def take_leading(self, connection: Connection, buffer: ReceiveBuffer, begin: int, end: int, count_max: int) -> int:
        """The same for whole requests at the front of what one connection sent, `count_max` of them at most. Returns
        where the next begins: `begin` when none was taken.
        """
        ...

    def take_whole(self, connection: Connection, buffer: ReceiveBuffer, begin: int, end: int, count_max: int) -> int:
        """`take_leading` where all that one connection sent is such requests, which may be one; else none is taken."""
        ...

    def take_at_once(
        self, connection: Connection, buffer: ReceiveBuffer, begin: int, end: int, count_max: int
    ) -> tuple[int, bytes] | None:
        """Serve all that one connection sent, `count_max` requests at most, if that is over before this returns: how
        many requests that were, and their answers. None, and nothing has happened, where that cannot be. The connection
        waits for no answer.
        """
        ...
