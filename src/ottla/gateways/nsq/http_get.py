"""One GET of a document from another service over HTTP/1.1, with a connection of its own."""

import asyncio
import ssl
from typing import Final

import h11

ANSWER_BYTES_MAX: Final = 1024 * 1024


async def http_get(host: str, port: int, target: str, tls: ssl.SSLContext | None = None) -> bytes:
    """The body of the answer, whose status has to be 200. The caller limits the time.

    Raises OSError, and h11.RemoteProtocolError for another status, a body above `ANSWER_BYTES_MAX`, or no HTTP.
    """
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    try:
        http = h11.Connection(h11.CLIENT)
        headers = [("Host", f"{host}:{port}"), ("Connection", "close")]
        request = http.send(h11.Request(method="GET", target=target, headers=headers))
        writer.write((request or b"") + (http.send(h11.EndOfMessage()) or b""))
        body = bytearray()
        while len(body) <= ANSWER_BYTES_MAX:
            match http.next_event():
                case h11.NEED_DATA:
                    http.receive_data(await reader.read(65536))
                case h11.Data(data=data):
                    body += data
                case h11.EndOfMessage():
                    return bytes(body)
                case h11.Response(status_code=status) if status != 200:
                    raise h11.RemoteProtocolError(f"the request was answered with {status}")
                case _:
                    pass
        raise h11.RemoteProtocolError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
    finally:
        writer.close()
