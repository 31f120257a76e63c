"""One GET: what it returns, and what it does not wait for."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.network.http_get import ANSWER_BYTES_MAX, HttpGetError, get_url
from tests.certificates import Authority

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@asynccontextmanager
async def answering(*parts: bytes, context: ssl.SSLContext | None = None, hangs: bool = False) -> AsyncIterator[str]:
    """A server that answers so to whatever is asked; the URL."""
    asked: list[bytes] = []
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            if hangs:
                await done.wait()
        except OSError:
            pass
        writer.transport.abort() if hangs else writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{port}/keys?a=b"
    finally:
        done.set()
        server.close()
    assert all(each.startswith(b"GET /keys?a=b HTTP/1.1\r\n") for each in asked)


async def test_it_returns_the_body() -> None:
    async with answering(OK) as url:
        assert await get_url(url, None) == b"hello"
    async with answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n", b"0\r\n\r\n") as url:
        assert await get_url(url, None) == b"he"


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ((b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",), "404"),
        ((b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",), "302"),
        ((b"SSH-2.0\r\n\r\n",), "."),
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",), "."),
        ((b"HTTP/1.1 200 OK\r\n\r\n", *(b"x" * 65_536 for _ in range(ANSWER_BYTES_MAX // 65_536 + 1))), "more than"),
        ((b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,), "."),
    ],
)
async def test_what_is_no_answer_is_said(parts: tuple[bytes, ...], what: str) -> None:
    async with answering(*parts) as url:
        with pytest.raises(HttpGetError, match=what):
            await get_url(url, None)


async def test_it_does_not_wait_for_long() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n", hangs=True) as url:
        with pytest.raises(HttpGetError, match="no answer within 50 ms"):
            await get_url(url, None, timeout_ms=50)


async def test_nobody_there() -> None:
    with pytest.raises(HttpGetError):
        await get_url("http://127.0.0.1:1/", None)


async def test_over_tls_the_server_has_to_be_who_it_is(tmp_path: Path) -> None:
    authority = Authority()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(authority.identity("issuer").write_pem(tmp_path / "issuer.pem"))
    trusting = ssl.create_default_context(cadata=authority.certificate_pem)
    async with answering(OK, context=served) as url:
        assert await get_url(url, trusting) == b"hello"
        with pytest.raises(HttpGetError, match="CERTIFICATE_VERIFY_FAILED"):
            await get_url(url, ssl.create_default_context())
