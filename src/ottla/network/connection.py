"""One connection: frames in, responses out in order, and neither side overrun.

    RequestReceiver (request_receiver.py)    bytes in, frames to the handler
    ResponseSender  (response_sender.py)     answers in their order, and what is pushed, to the socket
    Connection      (here)                   its life: start, drain, fail, close; who it is; quotas and idleness

A connection is driven by its socket, not by a task: it is told when there is something to read or room to write, or
gets what was received for it together with what others sent (`ottla.network.reactor`). Within a turn of the event loop
it receives once and hands the frames to its handler, and what became ready is sent with one call. Responses that become
ready elsewhere in the turn leave together at its end.

What it does about requests is its state (`ottla.network.connection_state`), and only that: it is read while it is open.
It stops
- while too many requests are unanswered, or too many bytes not taken by the peer (`ottla.network.flow_control`);
- while there is no memory for requests (`ottla.network.request_memory`);
- while its client is to be quiet, which whoever keeps quotas says (`mute`);
- for good when it drains, or when the peer has said that it sends nothing more.

What carries the bytes (`ottla.network.transport`) and where a frame ends (`ottla.network.frame_reader`) are arguments.
"""

import errno
import logging
from collections.abc import Callable, Sequence
from typing import Final

from ottla.model.principal import ANONYMOUS, Principal
from ottla.network.address import Address
from ottla.network.connection_handler import ConnectionHandler
from ottla.network.connection_services import ConnectionServices
from ottla.network.connection_state import ENDING, Event, State, next_state
from ottla.network.idle_watch import IdleWatch
from ottla.network.request_receiver import RequestReceiver
from ottla.network.response_queue import Part, ResponseSlot
from ottla.network.response_sender import ResponseSender
from ottla.network.transport import Transport
from ottla.runtime.timing_wheel import TimerTask

__all__ = ["Connection", "ResponseSlot"]

logger = logging.getLogger(__name__)

_LOST = frozenset(
    {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}
)
"""How the operating system says that the peer or the way to it is gone, which is no news."""

_OPEN: Final = State.OPEN
_PAUSED: Final = State.PAUSED
_MUTED: Final = State.MUTED
_HALF_CLOSED: Final = State.HALF_CLOSED
_CLOSED: Final = State.CLOSED
_MUTABLE: Final = frozenset({State.OPEN, State.PAUSED, State.STARVED})
"""To reach a member through its class costs ten times as much, and these are asked for several times a request."""


