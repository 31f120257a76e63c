"""HTTP requests in whatever pieces they come, one answer after the other, and clients that behave badly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from ottla.network.http_connection import (
    AHEAD_BYTES_MAX,
    HEAD_BYTES_MAX,
    REFUSED_BYTES_MAX,
    REFUSED_MS,
    REQUEST_MS,
    HttpConnection,
    HttpRequest,
    HttpResponse,
    HttpService,
    json_response,
)
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer

BODY_MAX = 1_000


class Peer:
    """The client's side: what it was sent, and whether it was hung up on."""

    def __init__(self, timer: ManualTimer, tasks: Tasks) -> None:
        self.sent = b""
        self.is_closed = False
        self.is_draining = False
        self.asked: list[HttpRequest] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        service = HttpService(self._answer, self._refuse, lambda path: BODY_MAX, timer, tasks)
        self.handler = HttpConnection(service, cast("Any", self))

    def push(self, parts: Any, resume: Any) -> bool:
        self.sent += b"".join(parts)
        return True

    def drain(self) -> None:
        self.is_draining = True

    def close(self, reason: str = "") -> None:
        self.is_closed = True
        self.handler.on_close()

    def complain(self, what: str) -> None:
        pass

    def send(self, parts: tuple[()]) -> None:
        """As a slot."""

    async def say(self, data: bytes, size: int = 1 << 20) -> bytes:
        """Send in pieces; what has been answered since."""
        before = len(self.sent)
        for start in range(0, len(data), size):
            if not self.is_draining:
                self.handler.on_frame(memoryview(data[start : start + size]), cast("Any", None), cast("Any", self))
        for _ in range(20):
            await asyncio.sleep(0)
        return self.sent[before:]

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(request)
        await self.may_answer.wait()
        return json_response({"path": request.path})

    def _refuse(self, status: int, why: str, path: str) -> HttpResponse:
        return json_response({"message": why}, status)


@asynccontextmanager
async def peer() -> AsyncIterator[tuple[Peer, ManualTimer]]:
    tasks, timer = Tasks(), ManualTimer()
    try:
        yield Peer(timer, tasks), timer
    finally:
        await tasks.close()


POST = b"POST /a/b?x=1&y=%20&x=2 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"


async def test_requests_are_read_in_whatever_pieces_and_answered_in_order() -> None:
    for size in (1, 7, 1 << 20):
        async with peer() as (client, timer):
            answer = await client.say(POST + b"GET /second HTTP/1.1\r\nHost: h\r\n\r\n", size)
            assert [(each.method, each.path, dict(each.query), each.body) for each in client.asked] == [
                ("POST", "/a/b", {"x": "1", "y": " "}, b"hello"),
                ("GET", "/second", {}, b""),
            ]
            assert answer.count(b"HTTP/1.1 200 OK\r\n") == 2
            assert answer.index(b'{"path":"/a/b"}') < answer.index(b'{"path":"/second"}')
            assert not client.is_draining, "the connection is kept"
            timer.advance(10 * REQUEST_MS)
            assert not client.is_draining, "it owes nothing"


