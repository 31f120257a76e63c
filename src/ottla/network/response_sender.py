"""What a connection sends: answers in the order of its requests, and what is pushed.

    answers --> ResponseQueue (their order) --> OutputQueue (bytes that wait) --> transport
    pushed  ------------------------------------^

Within a turn of the event loop what became ready is sent with one call: by whoever cuts requests, when all that have
arrived are handed out, or by `flush`, which is called once before the turn is over. What the socket does not take waits
until it has room, and slices of files until they are in the page cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from ottla.network.connection_state import State
from ottla.network.output_queue import OutputQueue, but
from ottla.network.response_queue import ResponseQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ottla.network.connection_services import ConnectionServices
    from ottla.network.idle_watch import IdleWatch
    from ottla.network.response_queue import Part
    from ottla.network.socket_watch import SocketWatch
    from ottla.network.transport import Transport
    from ottla.runtime.file_slice import FileSlice

Send: TypeAlias = "Callable[[Sequence[int], Sequence[list[Part]]], Iterable[tuple[int, int]]]"
"""Sends to each of some sockets; says of whom it took less, by its index, how many bytes those were."""

_OPEN: Final = State.OPEN
_CLOSED: Final = State.CLOSED


class Life(Protocol):
    """The connection, as far as who sends for it goes. None of these raises."""

    state: State

    def on_sent(self) -> None:
        """The peer may have taken something, which may let the connection go on, or end."""
        ...

    def fail_at(self, number: int, reason: str) -> None:
        """The request of this number is never answered."""
        ...

    def lose(self, error: OSError) -> None:
        """The peer, or the way to it, is gone."""
        ...

    def close(self, reason: str = "") -> None:
        """What has been announced cannot be sent."""
        ...

    def break_off(self) -> None:
        """A mistake of ours has been raised, and is being handled."""
        ...


class ResponseSender:
    """The sending side of one connection."""

    __slots__ = (
        "_fd",
        "_idle",
        "_is_flush_due",
        "_life",
        "_resume_pushing",
        "_services",
        "_transport",
        "_watch",
        "on_held",
        "output",
        "responses",
    )

    def __init__(
        self, life: Life, transport: Transport, watch: SocketWatch, idle: IdleWatch, services: ConnectionServices
    ) -> None:
        self._life = life
        self._transport = transport
        self._fd = transport.fileno()
        self._watch = watch
        self._idle = idle
        self._services = services
        self.responses = ResponseQueue(self)
        """The answers that have not left, in the order of their requests."""
        self.output = OutputQueue(self._wait_for_disk, services.on_found, services.metrics)
        """What waits for the socket."""
        self.on_held = self.output.hold
        self._is_flush_due = False  # what is pushed to the output will be written in this turn without further ado
        self._resume_pushing: Callable[[], None] | None = None

    @property
    def is_pushing(self) -> bool:
        """Whether somebody waits to push more."""
        return self._resume_pushing is not None

    @property
    def is_full(self) -> bool:
        """Whether the connection is at its high-water mark."""
        services = self._services
        return services.flow.is_full(len(self.responses.answers), self.output.pending_bytes, services.metrics.out_bytes)

    @property
    def is_low(self) -> bool:
        """Whether the connection is at its low-water mark."""
        services = self._services
        return services.flow.is_low(len(self.responses.answers), self.output.pending_bytes, services.metrics.out_bytes)

    @property
    def is_done(self) -> bool:
        """Whether everything is answered and sent."""
        return not self.responses.answers and not self.output.parts

    # What is to be sent.

    def on_response(self, parts: Sequence[Part]) -> None:
        """Send this as soon as may be."""
        if not parts and self._life.state is _OPEN:  # nothing to send, and nothing that waits for it
            return
        self.output.push(parts)
        if not self._is_flush_due:
            self.flush_soon()

    def on_answer(self, answer: bytes) -> None:
        """`on_response` of nothing but bytes, and some."""
        self.output.append(answer)
        if not self._is_flush_due:
            self._is_flush_due = True
            sockets = self._services.sockets
            if sockets.is_turning:
                sockets.unsent[self] = None
            else:
                sockets.flush_soon(self)

    def on_abandoned(self, number: int) -> None:
        """A request will never be answered, and no later one could be."""
        reason = "a request was given up without an answer"
        self._services.loop.call_soon_threadsafe(self._life.fail_at, number, reason)

    def answer_now(self, answer: bytes) -> None:
        """Send an answer, before which there is nothing to send and behind which nothing comes in this turn."""
        sent, transport = 0, self._transport
        if transport.is_plain and self._resume_pushing is None:
            try:
                sent = transport.send(answer)
            except OSError:  # which is met once more, and looked at there
                sent = 0
            self._services.metrics.bytes_out += sent
        if sent < len(answer):
            self.on_answer(answer[sent:])

    def push(self, parts: Sequence[Part], resume: Callable[[], None]) -> bool:
        """Send behind the answers that are ready. False when enough waits for the peer; then `resume` is called once
        when it has taken half of that.
        """
        services = self._services
        self.on_response(parts)
        if services.metrics.out_bytes > services.flow.out_bytes_hard_max:
            services.shed()
        if self.output.pending_bytes <= services.flow.out_max(services.metrics.out_bytes):
            return True
        self._resume_pushing = resume
        return False

    # Sending.

    def flush_soon(self) -> None:
        """Have `flush` called before the turn of the event loop is over."""
        self._is_flush_due = True
        self._services.sockets.flush_soon(self)

    def gather(self) -> None:
        """Requests are handed out now, and `write` follows: what they are answered with waits for that."""
        self._is_flush_due = True

    def gathered(self) -> None:
        """No `write` follows any more."""
        self._is_flush_due = False

    @staticmethod
    def send_together(senders: Iterable[ResponseSender], send: Send, monotonic_ms: Callable[[], int]) -> None:
        """Send what is ready on several connections of a listener, with one call where it is nothing but bytes, and as
        `flush` does on the others.
        """
        sending, sockets, waiting, rest = [], [], [], []
        for sender in senders:
            parts = sender.output.parts
            if parts and sender._transport.is_plain and not sender._watch.is_writing:
                sending.append(sender)
                sockets.append(sender._fd)
                waiting.append(parts)
            else:
                rest.append(sender)
        if sending:  # and from here to the accounts nobody is called: a socket is still that of its connection
            short = dict(send(sockets, waiting))
            OutputQueue.sent_together([each.output for each in sending], short, sending[0]._services.metrics)
            now_ms = monotonic_ms()
            for index, count in short.items():
                rest.append(sending[index])
                if count:
                    sending[index]._idle.moved_ms = now_ms
            for sender in but(sending, short):
                sender._idle.moved_ms = now_ms
                if sender._life.state is not _OPEN or sender._resume_pushing is not None:
                    rest.append(sender)
                else:
                    sender._is_flush_due = False
        for sender in rest:
            sender.flush()

    def flush(self) -> None:
        """Send what is ready, and go on or end, if that allows it."""
        self._is_flush_due = False
        life, transport = self._life, self._transport
        state = life.state
        if state is _CLOSED:
            return
        try:
            if not self._watch.is_writing:
                if state is _OPEN and self._resume_pushing is None and transport.is_ready:
                    output = self.output
                    if output.send_only(transport):
                        self._idle.moved_ms = self._services.clock.monotonic_ms()
                        if not output.parts and not transport.has_output:
                            return
                self.write()
            self.after_write()
        except Exception:
            life.break_off()

    def write(self) -> bool:
        """Send what the peer takes. False when it is gone, and the connection closed."""
        output, transport = self.output, self._transport
        if (output.parts and not output.is_waiting_for_disk) or transport.has_output:
            lost: OSError | None = None
            sent = 0
            try:
                if transport.has_output:
                    transport.flush()
                sent = output.write_to(transport)
            except OSError as error:
                # Its traceback would keep this frame, and the responses in it, until the garbage collector comes by.
                lost = error.with_traceback(None)
            if lost is not None:
                self._life.lose(lost)
                return False
            if sent:
                self._idle.moved()
        if (output.parts and transport.is_ready and not output.is_waiting_for_disk) or transport.has_output:
            self._watch.write(True)
        elif self._watch.is_writing:
            self._watch.write(False)
        return True

    def after_write(self) -> None:
        """What the peer has taken may let others go on."""
        if self._resume_pushing is not None and self.is_low:
            resume, self._resume_pushing = self._resume_pushing, None
            resume()
        self._life.on_sent()

    def on_writable(self) -> None:
        """There is room to send, or the peer is gone, unless that was seen before the watch was turned off."""
        if self._watch.is_writing:
            self._write_on()

    def _write_on(self) -> None:
        try:
            self.write()
            self.after_write()
        except Exception:
            self._life.break_off()

    def _wait_for_disk(self, piece: FileSlice) -> None:
        self._services.wait_for_disk(piece, self._on_read_ahead)

    def _on_read_ahead(self, error: OSError | None) -> None:
        """The slice of a file that was asked for is in the page cache now, or cannot be read."""
        if error is not None:
            self._life.close(f"a file could not be read: {error}")
        self.output.resume()
        if self._life.state is not _CLOSED:
            self._write_on()

    def close(self) -> None:
        """The connection is closed: nothing is sent any more, and what slots are filled with goes nowhere."""
        self.responses.clear()
        self.output.clear()
        self._resume_pushing = None