class Connection:
    """A client's connection. Belongs to the event loop."""

    __slots__ = (
        "_failure",
        "_idle",
        "_muted_until_ms",
        "_resume_unmuted",
        "_services",
        "_transport",
        "_unmuting",
        "_watch",
        "fd",
        "handler",
        "local",
        "peer",
        "principal",
        "receiver",
        "responses",
        "sender",
        "state",
    )

    def __init__(
        self,
        transport: Transport,
        local: Address,
        peer: Address,
        services: ConnectionServices,
        principal: Principal = ANONYMOUS,
    ) -> None:
        self._transport = transport
        self._services = services
        self.handler: ConnectionHandler | None = None
        """Who takes its requests, from its start to its end."""
        self._failure: str | None = None  # why it ends, if a request of it has failed
        self._muted_until_ms = 0
        self._unmuting: TimerTask | None = None
        self._resume_unmuted: Callable[[], None] | None = None
        self.fd = transport.fileno()
        """The number of its socket, while it is open."""
        self._watch = watch = services.sockets.watch(self.fd, self, is_plain=transport.is_plain)
        self._idle = idle = IdleWatch(
            services.clock,
            services.timer,
            services.config.connections_max_idle_ms,
            is_peers_turn=self._is_peers_turn,
            on_idle=self._on_idle,
        )
        self.sender = ResponseSender(self, transport, watch, idle, services)
        """What it sends."""
        self.receiver = RequestReceiver(self, transport, watch, idle, self.sender, services)
        """What it receives."""
        self.responses = self.sender.responses
        """Its answers, in the order of its requests."""
        self.state = State.NEW
        """What it does about requests."""
        self.peer = peer
        """Where the client is."""
        self.local = local
        """The address by which the client reached us."""
        self.principal = principal
        """Who the client is by its certificate; ANONYMOUS where it has shown none."""

    def __repr__(self) -> str:
        return f"<Connection {self.peer} to {self.listener_name} at {self.local}, {self.state.name}>"

    @property
    def listener_name(self) -> str:
        """The name of the listener that accepted it."""
        return self._services.listener_name

    @property
    def is_closed(self) -> bool:
        """Whether it is gone; answers go nowhere."""
        return self.state is _CLOSED

    @property
    def in_flight_count(self) -> int:
        """Requests whose response has not left the queue."""
        return len(self.responses)

    @property
    def pending_bytes(self) -> int:
        """Bytes of responses in memory that the socket has not taken, or that wait for an earlier one."""
        return self.sender.output.pending_bytes

    @property
    def is_blocked(self) -> bool:
        """Whether the socket has been offered more than it took."""
        return self._watch.is_writing

    @property
    def moved_ms(self) -> int:
        """When something was received or sent last, by the monotonic clock."""
        return self._idle.moved_ms

    def start(self, handler: ConnectionHandler) -> None:
        """Begin to read; `handler` gets the frames."""
        self.handler = handler
        self._idle.start()
        self.move(Event.START)
        self._watch.read(True)
        if self._transport.has_input:  # it came with the end of a handshake
            self._services.loop.call_soon(self.receiver.on_readable)

    def push(self, parts: Sequence[Part], resume: Callable[[], None]) -> bool:
        """Send what nobody asked for, one part after the other, behind the answers that are ready.

        False when enough waits for the peer: `resume` is called once when it has taken half of that, and until then
        nothing more is to be pushed. A connection that is ending or closed takes nothing and calls nothing.
        """
        if self.state in ENDING or self.state is _CLOSED:
            return False
        return self.sender.push(parts, resume)

    def push_answer(self, parts: Sequence[Part], resume: Callable[[], None]) -> bool:
        """`push` of what the peer has asked for, which a connection takes that is ending too: a request is to be
        unanswered still (`ResponseSlot`), or it may be closed already.
        """
        return self.state is not _CLOSED and self.sender.push(parts, resume)

    def complain(self, what: str) -> None:
        """Log what the peer did wrong, with its address and within limits; the connection goes on."""
        self._services.throttle.warning("%s to %s: %s", self.peer, self.local, what)

    # The end.

    def drain(self) -> None:
        """Read no more; close when every request that was handed out is answered and every response sent."""
        if self.state is _CLOSED:
            return
        self.move(Event.DRAIN)
        self._watch.read(False)
        if self._resume_unmuted is not None:  # what was handed out is answered before the end
            self._services.loop.call_soon(self._resume_handler)
        self.sender.flush_soon()

    def fail(self, reason: str, slot: ResponseSlot | None = None) -> None:
        """The request of `slot` cannot be answered, or without one what comes next is none: answer those before it and
        close.

        Nothing more is read, and what those behind it are answered with goes nowhere. What comes before is waited for
        like the answers of a peer that sends nothing more: no longer than the idle time. The reason is logged with
        the peer's address, within limits.
        """
        self.fail_at(self.responses.next if slot is None else slot.number, reason)

    def fail_at(self, number: int, reason: str) -> None:
        """`fail` for the request of this number."""
        if self.state is _CLOSED or number >= self.responses.end:
            return
        is_first, handler = self._failure is None and self.state is not _HALF_CLOSED, self.handler
        self._failure = reason
        self.responses.cut(number)
        self.receiver.close()
        self._idle.moved()
        self.drain()
        try:
            if is_first and handler is not None:
                handler.on_end_of_input()
            if not self.responses.answers and not self.is_closed:
                if not self._watch.is_writing:
                    self.sender.write()
                self._end_if_done()
        except Exception:
            self.break_off()

    def close(self, reason: str = "") -> None:
        """Close now. Unsent responses are dropped. A reason is logged with the peer's address, within limits."""
        if self.state is _CLOSED:
            return
        self.move(Event.CLOSE)
        reason = reason or self._failure or ""
        if reason:
            self._services.throttle.warning("closed the connection from %s to %s: %s", self.peer, self.local, reason)
        self._watch.close()
        self._transport.close()
        self._idle.close()
        if self._unmuting is not None:
            self._unmuting.cancel()
            self._unmuting = None
        self._resume_unmuted = None
        self.sender.close()
        self.receiver.close()
        handler, self.handler = self.handler, None
        self._services.on_closed(self)
        if handler is not None:
            try:
                handler.on_close()
            except Exception:
                logger.exception("the handler of %r failed to close", self)

    def break_off(self) -> None:
        """Close, for the mistake of ours that is being handled."""
        logger.exception("%r failed and is closed", self)
        self.close()

    def lose(self, error: OSError) -> None:
        """Close, for the peer or the way to it is gone."""
        self.close("" if error.errno in _LOST else error.strerror or str(error))

    def on_end_of_input(self) -> None:
        """The peer sends nothing more. All it asked for has been handed out, and is answered before the end."""
        if self.sender.is_done:
            self.close()
            return
        self.move(Event.PEER_FINISHED)
        self.receiver.stop()
        assert self.handler is not None
        self.handler.on_end_of_input()
        self._end_if_done()

    def on_sent(self) -> None:
        """The peer may have taken something: go on, or end, if that allows it."""
        if self.state is _PAUSED and self.sender.is_low:
            self.move(Event.LOW_WATER)
            self.receiver.pump()
        else:
            self._end_if_done()

    def _end_if_done(self) -> None:
        if self.state in ENDING and self.sender.is_done:
            if self.state is not _HALF_CLOSED:
                self.receiver.discard_input()
            self.close()

    def move(self, event: Event) -> None:
        """An event of its life has happened; AssertionError where it cannot."""
        self.state = next_state(self.state, event)

    # Quotas.

    def mute(self, throttle_ms: int) -> None:
        """Do not read for so long, and hand no request out that is here already: its client is over a quota (KIP-219).

        What was handed out is answered all the same. A connection that is muted already stays so until the later of the
        two times; one that is ending is not read anyway.
        """
        services = self._services
        until_ms = services.clock.monotonic_ms() + throttle_ms
        if self.state is _MUTED:
            self._muted_until_ms = max(self._muted_until_ms, until_ms)
        elif self.state in _MUTABLE:
            self._muted_until_ms = until_ms
            self.move(Event.MUTE)
            self._watch.read(False)
            self._unmuting = services.timer.schedule(throttle_ms, self._unmute)

    @property
    def is_muted(self) -> bool:
        """Whether its client is to be quiet: what has been handed out and not begun should wait (`when_unmuted`)."""
        return self.state is _MUTED

    def when_unmuted(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when the time of a muted connection is over or it drains; never when it is closed."""
        assert self._resume_unmuted is None
        self._resume_unmuted = resume

    def _unmute(self) -> None:
        self._unmuting = None
        if self.state is not _MUTED:
            return
        left_ms = self._muted_until_ms - self._services.clock.monotonic_ms()
        if left_ms > 0:
            self._unmuting = self._services.timer.schedule(left_ms, self._unmute)
            return
        self.move(Event.UNMUTE)
        self._idle.moved()
        try:
            self._resume_handler()
            self._read_again()
        except Exception:
            self.break_off()

    def _read_again(self) -> None:
        """It was muted; what waited for the end of that may have had it muted again, or closed."""
        if self.state is _OPEN and self.sender.is_full:
            self.move(Event.HIGH_WATER)
        if self.state is not _CLOSED:
            self.receiver.pump()

    def _resume_handler(self) -> None:
        resume, self._resume_unmuted = self._resume_unmuted, None
        if resume is not None:
            resume()

    # Time.

    def _is_peers_turn(self) -> bool:
        """Whether to wait for the peer, to send or to read, and not for a handler, for memory or for the disk.

        A peer that has finished may be gone for good: an answer it waits for longer than the idle time is not awaited.
        Nor is one that only stands before the end of a connection that has failed.
        """
        output = self.sender.output
        if output.parts:
            return not output.is_waiting_for_disk
        if self.state is _HALF_CLOSED or self._failure is not None:
            return True
        return self.state is _OPEN and not self.responses.answers

    def _on_idle(self) -> None:
        self.close("it did not read its responses" if self.sender.output.parts else "")
