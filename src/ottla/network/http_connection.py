"""HTTP/1.1 for a gateway: whole requests in, answers out, one after the other on each connection (RFC 9112).

What is HTTP is read and written by h11. A request has to be there within a time, whatever the pace of its bytes, and
has a largest size; a client that sends more while it waits for an answer is closed. The rest of a body that is refused
is received and dropped: to hang up on a client that still sends resets the connection, and it may never see the answer
(RFC 9112, section 9.6).

No web page is served, so a page that asks for a change is a stranger's, in the browser of somebody who can reach this
port: what comes with an `Origin` and is neither GET nor HEAD is refused.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from http.client import responses
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

import h11
from msgspec import Struct, field

from ottla.network.byte_budget import ByteBudget

if TYPE_CHECKING:
    import asyncio

    from ottla.network.connection import Connection
    from ottla.network.receive_buffer import ReceiveBuffer
    from ottla.network.response_queue import ResponseSlot
    from ottla.runtime.tasks import Tasks
    from ottla.runtime.timer import Timer
    from ottla.runtime.timing_wheel import TimerTask

HEAD_BYTES_MAX: Final = 16 * 1024
"""The request line and the headers; longer ones are refused."""
AHEAD_BYTES_MAX: Final = 64 * 1024
"""What a client may send before its last request is answered."""
REQUEST_MS: Final = 30_000
"""How long a request may take to arrive."""
IDLE_MS: Final = 75_000
"""How long a connection may have nothing to do."""
UNFINISHED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of bodies that have not arrived to their end, of all connections of a listener."""
REFUSED_MS: Final = 10_000
"""For how long the rest of a body that is refused is received, unless all of it has come or the client hangs up."""
REFUSED_BYTES_MAX: Final = 256 * 1024 * 1024
"""How much of it is received."""
JSON_TYPE: Final = "application/json; charset=utf-8"
TEXT_TYPE: Final = "text/plain; charset=utf-8"
_FIELDS_MAX: Final = 100
_READING: Final = frozenset({b"GET", b"HEAD"})
_REASONS: Final[Mapping[int, str]] = responses


