"""One connection: frames in, responses out in order, and neither side overrun.

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
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.model.errors import InvalidInputError
from ottla.network.address import Address
from ottla.network.connection_handler import ConnectionHandler
from ottla.network.connection_services import ConnectionServices
from ottla.network.connection_state import ENDING, Event, State, next_state
from ottla.network.idle_watch import IdleWatch
from ottla.network.output_queue import OutputQueue
from ottla.network.receive_buffer import SMALLEST, ReceiveBuffer
from ottla.network.response_queue import Part, ResponseQueue, ResponseSlot
from ottla.network.together import Together
from ottla.network.transport import Transport
from ottla.runtime.file_slice import FileSlice
from ottla.runtime.timing_wheel import TimerTask

if TYPE_CHECKING:
    from ottla.network.together import Arrival

__all__ = ["Connection", "ResponseSlot"]

logger = logging.getLogger(__name__)

_LOST = frozenset(
    {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}
)
"""How the operating system says that the peer or the way to it is gone, which is no news."""

_DISCARD_BYTES = 64 * 1024
_DISCARDS_MAX = 64
"""How often bytes are taken to be discarded: more than a client of the usual limits has on its way."""


_OPEN: Final = State.OPEN
_PAUSED: Final = State.PAUSED
_STARVED: Final = State.STARVED
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
        "_is_flush_due",
        "_muted_until_ms",
        "_output",
        "_reader",
        "_resume_pushing",
        "_resume_unmuted",
        "_services",
        "_transport",
        "_unmuting",
        "_watch",
        "fd",
        "handler",
        "local",
        "peer",
        "responses",
        "state",
    )

    def __init__(self, transport: Transport, local: Address, peer: Address, services: ConnectionServices) -> None:
        self._transport = transport
        self._services = services
        self._reader = services.framing(services.memory, self, services.config.socket_request_max_bytes)
        self.responses = ResponseQueue(self)
        """Its answers, in the order of its requests."""
        self._output = OutputQueue(self._wait_for_disk, services.on_found)
        self.handler: ConnectionHandler | None = None
        """Who takes its requests, from its start to its end."""
        self._failure: str | None = None  # why it ends, if a request of it has failed
        self._is_flush_due = False  # what is pushed to the output will be written in this turn without further ado
        self._resume_pushing: Callable[[], None] | None = None
        self._muted_until_ms = 0
        self._unmuting: TimerTask | None = None
        self._resume_unmuted: Callable[[], None] | None = None
        self.fd = transport.fileno()
        """The number of its socket, while it is open."""
        self._watch = services.sockets.watch(self.fd, self, is_plain=transport.is_plain)
        self._idle = IdleWatch(
            services.clock,
            services.timer,
            services.config.connections_max_idle_ms,
            is_peers_turn=self._is_peers_turn,
            on_idle=self._on_idle,
        )
        self.state = State.NEW
        """What it does about requests."""
        self.peer = peer
        """Where the client is."""
        self.local = local
        """The address by which the client reached us."""

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
        return self._output.memory_bytes + self.responses.held_bytes

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
        self._move(Event.START)
        self._watch.read(True)

    def push(self, parts: Sequence[Part], resume: Callable[[], None]) -> bool:
        """Send what nobody asked for, one part after the other, behind the answers that are ready.

        False when enough waits for the peer: `resume` is called once when it has taken half of that, and until then
        nothing more is to be pushed. A connection that is ending or closed takes nothing and calls nothing.
        """
        if self.state in ENDING or self.state is _CLOSED:
            return False
        services = self._services
        self.on_response(parts)
        if services.metrics.out_bytes > services.flow.out_bytes_hard_max:
            services.shed()
        if self.pending_bytes <= services.flow.out_max(services.metrics.out_bytes):
            return True
        self._resume_pushing = resume
        return False

    def complain(self, what: str) -> None:
        """Log what the peer did wrong, with its address and within limits; the connection goes on."""
        self._services.throttle.warning("%s to %s: %s", self.peer, self.local, what)

    # The end.

    def drain(self) -> None:
        """Read no more; close when every request that was handed out is answered and every response sent."""
        if self.state is _CLOSED:
            return
        self._move(Event.DRAIN)
        self._watch.read(False)
        if self._resume_unmuted is not None:  # what was handed out is answered before the end
            self._services.loop.call_soon(self._resume_handler)
        self._schedule_flush()

    def fail(self, reason: str, slot: ResponseSlot | None = None) -> None:
        """The request of `slot` cannot be answered, or without one what comes next is none: answer those before it and
        close.

        Nothing more is read, and what those behind it are answered with goes nowhere. What comes before is waited for
        like the answers of a peer that sends nothing more: no longer than the idle time. The reason is logged with
        the peer's address, within limits.
        """
        self._fail_at(self.responses.next if slot is None else slot.number, reason)

    def _fail_at(self, number: int, reason: str) -> None:
        if self.state is _CLOSED or number >= self.responses.end:
            return
        is_first, handler = self._failure is None and self.state is not _HALF_CLOSED, self.handler
        self._failure = reason
        self.responses.cut(number)
        self._reader.close()
        self._idle.moved()
        self.drain()
        try:
            if is_first and handler is not None:
                handler.on_end_of_input()
            if not self.responses.answers and not self.is_closed:
                if not self._watch.is_writing:
                    self._write()
                self._end_if_done()
        except Exception:
            self._break()

    def close(self, reason: str = "") -> None:
        """Close now. Unsent responses are dropped. A reason is logged with the peer's address, within limits."""
        if self.state is _CLOSED:
            return
        self._move(Event.CLOSE)
        reason = reason or self._failure or ""
        if reason:
            self._services.throttle.warning("closed the connection of %s to %s: %s", self.peer, self.local, reason)
        self._watch.close()
        self._transport.close()
        self._idle.close()
        if self._unmuting is not None:
            self._unmuting.cancel()
            self._unmuting = None
        self._resume_unmuted = None
        self.responses.clear()
        self._services.metrics.out_bytes -= self._output.memory_bytes
        self._output.clear()
        self._reader.close()
        self._resume_pushing = None
        handler, self.handler = self.handler, None
        self._services.on_closed(self)
        if handler is not None:
            try:
                handler.on_close()
            except Exception:
                logger.exception("the handler of %r failed to close", self)

    def _break(self) -> None:
        logger.exception("%r failed and is closed", self)
        self.close()

    def _lose(self, error: OSError) -> None:
        self.close("" if error.errno in _LOST else error.strerror or str(error))

    def _end_if_done(self) -> None:
        if self.state in ENDING and not self.responses.answers and not self._output.parts:
            if self.state is not _HALF_CLOSED:
                self._discard_input()
            self.close()

    def _discard_input(self) -> None:
        """Take from the socket what will not be served.

        To close a socket that holds unread bytes resets the connection, and a client that hears of the reset may drop
        the answers it has received and not looked at.
        """
        window = memoryview(bytearray(_DISCARD_BYTES))
        try:
            for _ in range(_DISCARDS_MAX):
                if not self._transport.recv_into(window):
                    return
        except OSError:  # nothing more, or the way is lost already
            return

    def _move(self, event: Event) -> None:
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
            self._move(Event.MUTE)
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
        self._move(Event.UNMUTE)
        self._idle.moved()
        try:
            self._resume_handler()
            self._read_again()
        except Exception:
            self._break()

    def _read_again(self) -> None:
        """It was muted; what waited for the end of that may have had it muted again, or closed."""
        if self.state is _OPEN and self._is_full():
            self._move(Event.HIGH_WATER)
        if self.state is not _CLOSED:
            self._pump()

    def _resume_handler(self) -> None:
        resume, self._resume_unmuted = self._resume_unmuted, None
        if resume is not None:
            resume()

    # The socket has something to read.

    @staticmethod
    def clear_of(received: "list[Arrival]", now_ms: int) -> "list[Arrival]":
        """Of what was received now that which need not wait for anything that its connection asked for before: it may
        be served together (`ottla.network.together`).
        """
        clear = []
        for arrival in received:
            connection = arrival[0]
            if connection.state is _OPEN and not connection.responses.answers and not connection._output.parts:
                connection._idle.moved_ms = now_ms
                clear.append(arrival)
        return clear

    def on_received(self, buffer: ReceiveBuffer, begin: int, end: int, now_ms: int, *, is_only: bool) -> bool:
        """These bytes of a shared buffer were received for it; serve them, if that is over before this returns. False
        where they are to be handed out, by `hand_out`.

        The answer waits to be sent with those of others. With `is_only` there are no others in this turn.
        """
        try:
            if self.state in ENDING or self.state is _CLOSED:  # since they were received
                return True
            services = self._services
            metrics, together = services.metrics, services.together
            metrics.bytes_in += end - begin
            if self._output.parts:
                return False
            self._idle.moved_ms = now_ms
            responses = self.responses
            if (
                together is None
                or self.state is not _OPEN
                or responses.answers
                or end - begin >= SMALLEST
                or metrics.out_bytes > services.flow.out_bytes_hard_max
            ):
                return False
            served = together.take_at_once(self, buffer, begin, end, services.flow.in_flight_max)
            if served is None:
                return False
            count, answer = served
            metrics.requests += count
            responses.first = responses.next = responses.next + count
            if is_only and self._transport.is_plain and self._resume_pushing is None:
                self._send_now(answer)
            else:
                self.on_answer(answer)
        except Exception:
            self._break()
        return True

    def hand_out(self, buffer: ReceiveBuffer, begin: int, end: int, *, is_alone: bool = False) -> None:
        """Hand the requests in what was received to the handler, one by one or in runs. With `is_alone` nobody else has
        sent anything in this turn.
        """
        try:
            reader = self._reader
            if self.state is _OPEN and end - begin < SMALLEST:
                begin = self._take_whole(buffer, begin, end, is_alone)
                if begin == end:
                    return
            frame = reader.only_frame(buffer, begin, end) if self.state is _OPEN else None
            if frame is None:
                reader.adopt(buffer, begin, end)
                if self._dispatch():
                    self._settle()
            elif self._dispatch(frame, buffer) and self.state is not _OPEN:
                self._settle()
        except Exception:
            self._break()

    def on_lost(self, number: int) -> None:
        """The socket could not be received from, for the reason that the system gives this number."""
        self._lose(OSError(number, os.strerror(number)))

    def on_readable(self) -> None:
        """There is something to receive, or the peer is gone, unless that was seen before the watch was turned off."""
        if self._watch.is_reading:
            self._receive()

    def _receive(self) -> None:
        try:
            reader = self._reader
            window = reader.window()
            if window is None:
                self._move(Event.NO_MEMORY)
                self._watch.read(False)
                return
            try:
                count = self._transport.recv_into(window)
            except (BlockingIOError, InterruptedError):
                reader.trim()
                if self._output.parts or self._transport.has_output:  # a handshake may have gone on
                    self._write()
                return
            except OSError as error:
                self._lose(error)
                return
            if not count:
                assert len(window), "nothing received into no room is not the peer's end"
                self._end_input()
                return
            self._services.metrics.bytes_in += count
            if not self._output.parts:
                self._idle.moved()
            reader.received(count)
            self._pump()
        except Exception:
            self._break()

    def _on_more_input(self) -> None:
        if self.state is _OPEN:
            self._receive()

    def _end_input(self) -> None:
        """The peer sends nothing more. All it asked for has been handed out, and is answered before the end."""
        if not self.responses.answers and not self._output.parts:
            self.close()
            return
        self._move(Event.PEER_FINISHED)
        self._watch.read(False)
        self._reader.trim()
        assert self.handler is not None
        self.handler.on_end_of_input()
        self._end_if_done()

    def resume_for_memory(self) -> None:
        """There may be memory for requests again."""
        if self.state is _STARVED:
            self._move(Event.MEMORY)
            self._watch.read(True)
            self._idle.moved()
            self._receive()

    def close_for_memory(self, stalled_ms: int) -> None:
        """Others need the memory of the request that the peer does not complete."""
        if self.state is _OPEN:
            self.close(f"it sent nothing of the rest of its request for {stalled_ms} ms while others waited for memory")

    # Frames to the handler, responses to the socket.

    def _pump(self) -> None:
        """Hand out the frames that have arrived and send what is ready, until neither is to be had."""
        self._is_flush_due = True
        cork = self._services.cork
        try:
            while True:
                cork.cork()
                lives = self._dispatch()
                cork.uncork()
                if not lives or not self._write():
                    return
                if self.state is not _PAUSED or not self._is_low():
                    break
                self._move(Event.LOW_WATER)
        finally:
            self._is_flush_due = False
        self._settle()
        if self.state is _OPEN and self._transport.has_input:
            self._services.loop.call_soon(self._on_more_input)
        if self._resume_pushing is not None or self.state in ENDING:
            self._after_write()

    def _settle(self) -> None:
        """No more frames are taken for now: keep what has to be kept, and have the socket read if more may come."""
        is_open, reader, watch = self.state is _OPEN, self._reader, self._watch
        reader.trim(is_paused=not is_open)
        if is_open is not watch.is_reading:
            watch.read(is_open)
        if self._transport.is_plain:
            watch.receive(reader.is_at_rest)

    def _dispatch(self, frame: memoryview | None = None, buffer: ReceiveBuffer | None = None) -> bool:
        """Frames to the handler, until there is none or the connection is no longer open. False when it is closed.

        With `frame` it is that one, found already in `buffer`, and no other.
        """
        reader, responses, output, handler = self._reader, self.responses, self._output, self.handler
        metrics, flow, together = self._services.metrics, self._services.flow, self._services.together
        hard_max, in_flight_max, out_bytes_min = flow.out_bytes_hard_max, flow.in_flight_max, flow.out_bytes_min
        is_only = frame is not None
        assert handler is not None
        try:
            while self.state is _OPEN:
                if frame is None:
                    if together is not None and reader.has_several:
                        if metrics.out_bytes <= hard_max and self._take_together(together):
                            continue
                        together = None
                    frame = reader.next_frame()
                    if frame is None:
                        break
                    buffer = reader.buffer
                if metrics.out_bytes > hard_max:
                    self._services.shed()
                    if self.is_closed:
                        return False
                metrics.requests += 1
                assert buffer is not None
                handler.on_frame(frame, buffer, ResponseSlot(responses))
                frame = None
                in_flight, pending_bytes = len(responses.answers), output.memory_bytes + responses.held_bytes
                if (
                    (in_flight >= in_flight_max or pending_bytes > out_bytes_min)  # or it cannot be full: no call
                    and self.state is _OPEN
                    and flow.is_full(in_flight, pending_bytes, metrics.out_bytes)
                ):
                    self._move(Event.HIGH_WATER)
                if is_only:
                    break
        except InvalidInputError as error:
            self._fail_at(responses.next if frame is None else responses.next - 1, str(error))
        except Exception:
            logger.exception("the handler of %r failed; the connection is closed", self)
            self._fail_at(responses.next if frame is None else responses.next - 1, "")
        return self.state is not _CLOSED

    def _take_whole(self, buffer: ReceiveBuffer, begin: int, end: int, is_alone: bool) -> int:
        """Have all that was received served as one run; returns where what is to be handed out begins."""
        responses, services = self.responses, self._services
        together, in_flight_max, before = services.together, services.flow.in_flight_max, responses.next
        if (
            together is None
            or self._output.parts
            or responses.held_bytes  # so much that it stops may come of each of them
            or services.metrics.out_bytes > services.flow.out_bytes_hard_max
        ):
            return begin
        if is_alone:
            services.cork.hurry()
        taken_to = together.take_whole(self, buffer, begin, end, in_flight_max - len(responses.answers))
        if is_alone and taken_to != end:
            services.cork.cork()
        services.metrics.requests += responses.next - before
        if len(responses.answers) >= in_flight_max and self.state is _OPEN:
            self._move(Event.HIGH_WATER)
        if self.state is _CLOSED:
            return end
        if taken_to == end and self.state is not _OPEN:
            self._settle()
        return taken_to

    def _take_together(self, together: Together) -> bool:
        """Have the requests at the front served as one. False where they have to be taken one by one."""
        reader, responses, services = self._reader, self.responses, self._services
        buffer, (begin, end) = reader.buffer, reader.unparsed
        in_flight_max = services.flow.in_flight_max
        assert buffer is not None
        if self._output.parts or responses.held_bytes:  # so much that it stops may come of each of them
            return False
        before, count_max = responses.next, in_flight_max - len(responses.answers)
        taken_to = together.take_leading(self, buffer, begin, end, count_max)
        if taken_to == begin:
            return False
        reader.taken(taken_to)
        services.metrics.requests += responses.next - before
        if len(responses.answers) >= in_flight_max and self.state is _OPEN:
            self._move(Event.HIGH_WATER)
        return True

    def on_response(self, parts: Sequence[Part]) -> None:
        """Send this as soon as may be."""
        self._services.metrics.out_bytes += self._output.push(parts)
        if not self._is_flush_due:
            self._schedule_flush()

    def on_answer(self, answer: bytes) -> None:
        """`on_response` of nothing but bytes, and some."""
        output, services, size = self._output, self._services, len(answer)
        output.parts.append(answer)
        output.memory_bytes += size
        services.metrics.out_bytes += size
        if not self._is_flush_due:
            self._is_flush_due = True
            sockets = services.sockets
            if sockets.is_turning:
                sockets.unsent[self] = None
            else:
                sockets.flush_soon(self)

    def on_held(self, by: int) -> None:
        """Answers that wait for an earlier one take more or fewer bytes."""
        self._services.metrics.out_bytes += by

    def on_abandoned(self, number: int) -> None:
        """A request will never be answered, and no later one could be."""
        self._services.loop.call_soon_threadsafe(self._fail_at, number, "a request was given up without an answer")

    def _schedule_flush(self) -> None:
        self._is_flush_due = True
        self._services.sockets.flush_soon(self)

    @staticmethod
    def sendable_of(
        connections: "Iterable[Connection]",
    ) -> "tuple[list[Connection], list[int], list[list[Part]], list[Connection]]":
        """Those that have something to send, and room in their sockets; the numbers of these, and what goes to each;
        and the others.
        """
        sending, sockets, outputs, rest = [], [], [], []
        for connection in connections:
            parts = connection._output.parts
            if parts and connection._transport.is_plain and not connection._watch.is_writing:
                sending.append(connection)
                sockets.append(connection.fd)
                outputs.append(parts)
            else:
                rest.append(connection)
        return sending, sockets, outputs, rest

    @staticmethod
    def on_sent(sending: "list[Connection]", short: dict[int, int], now_ms: int) -> "list[Connection]":
        """What was sendable has been sent: of each its whole output, or as many bytes as `short` says of its index.
        Those are returned that have something left to do, which `flush` does.
        """
        rest, all_bytes, metrics = [], 0, sending[0]._services.metrics
        for index, connection in enumerate(sending):
            output = connection._output
            sent_bytes = output.memory_bytes
            is_short = index in short
            if is_short:
                output.sent(short[index])
                sent_bytes -= output.memory_bytes
            else:
                output.sent_bytes += sent_bytes
                output.memory_bytes = 0
                output.parts.clear()
            if sent_bytes:
                all_bytes += sent_bytes
                connection._idle.moved_ms = now_ms
            if is_short or connection.state is not _OPEN or connection._resume_pushing is not None:
                rest.append(connection)
            else:
                connection._is_flush_due = False
        metrics.bytes_out += all_bytes
        metrics.out_bytes -= all_bytes
        return rest

    def flush(self) -> None:
        """Send what is ready, and go on or end, if that allows it."""
        self._is_flush_due = False
        state = self.state
        if state is _CLOSED:
            return
        try:
            if not self._watch.is_writing:
                if state is _OPEN and self._resume_pushing is None and self._send_only():
                    return
                self._write()
            self._after_write()
        except Exception:
            self._break()

    def _send_only(self) -> bool:
        """Send the answer to one small request, where that is all there is. False where more is to be done."""
        output, transport = self._output, self._transport
        parts = output.parts
        if len(parts) != 1 or parts[0].__class__ is not bytes or not transport.is_plain:
            return False
        answer = parts[0]
        try:
            sent = transport.send(answer)
        except OSError:  # which is met once more, and looked at there
            return False
        services = self._services
        metrics = services.metrics
        if sent == len(answer):
            parts.clear()
            output.memory_bytes -= sent
            output.sent_bytes += sent
        else:
            output.sent(sent)
        metrics.bytes_out += sent
        metrics.out_bytes -= sent
        self._idle.moved_ms = services.clock.monotonic_ms()
        return not parts

    def _send_now(self, answer: bytes) -> None:
        """Send an answer, before which there is nothing to send and behind which nothing comes in this turn."""
        try:
            sent = self._transport.send(answer)
        except OSError:  # which is met once more, and looked at there
            sent = 0
        self._services.metrics.bytes_out += sent
        self._output.sent_bytes += sent
        if sent < len(answer):
            self.on_answer(answer[sent:])

    def on_writable(self) -> None:
        """There is room to send, or the peer is gone, unless that was seen before the watch was turned off."""
        if self._watch.is_writing:
            self._write_on()

    def _write_on(self) -> None:
        try:
            self._write()
            self._after_write()
        except Exception:
            self._break()

    def _after_write(self) -> None:
        """What the peer has taken may let a connection go on, or end."""
        if self._resume_pushing is not None and self._is_low():
            resume, self._resume_pushing = self._resume_pushing, None
            resume()
        if self.state is _PAUSED and self._is_low():
            self._move(Event.LOW_WATER)
            self._pump()
        else:
            self._end_if_done()

    def _is_full(self) -> bool:
        services = self._services
        return services.flow.is_full(len(self.responses.answers), self.pending_bytes, services.metrics.out_bytes)

    def _is_low(self) -> bool:
        services = self._services
        return services.flow.is_low(len(self.responses.answers), self.pending_bytes, services.metrics.out_bytes)

    def _wait_for_disk(self, piece: FileSlice) -> None:
        self._services.wait_for_disk(self, piece)

    def on_read_ahead(self) -> None:
        """The slice of a file that was asked for is in the page cache now."""
        self._output.resume()
        if self.state is not _CLOSED:
            self._write_on()

    def _write(self) -> bool:
        """Send what the peer takes. False when it is gone, and the connection closed."""
        output, transport = self._output, self._transport
        if (output.parts and not output.is_waiting_for_disk) or transport.has_output:
            metrics = self._services.metrics
            sent_before, memory_before = output.sent_bytes, output.memory_bytes
            lost: OSError | None = None
            try:
                if transport.has_output:
                    transport.flush()
                output.write_to(transport)
            except OSError as error:
                # Its traceback would keep this frame, and the responses in it, until the garbage collector comes by.
                lost = error.with_traceback(None)
            metrics.bytes_out += output.sent_bytes - sent_before
            metrics.out_bytes += output.memory_bytes - memory_before
            if lost is not None:
                self._lose(lost)
                return False
            if output.sent_bytes != sent_before:
                self._idle.moved()
        if (output.parts and transport.is_ready and not output.is_waiting_for_disk) or transport.has_output:
            self._watch.write(True)
        elif self._watch.is_writing:
            self._watch.write(False)
        return True

    # Time.

    def _is_peers_turn(self) -> bool:
        """Whether to wait for the peer, to send or to read, and not for a handler, for memory or for the disk.

        A peer that has finished may be gone for good: an answer it waits for longer than the idle time is not awaited.
        Nor is one that only stands before the end of a connection that has failed.
        """
        if self._output.parts:
            return not self._output.is_waiting_for_disk
        if self.state is _HALF_CLOSED or self._failure is not None:
            return True
        return self.state is _OPEN and not self.responses.answers

    def _on_idle(self) -> None:
        self.close("it did not read its responses" if self._output.parts else "")
