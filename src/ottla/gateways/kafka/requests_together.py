"""Produce requests that arrive together and are served as one: those of many connections in a turn, or of one pipeline.

What is not a plain Produce to one partition, and what is alone, goes the way it always goes; so does everything of a
client that has a quota, has proved who it is, or whose requests are held back.

Where records are committed when they are written, and this broker has the only replica, such requests are written and
answered at once, also one that is alone: nobody has to remember it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.model.principal import ANONYMOUS
from ottla.native import ProduceRun
from ottla.network.connection import Connection
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.produce import WriteRun
    from ottla.gateways.kafka.api import Api, HandleRun
    from ottla.gateways.kafka.gateway import KafkaConnection, KafkaGateway
    from ottla.network.together import Arrival

_log = logging.getLogger(__name__)

FindRun: TypeAlias = "Callable[[memoryview, int, int, int, int], ProduceRun | None]"
"""A run in what one connection sent, as `ProduceRun.leading` and `ProduceRun.whole` find one."""


class RequestsTogether:
    """See `ottla.network.together.Together`."""

    __slots__ = ("_frame_bytes_max", "_gateway", "_handle", "_write_run", "_writes_here")

    def __init__(
        self, gateway: "KafkaGateway", frame_bytes_max: int, *, writes_here: Callable[[], bool] | None = None
    ) -> None:
        """`writes_here`: whether records can be written before a request is answered, as far as is known without a look
        at it; None where a producer may be answered only when they are on disk.
        """
        self._gateway = gateway
        self._frame_bytes_max = frame_bytes_max
        self._handle: HandleRun | None = None
        self._write_run: WriteRun | None = None
        self._writes_here = writes_here

    def take(self, received: "list[Arrival]", buffer: ReceiveBuffer) -> "list[Arrival]":
        """Serve runs of requests of many connections."""
        handle = self._handle or self._find_handle()
        if handle is None or self._gateway.quotas is not None:
            return received
        runs, left = ProduceRun.gather(buffer.view, received, self._frame_bytes_max)
        for run in runs:
            owners = run.owners
            try:
                plain = [
                    each
                    for owner in owners
                    if (each := owner.handler).held_back is None
                    and each.principal is ANONYMOUS
                    and not each.waiting_fetches
                ]
                if len(plain) != len(owners):
                    left += run.arrivals
                elif self._writes_at_once(plain, run):
                    continue
                elif not run.size or not handle(plain, run, buffer):
                    left += run.arrivals
            except Exception:
                _log.exception("requests could not be served as one; their connections are closed")
                for connection in owners:
                    connection.close("a request failed inside the broker")
            left += run.refused
        return left

    def take_leading(self, connection: Connection, buffer: ReceiveBuffer, begin: int, end: int, count_max: int) -> int:
        """Serve the run of requests at the front of what one connection sent."""
        return self._take_of_one(ProduceRun.leading, connection, buffer, begin, end, count_max)

    def take_whole(self, connection: Connection, buffer: ReceiveBuffer, begin: int, end: int, count_max: int) -> int:
        """Serve all that one connection sent as a run."""
        return self._take_of_one(ProduceRun.whole, connection, buffer, begin, end, count_max)

    def _take_of_one(
        self,
        find: "FindRun",
        connection: Connection,
        buffer: ReceiveBuffer,
        begin: int,
        end: int,
        count_max: int,
    ) -> int:
        handle, handler = self._handle or self._find_handle(), connection.handler
        if handle is None or self._gateway.quotas is not None or not _is_plain(handler):
            return begin
        run = find(buffer.view, begin, end, self._frame_bytes_max, count_max)
        return run.end if run is not None and handle((handler,), run, buffer) else begin

    def take_at_once(
        self, connection: Connection, buffer: ReceiveBuffer, begin: int, end: int, count_max: int
    ) -> tuple[int, bytes] | None:
        """Serve all that one connection sent, where the append is over at once."""
        writes_here = self._writes_here
        handler: Any = connection.handler
        if (
            writes_here is None
            or not writes_here()
            or self._gateway.quotas is not None
            or handler.held_back is not None
            or handler.principal is not ANONYMOUS
            or handler.waiting_fetches
        ):
            return None
        run = ProduceRun.whole(buffer.view, begin, end, self._frame_bytes_max, count_max)
        if run is None:
            return None
        write_run = self._write_run or self._find_write_run()
        info = None if write_run is None else write_run(handler.principal, run)
        if info is None:
            return None
        return len(run), run.answer(info.first_offset, info.log_append_time_ms, info.log_start_offset)

    def _writes_at_once(self, connections: "Sequence[KafkaConnection]", run: ProduceRun) -> bool:
        """Serve a run of many connections and answer it, where the append is over at once. False, and nothing has
        happened, where it is not; then `run` may have given its batches away, and is of no use.
        """
        writes_here = self._writes_here
        if writes_here is None or not writes_here():
            return False
        write_run = self._write_run or self._find_write_run()
        info = None if write_run is None else write_run(connections[0].principal, run)
        if info is None:
            return False
        answers = run.answers(info.first_offset, info.log_append_time_ms, info.log_start_offset)
        for connection, answer in zip(connections, answers, strict=True):
            connection.connection.responses.answer_next(answer)
        return True

    def _find_handle(self) -> "HandleRun | None":
        api = self._find_api()
        self._handle = None if api is None else api.handle_run
        return self._handle

    def _find_write_run(self) -> "WriteRun | None":
        self._write_run = None if self._find_api() is None else self._gateway.broker.produce.write_run
        return self._write_run

    def _find_api(self) -> "Api | None":
        api = self._gateway.apis.find(ApiKey.PRODUCE)
        serves_all = api is not None and api.serves(ProduceRun.FIRST_VERSION) and api.serves(ProduceRun.LAST_VERSION)
        return api if serves_all else None


def _is_plain(connection: Any) -> bool:
    """Whether requests of this connection of the door are served as those of most others.

    A Fetch that waits is answered before what comes behind it is served, and that one by one.
    """
    return connection.held_back is None and connection.principal is ANONYMOUS and not connection.waiting_fetches