class HttpRequest(Struct, frozen=True):
    """A request. `query` has the first value of each name."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    connection: "Connection | None" = None
    """Where it came from."""


class HttpResponse(Struct, frozen=True):
    """An answer."""

    status: int = 200
    body: bytes = b""
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpService(Struct, frozen=True):
    """What a listener for HTTP asks: an answer to each request, and what to say of requests that cannot be read.

    `answer` must not raise; `refuse` makes the answer for a status, the reason and the
    path, which is empty where it is not known. `limit` is the largest body of a path.
    """

    answer: Callable[[HttpRequest], Awaitable[HttpResponse]]
    refuse: Callable[[int, str, str], HttpResponse]
    limit: Callable[[str], int]
    timer: "Timer"
    tasks: "Tasks"
    unfinished: ByteBudget = field(default_factory=lambda: ByteBudget(UNFINISHED_BYTES_MAX))
    """Of bodies that have not arrived to their end."""


def json_response(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """An answer with a JSON document."""
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    return HttpResponse(status, body, JSON_TYPE, headers or {})


class HttpConnection:
    """Belongs to the event loop. A handler of `ottla.network.connection`."""

    def __init__(self, service: HttpService, connection: "Connection") -> None:
        self._service = service
        self._connection = connection
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._request: h11.Request | None = None
        self._path = ""
        self._body = bytearray()
        self._body_max = 0
        self._body_length: int | None = 0
        """As the client said; None where it did not."""
        self._refused_left: int | None = None
        """Of a body that is refused the bytes that may still come."""
        self._held_bytes = 0
        self._answering: asyncio.Task[None] | None = None
        self._deadline: TimerTask | None = None

    def on_frame(self, data: memoryview, buffer: "ReceiveBuffer", slot: "ResponseSlot") -> None:
        """Bytes have arrived."""
        slot.send(())
        if self._refused_left is not None:
            before, self._refused_left = self._refused_left, self._refused_left - len(data)
            if self._refused_left <= 0 < before:
                self._end()
            return
        try:
            self._http.receive_data(bytes(data))
            self._go_on()
            if self._answering is not None and len(self._http.trailing_data[0]) > AHEAD_BYTES_MAX:
                self._connection.close("it sends more than may wait for the answer to its request")
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, "the request is no HTTP/1.1")

    def on_end_of_input(self) -> None:
        """The client sends nothing more; a request that is whole is answered."""
        if self._answering is None:
            self._connection.drain()

    def on_close(self) -> None:
        """The connection is gone."""
        self._set_deadline(None)
        self._forget_body()
        if self._answering is not None:
            self._answering.cancel()

    def _go_on(self) -> None:
        while self._answering is None and self._refused_left is None:
            if self._deadline is None and self._http.trailing_data[0]:
                self._set_deadline(REQUEST_MS)
            event = self._http.next_event()
            match event:
                case h11.Request():
                    self._begin(event)
                case h11.Data():
                    self._body += event.data
                    held, self._held_bytes = self._held_bytes, len(self._body)
                    if not self._service.unfinished.move(held, self._held_bytes):
                        self._refuse_body(503, "too many bytes of unfinished requests are held")
                        return
                    if len(self._body) > self._body_max:
                        self._refuse_body(413, "the body is too large")
                        return
                case h11.EndOfMessage():
                    self._set_deadline(None)
                    self._answering = self._service.tasks.spawn(self._answer(), "http")
                    return
                case h11.ConnectionClosed():
                    return
                case _:  # NEED_DATA, PAUSED
                    if self._http.they_are_waiting_for_100_continue:
                        self._send(h11.InformationalResponse(status_code=100, headers=[]))
                    return

    def _begin(self, request: h11.Request) -> None:
        self._request = request
        self._forget_body()
        self._path = _path_of(request)
        self._body_max = self._service.limit(self._path)
        names = dict(request.headers)
        if b"transfer-encoding" in names and b"content-length" in names:
            # Whoever is between the client and here may believe the other one (RFC 9112, section 6.3).
            raise h11.RemoteProtocolError("both Transfer-Encoding and Content-Length")
        self._body_length = None if b"transfer-encoding" in names else int(names.get(b"content-length", b"0")[:19])
        if b"origin" in names and request.method not in _READING:
            self._refuse_body(403, "a web page asks for a change")
            return
        if self._body_length is not None and self._body_length > self._body_max:
            self._refuse_body(413, "the body is too large")

    async def _answer(self) -> None:
        request = self._request
        assert request is not None
        try:
            url = urlsplit(request.target.decode("latin-1"))
            fields = parse_qs(url.query, keep_blank_values=True, max_num_fields=_FIELDS_MAX)
        except ValueError:
            self._refuse(400, "the target of the request is no path")
            return
        query = {name: values[0] for name, values in fields.items()}
        asked = HttpRequest(request.method.decode("latin-1"), url.path, query, bytes(self._body), self._connection)
        self._forget_body()
        self._respond(await self._service.answer(asked))
        self._answering = None
        if self._connection.is_closed:
            return
        if self._http.our_state is h11.MUST_CLOSE:
            self._connection.drain()
            return
        try:
            self._http.start_next_cycle()
            self._request = None
            self._go_on()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, "the request is no HTTP/1.1")

    def _forget_body(self) -> None:
        self._service.unfinished.move(self._held_bytes, 0)
        self._held_bytes = 0
        self._body.clear()

    def _refuse(self, status: int, why: str) -> None:
        """Answer a request that is not read to its end, and close."""
        self._tell(status, why)
        self._end()

    def _refuse_body(self, status: int, why: str) -> None:
        """Answer a request whose body is not wanted, and close when no more of it is on its way."""
        if self._http.they_are_waiting_for_100_continue:
            self._refuse(status, why)
            return
        came = len(self._body) + len(self._http.trailing_data[0])
        self._tell(status, why)
        self._forget_body()
        left = REFUSED_BYTES_MAX if self._body_length is None else self._body_length - came
        self._refused_left = min(left, REFUSED_BYTES_MAX)
        if self._refused_left > 0:
            self._set_deadline(REFUSED_MS)
        else:
            self._end()

    def _tell(self, status: int, why: str) -> None:
        self._set_deadline(None)
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._respond(self._service.refuse(status, why, self._path), ends=True)
        self._connection.complain(why)

    def _end(self) -> None:
        self._set_deadline(None)
        self._connection.drain()

    def _respond(self, response: HttpResponse, *, ends: bool = False) -> None:
        headers = [*response.headers.items(), ("Content-Length", str(len(response.body)))]
        if response.content_type:
            headers.append(("Content-Type", response.content_type))
        if ends:
            headers.append(("Connection", "close"))
        head = h11.Response(status_code=response.status, headers=headers, reason=_REASONS.get(response.status, ""))
        if self._request is not None and self._request.method == b"HEAD":
            self._send(head, h11.EndOfMessage())
        else:
            self._send(head, h11.Data(data=response.body), h11.EndOfMessage())

    def _send(self, *events: h11.Event) -> None:
        data = b"".join(self._http.send(event) or b"" for event in events)
        self._connection.push((data,), lambda: None)

    def _set_deadline(self, after_ms: int | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if after_ms is None else self._service.timer.schedule(after_ms, self._on_late)

    def _on_late(self) -> None:
        self._deadline = None
        if self._refused_left is not None:
            self._end()
            return
        self._refuse(408, f"its request took more than {REQUEST_MS} ms")


def _path_of(request: h11.Request) -> str:
    """The path of a request; nothing where its target has none."""
    try:
        return urlsplit(request.target.decode("latin-1")).path
    except ValueError:
        return ""