async def test_a_chunked_body_and_one_that_waits_to_be_asked_for_are_read() -> None:
    async with peer() as (client, _):
        head = b"POST / HTTP/1.1\r\nHost: h\r\n"
        await client.say(head + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        answer = await client.say(head + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 100 ")
        await client.say(b"hi")
        assert [each.body for each in client.asked] == [b"abcde", b"hi"]


async def test_a_web_page_may_look_and_change_nothing() -> None:
    for origin in (b"https://evil.example", b"http://h", b"null"):
        async with peer() as (client, _):
            answer = await client.say(POST.replace(b"Host: h", b"Host: h\r\nOrigin: " + origin))
            assert answer.startswith(b"HTTP/1.1 403 ")
            assert client.asked == []
            assert client.is_draining
        async with peer() as (client, _):
            answer = await client.say(b"GET /stats HTTP/1.1\r\nHost: h\r\nOrigin: " + origin + b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"access-control" not in answer.lower()


async def test_the_answer_to_head_has_no_body_and_the_next_one_has() -> None:
    async with peer() as (client, _):
        answer = await client.say(b"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n")
        assert b"Content-Length: 13\r\n" in answer
        assert answer.endswith(b"\r\n\r\n")
        assert (await client.say(POST)).endswith(b'{"path":"/a/b"}')
        assert (await client.say(b"no HTTP\r\n\r\n")).endswith(b"}"), "what is refused has one"


async def test_a_body_that_is_too_large_is_refused_before_it_is_there() -> None:
    for sent in (
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001,
    ):
        async with peer() as (client, _):
            answer = await client.say(sent)
            assert answer.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 ")), answer
            assert not client.asked


async def test_the_rest_of_a_body_that_is_refused_is_received_so_that_its_client_sees_the_answer() -> None:
    head = b"POST / HTTP/1.1\r\nHost: h\r\n"
    async with peer() as (client, _):
        answer = await client.say(head + b"Content-Length: 1001\r\n\r\n" + b"x" * 400)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert await client.say(b"x" * 600) == b""
        assert not client.is_draining
        assert await client.say(b"x") == b""
        assert client.is_draining, "all of it has come"
    async with peer() as (client, timer):
        await client.say(head + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001)
        assert await client.say(b"x" * 5_000) == b""
        timer.advance(REFUSED_MS - 1)
        assert not client.is_draining
        timer.advance(1)
        assert client.is_draining, "it has had its time"
    async with peer() as (client, _):
        await client.say(head + b"Content-Length: 99999999999999999999\r\n\r\n")
        piece = b"x" * (1 << 20)
        for _ in range(REFUSED_BYTES_MAX >> 20):
            assert not client.is_draining
            client.handler.on_frame(memoryview(piece), cast("Any", None), cast("Any", client))
        assert client.is_draining, "it has sent enough"
    async with peer() as (client, _):
        await client.say(head + b"Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n")
        assert client.is_draining, "it sends nothing before it is asked to"


async def test_what_is_no_http_is_refused_and_the_connection_ends() -> None:
    for sent in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 2 * HEAD_BYTES_MAX,
        b"  V2SUB t c\n",
    ):
        async with peer() as (client, _):
            answer = await client.say(sent + b"\r\n\r\n", 1_000)
            assert answer.startswith(b"HTTP/1.1 4"), (sent, answer)
            assert client.is_draining


async def test_a_request_with_two_ends_is_refused_and_nothing_behind_it_is_read() -> None:
    behind = b"GET /behind HTTP/1.1\r\nHost: h\r\n\r\n"
    for headers in (
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\ncontent-length: 0",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: chunked, identity",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: +5",
        b"Content-Length : 5",
    ):
        async with peer() as (each, _):
            answer = await each.say(b"POST /a HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n0\r\n\r\n%b" % (headers, behind))
            assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501")), (headers, answer)
            assert answer.count(b"HTTP/1.1 ") == 1
            assert (each.is_draining, each.asked) == (True, [])


async def test_a_slow_sender_is_hung_up_on() -> None:
    async with peer() as (client, timer):
        for byte in POST[:20]:
            await client.say(bytes([byte]))
            timer.advance(REQUEST_MS // 20 - 1)
            assert not client.is_draining
        timer.advance(20)
        assert client.sent.startswith(b"HTTP/1.1 408 ")
        assert client.is_draining


async def test_a_client_that_sends_on_and_on_before_its_answer_is_closed() -> None:
    async with peer() as (client, _):
        client.may_answer.clear()
        await client.say(POST)
        await client.say(b"x" * AHEAD_BYTES_MAX)
        assert not client.is_closed
        await client.say(b"x")
        assert client.is_closed
