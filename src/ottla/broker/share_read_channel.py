"""The way to the leaders of share partitions that clients of this broker read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.client.errors import error_code
from ottla.model.errors import ApiError

if TYPE_CHECKING:
    from ottla.peers.broker_channels import BrokerChannels


class RemoteReaders(Protocol):
    """Reaches the leaders of share partitions."""

    async def ask(self, broker_id: int, data: bytes, lane: str, timeout_ms: int) -> bytes:
        """Ask another broker. Raises ClientError, and ApiError for what it answers."""
        ...


class ShareReadChannel:
    """`RemoteReaders` over the channels between brokers."""

    def __init__(self, channels: BrokerChannels) -> None:
        self._channels = channels

    async def ask(self, broker_id: int, data: bytes, lane: str, timeout_ms: int) -> bytes:
        """Ask another broker. Raises ClientError, and ApiError for what it answers."""
        from ottla.peers.broker_channels import Lane
        from ottla.protocol.messages.share_reads import ShareReadsRequest, ShareReadsResponse

        response = await self._channels.request(
            broker_id, ShareReadsRequest(data), ShareReadsResponse, timeout_ms=timeout_ms, lane=Lane(f"share-{lane}")
        )
        if response.error_code:
            code = error_code(response.error_code)
            raise ApiError(code, response.error_message or code.name)
        return response.data
