"""Produce requests that arrive together and are served as one: those of many connections in a turn, or of one pipeline.

What is not a plain Produce to one partition, and what is alone, goes the way it always goes; so does everything of a
client whose requests are held back.

A run is of one principal, which is authorized for it. Where a quota applies to a client, its runs are of this client
alone, and counted once; the way of other clients is the same as without quotas.

Where records are committed when they are written, and this broker has the only replica, such requests are written and
answered at once, also one that is alone: nobody has to remember it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.native import ProduceRun
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.together import Requester
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frame import client_id_of, raw_client_id

if TYPE_CHECKING:
    from ottla.broker.produce import WriteRun
    from ottla.broker.request_quotas import RunCharge
    from ottla.gateways.kafka.api import Api, HandleRun
    from ottla.gateways.kafka.gateway import KafkaConnection, KafkaGateway
    from ottla.model.principal import Principal
    from ottla.network.together import Arrival

_log = logging.getLogger(__name__)

Client: TypeAlias = "tuple[Principal, str | None]"
"""Whose requests are served as one. The client id is there where a quota applies to the client."""

_LENGTH_BYTES: Final = 4


class ServedTogether:
    """How many requests were served as one with others, and in how many runs. The numbers only grow."""

    __slots__ = ("requests", "requests_at_once", "runs", "runs_at_once")

    def __init__(self) -> None:
        self.runs = self.requests = 0
        self.runs_at_once = self.requests_at_once = 0
        """Those of them that were written and answered at once."""

    def add(self, requests: int, *, at_once: bool = False) -> None:
        """A run of so many was served."""
        self.runs += 1
        self.requests += requests
        if at_once:
            self.runs_at_once += 1
            self.requests_at_once += requests


class RequestBatcher:
    """See `ottla.network.together.Together`."""

    __slots__ = ("_frame_bytes_max", "_gateway", "_handle", "_write_run", "_writes_here", "counts")

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
        self.counts = ServedTogether()

    def take(self, received: "list[Arrival]", buffer: ReceiveBuffer) -> "list[Arrival]":
        """Serve runs of requests of many connections, each run of one principal."""
        handle = self._handle or self._find_handle()
        if handle is None:
            return received
        left: list[Arrival] = []
        for (principal, client_id), arrivals in self._by_client(received, buffer, left).items():
            runs, rest = ProduceRun.gather(buffer.view, arrivals, self._frame_bytes_max)
            left += rest
            for run in runs:
                owners = run.owners
                try:
                    connections = [owner.handler for owner in owners]
                    charge = None
                    if client_id is None and self._writes_at_once(connections, run):
                        self.counts.add(len(run), at_once=True)
                        continue
                    if client_id is not None:
                        size = sum(end - begin for _, begin, end in run.arrivals)
                        charge = self._charge(principal, client_id, size)
                    if not run.size or not handle(connections, run, buffer, charge):
                        left += run.arrivals
                    else:
                        self.counts.add(len(run))
                except Exception:
                    _log.exception("could not serve requests that arrived together; their connections are closed")
                    for connection in owners:
                        connection.close("a request failed inside the broker")
                left += run.refused
        return left

    def _by_client(
        self, received: "list[Arrival]", buffer: ReceiveBuffer, left: "list[Arrival]"
    ) -> "dict[Client, list[Arrival]]":
        """What may be served as one: by principal, and by client id where a quota applies to the client. The rest is
        added to `left`.
        """
        quotas, view = self._gateway.quotas, buffer.view
        by_host = self._gateway.keeps_hosts and self._gateway.broker.authorizer.by_host
        by_client: dict[Client, list[Arrival]] = {}
        latest: Principal | None = None
        of_latest: list[Arrival] = []
        for arrival in received:
            handler: Any = arrival[0].handler
            if not _is_clear(handler):
                left.append(arrival)
                continue
            principal = handler.principal
            if quotas is not None:
                client_id = client_id_of(raw_client_id(view, arrival[1]))
                if quotas.binds(principal, client_id):
                    by_client.setdefault((principal, client_id), []).append(arrival)
                    continue
            who = handler.who if principal.host and not by_host else principal
            if who is not latest:
                latest, of_latest = who, by_client.setdefault((who, None), [])
            of_latest.append(arrival)
        return by_client

    def take_of_one(
        self, connection: Requester, buffer: ReceiveBuffer, begin: int, end: int, count_max: int, *, is_whole: bool
    ) -> int:
        """Serve the run of requests at the front of what one connection sent; with `is_whole` all that it sent."""
        handler: Any = connection.handler
        handle = self._handle or self._find_handle()
        if handle is None or not _is_clear(handler):
            return begin
        find = ProduceRun.whole if is_whole else ProduceRun.leading
        run = find(buffer.view, begin, end, self._frame_bytes_max, count_max)
        if run is None:
            return begin
        charge = None
        if self._gateway.quotas is not None:
            raw = raw_client_id(buffer.view, begin)
            if not _is_of_one_client(buffer.view, begin, run.end, raw):
                return begin
            charge = self._charge(handler.principal, client_id_of(raw), run.end - begin)
        if not handle((handler,), run, buffer, charge):
            return begin
        self.counts.add(len(run))
        return run.end

    def take_at_once(
        self, connection: Requester, buffer: ReceiveBuffer, begin: int, end: int, count_max: int
    ) -> tuple[int, bytes] | None:
        """Serve all that one connection sent, where the append is over at once."""
        handler: Any = connection.handler
        writes_here = self._writes_here
        if writes_here is None or not writes_here() or not _is_clear(handler):
            return None
        run = ProduceRun.whole(buffer.view, begin, end, self._frame_bytes_max, count_max)
        if run is None:
            return None
        principal, quotas = handler.principal, self._gateway.quotas
        if quotas is not None:
            raw = raw_client_id(buffer.view, begin)
            if quotas.binds(principal, client_id_of(raw)) or not _is_of_one_client(buffer.view, begin, end, raw):
                return None
        write_run = self._write_run or self._find_write_run()
        info = None if write_run is None else write_run(principal, run)
        if info is None:
            return None
        self.counts.add(len(run), at_once=True)
        return len(run), run.answer(info.first_offset, info.log_append_time_ms, info.log_start_offset)

    def _charge(self, principal: "Principal", client_id: str, size_bytes: int) -> "RunCharge | None":
        quotas = self._gateway.quotas
        return None if quotas is None else quotas.begin_run(principal, client_id, size_bytes)

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


def _is_clear(connection: Any) -> bool:
    """Whether nothing that this connection of the gateway asked for before has to be answered or handled first, and the
    client has logged in where it has to.

    A Fetch that waits is answered before what comes behind it is served, and that one by one.
    """
    return connection.pending_requests is None and not connection.waiting_fetches and not connection.must_log_in


def _is_of_one_client(view: memoryview, begin: int, end: int, raw_id: bytes) -> bool:
    """Whether all requests that lie there, one behind the other, have the client id that the first has."""
    while begin < end:
        if raw_client_id(view, begin) != raw_id:
            return False
        begin += _LENGTH_BYTES + int.from_bytes(view[begin : begin + _LENGTH_BYTES], "big")
    return True
