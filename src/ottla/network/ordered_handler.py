"""Requests of one connection in their order, where some are tasks and others are handled at once (docs/design/0002).

    arrive    A (a task)    B    C (a task)    D
    now       A runs        B, C and D are held back, as bytes
    A ends    B is handled, C runs             D is held back

A task is admitted by its bytes (`ottla.network.task_gate`) before it is decoded: decoded it would take many times its
bytes for as long as it waits.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

from ottla.network.connection import Connection
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.response_queue import ResponseSlot
from ottla.network.task_gate import TaskGate
from ottla.runtime.tasks import Tasks

HeldBack: TypeAlias = tuple[memoryview, ReceiveBuffer, ResponseSlot]
"""A request that is not decoded yet."""


class OrderedHandler(ABC):
    """A `ConnectionHandler` for a gateway whose requests may be tasks.

    A subclass asks in `on_frame` whether `pending_requests` is None, first of all, and calls `hold_back` if not. It
    calls `run_task` for a request that is one, and `drop_held_back` in `on_close`.
    """

    __slots__ = ("connection", "pending_requests")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pending_requests: deque[HeldBack] | None = None
        """The requests behind one that is a task; None while there is no such task."""

    @abstractmethod
    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        """As `ConnectionHandler` says."""

    @abstractmethod
    def fail(self, error: Exception, slot: ResponseSlot) -> None:
        """A request could not be handled to its end: say why, and end the connection behind those before it."""

    def hold_back(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        """A request has arrived behind a task."""
        assert self.pending_requests is not None
        buffer.retain()
        self.pending_requests.append((frame, buffer, slot))

    def run_task(
        self,
        request: HeldBack,
        work: Callable[[], Coroutine[Any, Any, None]],
        gate: TaskGate,
        tasks: Tasks,
        *,
        starts_eagerly: bool = False,
        after_responses: bool = False,
    ) -> None:
        """Have a request handled by a task, made by `work` once the gate admits the request; it answers, by the slot.

        `starts_eagerly`: its first step is done at once, and there is no task where that is all. `after_responses`: it
        begins when the requests before it are answered. What it raises is given to `fail`.
        """
        self.pending_requests = deque()
        frame, buffer, slot = request
        buffer.retain()
        size = len(frame)
        start = partial(self._start, work, gate, tasks, starts_eagerly, size, buffer, slot)
        if after_responses:
            slot.when_first(partial(gate.admit, size, start))
        else:
            gate.admit(size, start)

    def drop_held_back(self) -> None:
        """The connection is gone."""
        while self.pending_requests:
            _, buffer, _ = self.pending_requests.popleft()
            buffer.release()

    def _start(
        self,
        work: Callable[[], Coroutine[Any, Any, None]],
        gate: TaskGate,
        tasks: Tasks,
        starts_eagerly: bool,
        size: int,
        buffer: ReceiveBuffer,
        slot: ResponseSlot,
    ) -> None:
        """The gate has let a request in: it runs as a task, or at once as far as it has not to wait."""
        if slot.is_void:
            self._finish(gate, size, buffer)
            return
        run = self._run(work(), gate, size, buffer, slot)
        if starts_eagerly:
            tasks.begin(run, "request")
        else:
            tasks.spawn(run, "request")

    async def _run(
        self, work: Coroutine[Any, Any, None], gate: TaskGate, size: int, buffer: ReceiveBuffer, slot: ResponseSlot
    ) -> None:
        try:
            await work
        except Exception as error:
            self.fail(error, slot)
        finally:
            self._finish(gate, size, buffer)

    def _finish(self, gate: TaskGate, size: int, buffer: ReceiveBuffer) -> None:
        """A task is done, and no longer holds back those behind it."""
        buffer.release()
        gate.leave(size)
        if self.pending_requests and self.connection.is_muted:
            self.connection.when_unmuted(self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Nothing holds back those behind any more."""
        pending_requests, self.pending_requests = self.pending_requests, None
        if pending_requests:
            self._resume(pending_requests)

    def _resume(self, pending_requests: deque[HeldBack]) -> None:
        """Handle those held back, up to the next that is a task."""
        while pending_requests:
            frame, buffer, slot = pending_requests.popleft()
            try:
                if not slot.is_void:
                    self.on_frame(frame, buffer, slot)
            except Exception as error:
                self.fail(error, slot)
            finally:
                buffer.release()
            if self.pending_requests is not None:
                self.pending_requests = pending_requests
                return
            if pending_requests and self.connection.is_muted:
                self.pending_requests = pending_requests
                self.connection.when_unmuted(self._go_on)
                return
