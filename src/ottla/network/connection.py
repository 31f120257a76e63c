"""One connection: frames in, responses out in order, and neither side overrun.

A connection is driven by its socket, not by a task: the event loop calls it when there is something to read or room to
write. Within a turn of the loop it receives once, hands the frames to its handler, and sends what became ready with one
call. Responses that become ready elsewhere in the turn leave together at its end.

It stops reading
- while too many requests are unanswered, or too many bytes of responses not taken by the peer; it goes on at half;
- while there is no memory for requests (`ottla.network.request_memory`);
- for good when it drains.
"""

import errno
import logging
import socket
from collections.abc import Sequence

from ottla.model.errors import InvalidInputError
from ottla.network.address import Address
from ottla.network.connection_handler import ConnectionHandler
from ottla.network.connection_services import ConnectionServices
from ottla.network.frame_reader import FrameReader
from ottla.network.idle_watch import IdleWatch
from ottla.network.output_queue import OutputQueue, ReadAhead
from ottla.network.response_queue import Part, ResponseQueue, ResponseSlot
from ottla.network.socket_watch import SocketWatch

__all__ = ["Connection", "ResponseSlot"]

logger = logging.getLogger(__name__)

_LOST = frozenset(
    {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}
)
"""How the operating system says that the peer or the way to it is gone, which is no news."""


