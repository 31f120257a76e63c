"""What a lookup service is asked over HTTP: the channels of a topic that is new here."""

import asyncio
from typing import Final
from urllib.parse import quote

import h11
import msgspec
from msgspec import Struct

from ottla.gateways.nsq.names import is_ephemeral, is_valid_name
from ottla.network.http_get import http_get

TIMEOUT_MS: Final = 5_000
"""As nsqd's `--http-client-request-timeout`."""


class LookupUnavailableError(Exception):
    """The service did not answer, or not as one."""


class _Channels(Struct):
    channels: list[str] = []


async def channels_of(host: str, port: int, topic: str) -> list[str]:
    """The channels that a lookup service knows of a topic, without ephemeral ones. Raises LookupUnavailableError."""
    try:
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            body = await http_get(host, port, f"/channels?topic={quote(topic)}")
        found = msgspec.json.decode(body, type=_Channels).channels
    except (OSError, TimeoutError, h11.RemoteProtocolError, msgspec.DecodeError) as error:
        raise LookupUnavailableError(str(error) or "no answer") from error
    return [channel for channel in found if is_valid_name(channel) and not is_ephemeral(channel)]
