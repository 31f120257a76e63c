"""What a connection receives: bytes, cut into frames, handed to its handler.

    received together with others --> on_received, hand_out --> frames --> handler     nothing is left of a request
    received by itself -----------> window, received -------> frames --> handler       large, or incomplete

Frames are handed out while the connection is open. It is told when it stops: too much is unanswered or not taken by the
peer (`ottla.network.flow_control`), there is no memory (`ottla.network.request_memory`), or the peer sends no more.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final, Protocol

from ottla.model.errors import InvalidInputError
from ottla.network.connection_state import ENDING, Event, State
from ottla.network.receive_buffer import SMALLEST
from ottla.network.response_queue import ResponseSlot
from ottla.network.together import Requester

if TYPE_CHECKING:
    from ottla.network.connection_services import ConnectionServices
    from ottla.network.idle_watch import IdleWatch
    from ottla.network.receive_buffer import ReceiveBuffer
    from ottla.network.response_sender import ResponseSender
    from ottla.network.socket_watch import SocketWatch
    from ottla.network.together import Arrival, Together
    from ottla.network.transport import Transport

logger = logging.getLogger(__name__)

_OPEN: Final = State.OPEN
_PAUSED: Final = State.PAUSED
_STARVED: Final = State.STARVED
_CLOSED: Final = State.CLOSED

_DISCARD_BYTES: Final = 64 * 1024
_DISCARDS_MAX: Final = 64
"""How often bytes are taken to be discarded: more than a client of the usual limits has on its way."""


class Life(Requester, Protocol):
    """The connection, as far as who receives for it goes. None of these raises."""

    state: State

    @property
    def is_closed(self) -> bool:
        """Whether it is gone."""
        ...

    def move(self, event: Event) -> None:
        """Something happened that says whether to read."""
        ...

    def on_end_of_input(self) -> None:
        """The peer sends nothing more, and all it asked for has been handed out."""
        ...

    def fail_at(self, number: int, reason: str) -> None:
        """The request of this number is never answered."""
        ...

    def lose(self, error: OSError) -> None:
        """The peer, or the way to it, is gone."""
        ...

    def break_off(self) -> None:
        """A mistake of ours has been raised, and is being handled."""
        ...


class RequestReceiver:
    """The receiving side of one connection."""

    __slots__ = ("_idle", "_life", "_reader", "_sender", "_services", "_transport", "_watch")

    def __init__(
        self,
        life: Life,
        transport: Transport,
        watch: SocketWatch,
        idle: IdleWatch,
        sender: ResponseSender,
        services: ConnectionServices,
    ) -> None:
        self._life = life
        self._transport = transport
        self._watch = watch
        self._idle = idle
        self._sender = sender
        self._services = services
        self._reader = services.framing(services.memory, self, services.config.socket_request_max_bytes)

    def limit_frames(self, max_bytes: int | None, setting: str = "socket.request.max.bytes") -> None:
        """No request may be larger from now on, which the setting says; None for the limit of the listener."""
        self._reader.limit(self._services.config.socket_request_max_bytes if max_bytes is None else max_bytes, setting)

    # Received together with what others sent.

    @staticmethod
    def clear_of(received: list[Arrival], now_ms: int) -> list[Arrival]:
        """Of what was received now that which need not wait for anything that its connection asked for before: it may
        be served together (`ottla.network.together`).
        """
        clear = []
        for arrival in received:
            receiver = arrival[0].receiver
            sender = receiver._sender
            if receiver._life.state is _OPEN and not sender.responses.answers and not sender.output.parts:
                receiver._idle.moved_ms = now_ms
                clear.append(arrival)
        return clear

    def on_received(self, buffer: ReceiveBuffer, begin: int, end: int, now_ms: int, *, is_only: bool) -> bool:
        """These bytes of a shared buffer were received for it; serve them, if that is over before this returns. False
        where they are to be handed out, by `hand_out`.

        The answer waits to be sent with those of others. With `is_only` there are no others in this turn.
        """
        life = self._life
        try:
            state = life.state
            if state in ENDING or state is _CLOSED:  # since they were received
                return True
            services, sender = self._services, self._sender
            metrics, together = services.metrics, services.together
            metrics.bytes_in += end - begin
            if sender.output.parts:
                return False
            self._idle.moved_ms = now_ms
            responses = sender.responses
            if (
                together is None
                or state is not _OPEN
                or responses.answers
                or end - begin >= SMALLEST
                or metrics.out_bytes > services.flow.out_bytes_hard_max
            ):
                return False
            served = together.take_at_once(life, buffer, begin, end, services.flow.in_flight_max)
            if served is None:
                return False
            count, answer = served
            metrics.requests += count
            responses.first = responses.next = responses.next + count
            if is_only:
                sender.answer_now(answer)
            else:
                sender.on_answer(answer)
        except Exception:
            life.break_off()
        return True

    def hand_out(self, buffer: ReceiveBuffer, begin: int, end: int, *, is_alone: bool = False) -> None:
        """Hand the requests in what was received to the handler, one by one or in runs. With `is_alone` nobody else has
        sent anything in this turn.
        """
        life = self._life
        try:
            reader = self._reader
            if life.state is _OPEN and end - begin < SMALLEST:
                begin = self._take_whole(buffer, begin, end, is_alone)
                if begin == end:
                    return
            frame = reader.only_frame(buffer, begin, end) if life.state is _OPEN else None
            if frame is None:
                reader.adopt(buffer, begin, end)
                if self._dispatch():
                    self.settle()
            elif self._dispatch(frame, buffer) and life.state is not _OPEN:
                self.settle()
        except Exception:
            life.break_off()

    def on_lost(self, number: int) -> None:
        """The socket could not be received from, for the reason that the system gives this number."""
        self._life.lose(OSError(number, os.strerror(number)))

    def receive_to_share(self, window: memoryview) -> int:
        """Receive a part of a shared buffer, to be handed out with what others sent, where the reactor cannot do that
        itself; how many bytes. 0 where nothing comes, or where it has to receive by itself.
        """
        transport = self._transport
        watch = self._watch
        if watch.receives or self._life.state is not _OPEN or not watch.is_reading or not self._reader.is_at_rest:
            return 0  # among them who was looked at by the reactor, and is at its end
        try:
            count = transport.recv_into(window)
        except OSError:  # which is met again, and looked at there
            return 0
        if count and transport.has_input:
            self._services.loop.call_soon(self._on_more_input)
        return count

    # Received by itself.

    def on_readable(self) -> None:
        """There is something to receive, or the peer is gone, unless that was seen before the watch was turned off."""
        if self._watch.is_reading:
            self._receive()

    def _receive(self) -> None:
        life = self._life
        try:
            reader, sender = self._reader, self._sender
            window = reader.window()
            if window is None:
                life.move(Event.NO_MEMORY)
                self._watch.read(False)
                return
            try:
                count = self._transport.recv_into(window)
            except (BlockingIOError, InterruptedError):
                reader.trim()
                if sender.output.parts or self._transport.has_output:  # a handshake may have gone on
                    sender.write()
                return
            except OSError as error:
                life.lose(error)
                return
            if not count:
                assert len(window), "nothing received into no room is not the peer's end"
                life.on_end_of_input()
                return
            self._services.metrics.bytes_in += count
            if not sender.output.parts:
                self._idle.moved()
            reader.received(count)
            self.pump()
        except Exception:
            life.break_off()

    def _on_more_input(self) -> None:
        if self._life.state is _OPEN:
            self._receive()

    def resume_for_memory(self) -> None:
        """There may be memory for requests again."""
        if self._life.state is _STARVED:
            self._life.move(Event.MEMORY)
            self._watch.read(True)
            self._idle.moved()
            self._receive()

    def close_for_memory(self, stalled_ms: int) -> None:
        """Others need the memory of the request that the peer does not complete."""
        if self._life.state is _OPEN:
            self._life.close(
                f"it sent nothing of the rest of its request for {stalled_ms} ms while others waited for memory"
            )

    # Frames to the handler.

    def pump(self) -> None:
        """Hand out the frames that have arrived and send what is ready, until neither is to be had."""
        life, sender, cork = self._life, self._sender, self._services.cork
        sender.gather()
        try:
            while True:
                cork.cork()
                lives = self._dispatch()
                cork.uncork()
                if not lives or not sender.write():
                    return
                if life.state is not _PAUSED or not sender.is_low:
                    break
                life.move(Event.LOW_WATER)
        finally:
            sender.gathered()
        self.settle()
        if life.state is _OPEN and self._transport.has_input:
            self._services.loop.call_soon(self._on_more_input)
        if sender.is_pushing or life.state in ENDING:
            sender.after_write()

    def settle(self) -> None:
        """No more frames are taken for now: keep what has to be kept, and have the socket read if more may come."""
        is_open, reader, watch = self._life.state is _OPEN, self._reader, self._watch
        reader.trim(is_paused=not is_open)
        if is_open is not watch.is_reading:
            watch.read(is_open)
        if self._transport.is_plain:
            watch.receive(reader.is_at_rest)

    def _dispatch(self, frame: memoryview | None = None, buffer: ReceiveBuffer | None = None) -> bool:
        """Frames to the handler, until there is none or the connection is no longer open. False when it is closed.

        With `frame` it is that one, found already in `buffer`, and no other.
        """
        life, reader, sender, services = self._life, self._reader, self._sender, self._services
        responses, output, handler = sender.responses, sender.output, life.handler
        metrics, flow, together = services.metrics, services.flow, services.together
        hard_max, in_flight_max, out_bytes_min = flow.out_bytes_hard_max, flow.in_flight_max, flow.out_bytes_min
        is_only = frame is not None
        assert handler is not None
        try:
            while life.state is _OPEN:
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
                    services.shed()
                    if life.is_closed:
                        return False
                metrics.requests += 1
                assert buffer is not None
                handler.on_frame(frame, buffer, ResponseSlot(responses))
                frame = None
                in_flight, pending_bytes = len(responses.answers), output.memory_bytes + output.held_bytes
                if (
                    (in_flight >= in_flight_max or pending_bytes > out_bytes_min)  # or it cannot be full: no call
                    and life.state is _OPEN
                    and flow.is_full(in_flight, pending_bytes, metrics.out_bytes)
                ):
                    life.move(Event.HIGH_WATER)
                if is_only:
                    break
        except InvalidInputError as error:
            life.fail_at(responses.next if frame is None else responses.next - 1, str(error))
        except Exception:
            logger.exception("the handler of %r failed; the connection is closed", life)
            life.fail_at(responses.next if frame is None else responses.next - 1, "")
        return life.state is not _CLOSED

    def _take_whole(self, buffer: ReceiveBuffer, begin: int, end: int, is_alone: bool) -> int:
        """Have all that was received served as one run; returns where what is to be handed out begins."""
        life, sender, services = self._life, self._sender, self._services
        responses, together, in_flight_max = sender.responses, services.together, services.flow.in_flight_max
        if (
            together is None
            or sender.output.memory_bytes
            or sender.output.held_bytes  # so much that it stops may come of each of them
            or services.metrics.out_bytes > services.flow.out_bytes_hard_max
        ):
            return begin
        before = responses.next
        if is_alone:
            services.cork.flush_now()
        count_max = in_flight_max - len(responses.answers)
        taken_to = together.take_of_one(life, buffer, begin, end, count_max, is_whole=True)
        if is_alone and taken_to != end:
            services.cork.cork()
        self._count_taken(before)
        if life.state is _CLOSED:
            return end
        if taken_to == end and life.state is not _OPEN:
            self.settle()
        return taken_to

    def _take_together(self, together: Together) -> bool:
        """Have the requests at the front served as one. False where they have to be taken one by one."""
        reader, sender, responses = self._reader, self._sender, self._sender.responses
        buffer, (begin, end) = reader.buffer, reader.unparsed
        assert buffer is not None
        if sender.output.memory_bytes or sender.output.held_bytes:  # so much that it stops may come of each of them
            return False
        before, count_max = responses.next, self._services.flow.in_flight_max - len(responses.answers)
        taken_to = together.take_of_one(self._life, buffer, begin, end, count_max, is_whole=False)
        if taken_to == begin:
            return False
        reader.taken(taken_to)
        self._count_taken(before)
        return True

    def _count_taken(self, before: int) -> None:
        """Requests were served as one, of which the first had this number; there may be as many as are allowed now."""
        responses, services = self._sender.responses, self._services
        services.metrics.requests += responses.next - before
        if len(responses.answers) >= services.flow.in_flight_max and self._life.state is _OPEN:
            self._life.move(Event.HIGH_WATER)

    # The end.

    def stop(self) -> None:
        """The peer sends nothing more: give back what is not needed. What was handed out keeps its bytes."""
        self._watch.read(False)
        self._reader.trim()

    def close(self) -> None:
        """Give everything back; nothing more is cut or handed out."""
        self._reader.close()

    def discard_input(self) -> None:
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
