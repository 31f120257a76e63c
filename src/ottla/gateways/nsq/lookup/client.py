"""What a lookup service is asked over HTTP: the channels of a topic that is new here."""

import asyncio
from typing import Final
from urllib.parse import quote

import h11
import msgspec
from msgspec import Struct

from ottla.gateways.nsq.names import is_ephemeral, is_valid_name

TIMEOUT_MS: Final = 2_000
ANSWER_BYTES_MAX: Final = 1024 * 1024


class LookupUnavailableError(Exception):
    """The service did not answer, or not as one."""


class _Channels(Struct):
    channels: list[str] = []


async def channels_of(host: str, port: int, topic: str) -> list[str]:
    """The channels that a lookup service knows of a topic, without ephemeral ones. Raises LookupUnavailableError."""
    try:
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            body = await _get(host, port, f"/channels?topic={quote(topic)}")
        found = msgspec.json.decode(body, type=_Channels).channels
    except (OSError, TimeoutError, h11.RemoteProtocolError, msgspec.DecodeError) as error:
        raise LookupUnavailableError(str(error) or "no answer") from error
    return [channel for channel in found if is_valid_name(channel) and not is_ephemeral(channel)]


async def _get(host: str, port: int, target: str) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
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
                    raise h11.RemoteProtocolError(f"{target} was answered with {status}")
                case _:
                    pass
        raise h11.RemoteProtocolError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
    finally:
        writer.close()
