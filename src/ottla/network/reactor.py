"""All sockets of a listener in one turn of the event loop.

    epoll's descriptor is readable
      receive   one native call: what all ready sockets hold, into one buffer
                | request of A | requests of B   | part of C's |  free  |
      hand out  requests that can be served as one are; of the others each connection cuts and handles its own; what
                they append is gathered over all of them
      send      one native call: the answers of all of them
      look      connections that receive by themselves, have room to send, or whose peer is gone

No thread: the loop calls, and everything is decided by the connections (`ottla.network.connection`), with the limits
they always have. Of one connection a turn takes as much as may be set aside of a request that is not complete. Who
sends more, or whose request is not complete, receives by itself until that is over: into a buffer of its own, which
request memory has to permit, and which a large request fills to its end without a copy.

A connection that the reactor cannot receive from or send to (TLS) is watched by it, and receives into the same buffer,
so that its requests are handed out with those of others. Where the system has no epoll,
`LoopSockets` leaves the watching to the event loop, and everything else to the connections.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.native import SocketPoll
from ottla.network.receive_buffer import KIB, SMALLEST, ReceiveBuffer
from ottla.network.request_memory import RequestMemory
from ottla.network.response_sender import ResponseSender
from ottla.network.socket_watch import READABLE, WRITABLE, PolledSocketWatch, SocketOwner, SocketWatch
from ottla.network.sockets import Flushable
from ottla.runtime.clock import Clock
from ottla.runtime.cork import Cork

if TYPE_CHECKING:
    from ottla.network.together import Arrival

logger = logging.getLogger(__name__)

SHARE_BYTES: Final = SMALLEST
"""What is received from one connection in a turn: a part of a request that is so small waits outside of any buffer."""

TURN_BYTES: Final = 128 * KIB
"""The buffer that the requests of a turn share."""


TOLD_A_TURN: Final = 32
"""So many are told in a turn that there is something to receive for themselves, or an end; the poll says it of the
others again, behind those who have waited for longer. Where thousands leave at once, nobody waits for all of them.
"""


TakeTogether: TypeAlias = "Callable[[list[Arrival], ReceiveBuffer, int], list[Arrival]]"
"""Of what was received, in a buffer, at a time of the monotonic clock."""


class Reactor:
    """All sockets together, by epoll. Belongs to the event loop."""

    __slots__ = (
        "_clock",
        "_cork",
        "_is_flushing",
        "_is_gathering",
        "_last",
        "_loop",
        "_memory",
        "_poll",
        "_position",
        "_take_together",
        "is_turning",
        "unsent",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        memory: RequestMemory,
        cork: Cork,
        take_together: TakeTogether,
    ) -> None:
        """`take_together` serves as one what it can of what was received together, and returns what is left.

        Raises OSError where the system has no epoll.
        """
        self._loop = loop
        self._clock = clock
        self._memory = memory
        self._cork = cork
        self._take_together = take_together
        self._poll = SocketPoll()
        self._last: ReceiveBuffer | None = None  # given up here, still held by requests, with room from `_position` on
        self._position = 0
        self.unsent: dict[Any, None] = {}  # in the order in which they asked
        self.is_turning = False
        self._is_gathering = False  # for somebody else than a turn
        self._is_flushing = False
        loop.add_reader(self._poll.fileno(), self._turn)
        cork.add_answers(self)

    def watch(self, fd: int, owner: SocketOwner, *, is_plain: bool) -> SocketWatch:
        """As `Sockets` says."""
        return PolledSocketWatch(self._poll, fd, owner, receives=is_plain)

    def flush_soon(self, sender: Flushable) -> None:
        """As `Sockets` says."""
        if not self.unsent and not self.is_turning:
            self._loop.call_soon(self._flush)
        self.unsent[sender] = None

    def close(self) -> None:
        """As `Sockets` says."""
        self._cork.remove_answers(self)
        self._loop.remove_reader(self._poll.fileno())
        self._poll.close()
        if self._last is not None:
            self._last.on_return = None
            self._last = None

    def gather(self) -> None:
        """Answers come now: they are sent together. In a turn, or while answers are gathered already, they are."""
        if not self.is_turning:
            self.is_turning = self._is_gathering = True

    def send(self) -> None:
        """No more of them come. Those that come of sending wait for the next turn of the loop."""
        if self._is_gathering:
            self.is_turning = self._is_gathering = False
            if not self._is_flushing:
                try:
                    self._flush()
                except Exception:  # whose work is done tells others as well
                    logger.exception("could not send responses")
            elif self.unsent:
                self._loop.call_soon(self._flush)

    def _turn(self) -> None:
        buffer = self._last
        if buffer is None:
            buffer, position = self._memory.take_to_share(TURN_BYTES), 0
        else:  # filled on, for it is held anyway
            buffer.retain()
            buffer.on_return = self._last = None
            position = self._position
        received, ready, lost = self._poll.receive(None if buffer is None else buffer.view, position, SHARE_BYTES)
        if buffer is not None:
            try:
                if ready:
                    ready = self._receive_others(ready, received, buffer, position)
                if received:
                    position = received[-1][2]
                    self._hand_out(received, buffer, is_all=not ready)
            finally:
                if buffer.reference_count > 1:
                    self._put_by(buffer, position)
                buffer.release()
        for connection, number in lost:
            connection.receiver.on_lost(number)
        told = 0
        for connection, events in ready:
            if events & READABLE:
                told += 1
                if told > TOLD_A_TURN and events == READABLE:
                    continue
                connection.receiver.on_readable()
            if events & WRITABLE:
                connection.sender.on_writable()

    def _receive_others(
        self, ready: "list[tuple[Any, int]]", received: "list[Arrival]", buffer: ReceiveBuffer, position: int
    ) -> "list[tuple[Any, int]]":
        """Have those receive that are only watched, while there is room; returns who is still to be told."""
        if received:
            position = received[-1][2]
        view, last, others = buffer.view, buffer.capacity - SHARE_BYTES, []
        for each in ready:
            connection, events = each
            count = 0
            if events == READABLE and position <= last:
                count = connection.receiver.receive_to_share(view[position : position + SHARE_BYTES])
            if count:
                received.append((connection, position, position + count))
                position += count
            else:
                others.append(each)
        return others

    def _hand_out(self, received: "list[Arrival]", buffer: ReceiveBuffer, *, is_all: bool) -> None:
        """Have all of it handled; `is_all` says that nobody receives by itself in this turn."""
        now_ms = self._clock.monotonic_ms()
        is_only = len(received) == 1
        if is_only:
            connection, begin, end = received[0]
            if connection.receiver.on_received(buffer, begin, end, now_ms, is_only=True):
                return
        cork = self._cork
        self.is_turning = True
        try:
            cork.cork()
            try:
                if is_only:
                    connection.receiver.hand_out(buffer, begin, end, is_alone=is_all)
                else:
                    for connection, begin, end in self._take_together(received, buffer, now_ms):
                        receiver = connection.receiver
                        if not receiver.on_received(buffer, begin, end, now_ms, is_only=False):
                            receiver.hand_out(buffer, begin, end)
            finally:
                if is_all:
                    cork.uncork_now()  # whatever happened: what is gathered would never go
                else:
                    cork.uncork()
        except Exception:
            logger.exception("could not handle all requests that arrived together")
        finally:
            self.is_turning = False
        self._flush()

    def _put_by(self, buffer: ReceiveBuffer, position: int) -> None:
        if buffer.capacity - position >= SHARE_BYTES:
            self._last = buffer
            self._position = position
            buffer.on_return = self._forget_last

    def _forget_last(self) -> None:
        self._last = None

    def _flush(self) -> None:
        """Send what is ready on all connections, with one call where it is nothing but bytes."""
        if not self.unsent:
            return
        was_flushing, self._is_flushing = self._is_flushing, True
        try:
            self._flush_all()
        finally:
            self._is_flushing = was_flushing

    def _flush_all(self) -> None:
        unsent, self.unsent = self.unsent, {}
        if len(unsent) == 1:
            for sender in unsent:
                sender.flush()
            return
        ResponseSender.send_together(unsent, self._poll.send, self._clock.monotonic_ms)
