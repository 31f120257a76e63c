"""One GET of HTTP or HTTPS, by which a broker reads what lies elsewhere: the keys that sign tokens.

Its time and the size of the answer are bounded; a redirection is not followed.
"""

import asyncio
import ssl
from typing import Final
from urllib.parse import urlsplit

import h11

TIMEOUT_MS: Final = 10_000
ANSWER_BYTES_MAX: Final = 1024 * 1024


class HttpGetError(Exception):
    """There was no answer, or not one that can be used. One line says why."""


async def http_get(url: str, context: ssl.SSLContext | None, *, timeout_ms: int = TIMEOUT_MS) -> bytes:
    """The body of the answer 200. `context` is for https. Raises HttpGetError."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await _get(url, context)
    except TimeoutError:
        raise HttpGetError(f"no answer within {timeout_ms} ms") from None
    except (OSError, h11.RemoteProtocolError, h11.LocalProtocolError, UnicodeError) as error:
        raise HttpGetError(str(error) or type(error).__name__) from error


async def _get(url: str, context: ssl.SSLContext | None) -> bytes:
    parts = urlsplit(url)
    is_encrypted = parts.scheme == "https"
    assert parts.hostname is not None
    assert context is not None or not is_encrypted
    port = parts.port or (443 if is_encrypted else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context if is_encrypted else None)
    try:
        http = h11.Connection(h11.CLIENT)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = [("Host", parts.netloc), ("Accept", "application/json"), ("Connection", "close")]
        request = http.send(h11.Request(method="GET", target=target, headers=headers))
        writer.write((request or b"") + (http.send(h11.EndOfMessage()) or b""))
        body = bytearray()
        while len(body) <= ANSWER_BYTES_MAX:
            match http.next_event():
                case h11.NEED_DATA:
                    http.receive_data(await reader.read(65_536))
                case h11.Data(data=data):
                    body += data
                case h11.EndOfMessage():
                    return bytes(body)
                case h11.Response(status_code=status) if status != 200:
                    raise HttpGetError(f"it was answered with {status}")
                case _:
                    pass
        raise HttpGetError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
    finally:
        writer.transport.abort()
