"""One GET of a document from another service over HTTP/1.1, with a connection of its own.

The size of the answer is bounded, and a redirection is not followed.
"""

import asyncio
import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

import h11

from ottla.runtime.turns import next_turn

TIMEOUT_MS: Final = 10_000
ANSWER_BYTES_MAX: Final = 1024 * 1024
PIECE_BYTES: Final = 4_096
"""So much is looked at in a turn of the event loop."""


class HttpGetError(Exception):
    """There was no answer, or not one that can be used. One line says why."""


async def get_url(url: str, context: ssl.SSLContext | None, *, timeout_ms: int = TIMEOUT_MS) -> bytes:
    """The body of the answer 200 to a URL. `context` is for https. Raises HttpGetError."""
    parts = urlsplit(url)
    is_encrypted = parts.scheme == "https"
    assert parts.hostname is not None
    assert context is not None or not is_encrypted
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    port = parts.port or (443 if is_encrypted else 80)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await http_get(parts.hostname, port, target, context if is_encrypted else None)
    except TimeoutError:
        raise HttpGetError(f"no answer within {timeout_ms} ms") from None
    except (OSError, h11.RemoteProtocolError, h11.LocalProtocolError, UnicodeError) as error:
        raise HttpGetError(str(error) or type(error).__name__) from error


async def http_get(
    host: str, port: int, target: str, tls: ssl.SSLContext | None = None, bytes_max: int = ANSWER_BYTES_MAX
) -> bytes:
    """The body of the answer, whose status has to be 200. The caller limits the time.

    Raises OSError, and h11.RemoteProtocolError for another status, a body above `bytes_max`, or no HTTP.
    """
    reader, writer = await _connected(host, port, tls)
    try:
        http = h11.Connection(h11.CLIENT)
        named = f"[{host}]" if ":" in host else host
        headers = [("Host", f"{named}:{port}"), ("Connection", "close")]
        request = http.send(h11.Request(method="GET", target=target, headers=headers))
        writer.write((request or b"") + (http.send(h11.EndOfMessage()) or b""))
        body = bytearray()
        while len(body) <= bytes_max:
            match http.next_event():
                case h11.NEED_DATA:
                    await next_turn()  # each byte may be a chunk of its own, or a response that goes before
                    http.receive_data(await reader.read(PIECE_BYTES))
                case h11.Data(data=data):
                    body += data
                case h11.EndOfMessage():
                    return bytes(body)
                case h11.Response(status_code=status) if status != 200:
                    raise h11.RemoteProtocolError(f"the request was answered with {status}")
                case _:
                    pass
        raise h11.RemoteProtocolError(f"the answer has more than {bytes_max} bytes")
    finally:
        writer.transport.abort()


async def _connected(
    host: str, port: int, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first place of a name that takes one. Raises OSError.

    The name is looked up here: where a connect is cancelled, uvloop leaves its look-up behind.
    """
    refused: OSError | None = None
    loop = asyncio.get_running_loop()
    for _, _, _, _, place in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            return await asyncio.open_connection(
                str(place[0]), port, ssl=tls, server_hostname=None if tls is None else host
            )
        except OSError as error:
            refused = refused or error
    raise refused or OSError(f"{host} has no address")