class Connection:
    """A client's connection. Belongs to the event loop."""

    __slots__ = (
        "_handler",
        "_idle",
        "_is_draining",
        "_is_flush_scheduled",
        "_is_paused",
        "_is_pumping",
        "_output",
        "_reader",
        "_responses",
        "_services",
        "_socket",
        "_watch",
        "is_closed",
        "local",
        "peer",
    )

    def __init__(self, sock: socket.socket, peer: Address, services: ConnectionServices, read_ahead: ReadAhead) -> None:
        self._socket = sock
        self._services = services
        self._reader = FrameReader(services.memory, self, services.config.socket_request_max_bytes)
        self._responses = ResponseQueue(self)
        self._output = OutputQueue(read_ahead)
        self._handler: ConnectionHandler | None = None
        self._is_paused = False
        self._is_draining = False
        self._is_pumping = False
        self._is_flush_scheduled = False
        self._watch = SocketWatch(services.loop, sock.fileno(), self._on_readable, self._on_writable)
        self._idle = IdleWatch(
            services.clock,
            services.timer,
            services.config.connections_max_idle_ms,
            is_peers_turn=self._is_peers_turn,
            on_idle=self._on_idle,
        )
        self.is_closed = False
        self.peer = peer
        """Where the client is."""
        self.local = Address.of(sock.getsockname())
        """The address by which the client reached us."""

    def __repr__(self) -> str:
        return f"<Connection {self.peer} to {self.listener_name} at {self.local}>"

    @property
    def listener_name(self) -> str:
        """The name of the listener that accepted it."""
        return self._services.listener_name

    @property
    def in_flight_count(self) -> int:
        """Requests whose response has not left the queue."""
        return len(self._responses)

    @property
    def pending_bytes(self) -> int:
        """Bytes of responses in memory that the socket has not taken, or that wait for an earlier one."""
        return self._output.memory_bytes + self._responses.held_bytes

    @property
    def moved_ms(self) -> int:
        """When something was received or sent last, by the monotonic clock."""
        return self._idle.moved_ms

    @property
    def is_reading(self) -> bool:
        """Whether it waits for requests: not closed, draining, paused or out of memory."""
        return self._watch.is_reading

    def start(self, handler: ConnectionHandler) -> None:
        """Begin to read; `handler` gets the frames."""
        self._handler = handler
        self._idle.start()
        self._watch.read(True)

    def close(self, reason: str = "") -> None:
        """Close now. Unsent responses are dropped. A reason is logged with the peer's address, within limits."""
        if self.is_closed:
            return
        self.is_closed = True
        if reason:
            self._services.throttle.warning("closed the connection of %s to %s: %s", self.peer, self.local, reason)
        self._watch.close()
        self._socket.close()
        self._idle.close()
        self._responses.clear()
        self._services.metrics.out_bytes -= self._output.memory_bytes
        self._output.clear()
        self._reader.close()
        handler, self._handler = self._handler, None
        self._services.on_closed(self)
        if handler is not None:
            try:
                handler.on_close()
            except Exception:
                logger.exception("the handler of %r failed to close", self)

    def fail(self, reason: str) -> None:
        """A request cannot be answered: send the answers before its own, if the peer takes them now, and close."""
        if self.is_closed:
            return
        if not self._watch.is_writing:
            self._write()
        self.close(reason)

    def complain(self, what: str) -> None:
        """Log what the peer did wrong, with its address and within limits; the connection goes on."""
        self._services.throttle.warning("%s to %s: %s", self.peer, self.local, what)

    def drain(self) -> None:
        """Read no more; close when every request that was read is answered and every response sent."""
        if self.is_closed or self._is_draining:
            return
        self._is_draining = True
        self._watch.read(False)
        self._schedule_flush()

    # The socket has something to read.

    def _on_readable(self) -> None:
        try:
            self._receive()
        except Exception:
            self._break()

    def _receive(self) -> None:
        reader = self._reader
        window = reader.window()
        if window is None:
            self._watch.read(False)
            return
        try:
            count = self._socket.recv_into(window)
        except (BlockingIOError, InterruptedError):
            reader.settle()
            return
        except OSError as error:
            self._lose(error)
            return
        if not count:
            self.close()
            return
        self._services.metrics.bytes_in += count
        if not self._output:
            self._idle.moved()
        reader.received(count)
        self._pump()

    def resume_for_memory(self) -> None:
        """There may be memory for requests again."""
        if self.is_closed or self._is_draining or self._is_paused:
            return
        self._watch.read(True)
        self._idle.moved()
        self._on_readable()

    def close_for_memory(self, stalled_ms: int) -> None:
        """Others need the memory of the request that the peer does not complete."""
        if self._watch.is_reading:
            self.close(f"it sent nothing of the rest of its request for {stalled_ms} ms while others waited for memory")

    # Frames to the handler, responses to the socket.

    def _pump(self) -> None:
        """Hand out the frames that have arrived and send what is ready, until neither is to be had."""
        self._is_pumping = True
        cork = self._services.cork
        try:
            while True:
                cork.cork()
                goes_on = self._dispatch()
                cork.uncork()
                if not goes_on:
                    break
                self._write()
                if self.is_closed or not self._is_paused or not self._may_go_on():
                    break
                self._is_paused = False
        finally:
            self._is_pumping = False
        if self.is_closed:
            return
        self._reader.settle(is_paused=self._is_paused)
        if self._is_draining:
            self._close_if_drained()
        elif self._is_paused is self._watch.is_reading:
            self._watch.read(not self._is_paused)

    def _dispatch(self) -> bool:
        """Frames to the handler, until there is none or the connection is paused. False when it is closed."""
        reader, responses, output, handler = self._reader, self._responses, self._output, self._handler
        config, metrics = self._services.config, self._services.metrics
        hard_max, in_flight_max = config.out_bytes_hard_max, config.in_flight_requests_max
        try:
            while not self._is_draining and (frame := reader.next_frame()) is not None:
                if metrics.out_bytes > hard_max:
                    self._services.shed()
                    if self.is_closed:
                        return False
                metrics.requests += 1
                lease = reader.buffer
                assert lease is not None
                assert handler is not None
                handler.on_frame(frame, lease, responses.open())
                if self.is_closed:
                    return False
                pending_bytes = output.memory_bytes + responses.held_bytes
                if len(responses.answers) >= in_flight_max or (pending_bytes and pending_bytes > self._out_max()):
                    self._is_paused = True
                    break
        except InvalidInputError as error:
            self.fail(str(error))
        except Exception:
            logger.exception("the handler of %r failed; the connection is closed", self)
            self.fail("")
        return not self.is_closed

    def on_response(self, parts: Sequence[Part]) -> None:
        self._services.metrics.out_bytes += self._output.push(parts)
        if not self._is_pumping:
            self._schedule_flush()

    def on_held(self, by: int) -> None:
        self._services.metrics.out_bytes += by

    def on_abandoned(self) -> None:
        """A request will never be answered, and no later one could be."""
        self._services.loop.call_soon_threadsafe(self.fail, "a request was given up without an answer")

    def _schedule_flush(self) -> None:
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._services.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        if self.is_closed:
            return
        try:
            if not self._watch.is_writing:
                self._write()
            self._after_write()
        except Exception:
            self._break()

    def _on_writable(self) -> None:
        try:
            self._write()
            self._after_write()
        except Exception:
            self._break()

    def _after_write(self) -> None:
        if self.is_closed:
            return
        if self._is_paused and self._may_go_on():
            self._is_paused = False
            self._pump()
        else:
            self._close_if_drained()

    def on_read_ahead(self) -> None:
        """The slice of a file that was asked for is in the page cache now."""
        self._output.resume()
        if not self.is_closed:
            self._on_writable()

    def _write(self) -> None:
        output = self._output
        if not output:
            self._watch.write(False)
            return
        if not output.is_waiting_for_disk:
            metrics = self._services.metrics
            sent_before, memory_before = output.sent_bytes, output.memory_bytes
            lost: OSError | None = None
            try:
                output.write_to(self._socket)
            except OSError as error:
                # Its traceback would keep this frame, and the responses in it, until the garbage collector comes by.
                lost = error.with_traceback(None)
            metrics.bytes_out += output.sent_bytes - sent_before
            metrics.out_bytes += output.memory_bytes - memory_before
            if lost is not None:
                self._lose(lost)
                return
            if output.sent_bytes != sent_before:
                self._idle.moved()
        if output and not output.is_waiting_for_disk:
            self._watch.write(True)
        else:
            self._watch.write(False)

    # Back-pressure.

    def _out_max(self) -> int:
        config = self._services.config
        if self._services.metrics.out_bytes > config.out_bytes_total_max:
            return config.out_bytes_max // 16
        return config.out_bytes_max

    def _may_go_on(self) -> bool:
        if len(self._responses.answers) > self._services.config.in_flight_requests_max // 2:
            return False
        return self.pending_bytes <= self._out_max() // 2

    def _close_if_drained(self) -> None:
        if self._is_draining and not self._responses.answers and not self._output:
            self.close()

    # The end.

    def _break(self) -> None:
        logger.exception("%r failed and is closed", self)
        self.close()

    def _lose(self, error: OSError) -> None:
        self.close("" if error.errno in _LOST else error.strerror or str(error))

    def _is_peers_turn(self) -> bool:
        """Whether to wait for the peer, to send or to read, and not for a handler, for memory or for the disk."""
        if self._output:
            return not self._output.is_waiting_for_disk
        return self._watch.is_reading and not self._responses.answers

    def _on_idle(self) -> None:
        self.close("it did not read its responses" if self._output else "")
