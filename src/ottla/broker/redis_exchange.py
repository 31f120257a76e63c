"""What brokers ask each other for their Redis clients: commands on keys that another leads, and when those change.

    gateway --> ask(broker 2, bytes) --> RedisChannel --> RedisCommands --> broker 2: answer(bytes) --> its gateway

What the bytes mean is for the gateways (`ottla.gateways.redis.peer_messages`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

if TYPE_CHECKING:
    from ottla.peers.broker_channels import BrokerChannels
    from ottla.queues.deliveries import Deliveries
    from ottla.queues.share_state import ShareKey
    from ottla.queues.share_state_shard import StateAnswer
    from ottla.queues.shared_partition import SharedPartition
    from ottla.queues.surroundings import Surroundings
    from ottla.replication.partition import Partition

LANES: Final = 4
"""Connections to each broker for commands: one that waits for the disk holds up those behind it."""

Answer = Callable[[int, bytes], Awaitable[bytes]]
"""Answers a broker, by its number."""


class RemoteRedis(Protocol):
    """Reaches the gateways of other brokers."""

    async def ask(self, broker_id: int, data: bytes, lane: int, timeout_ms: int) -> bytes:
        """Ask another broker. Raises ClientError, and ApiError for what it answers."""
        ...


class StreamGroups(Protocol):
    """The groups of streams, which are the share groups of their names."""

    async def open(self, key: ShareKey, partition: Partition, around: Surroundings) -> SharedPartition:
        """The group at the leader of its stream, made if need be. Raises ApiError."""
        ...

    def deliveries(self, group_id: str, partition: Partition) -> Deliveries | None:
        """How a group stands whose stream this broker leads; None where that is not known."""
        ...

    def consumers(self, group_id: str) -> int:
        """How many Redis clients have something of a group, of the streams that this broker leads."""
        ...

    async def initialize(self, key: ShareKey, start_offset: int) -> StateAnswer:
        """Have a group begin at an offset; at UNKNOWN_OFFSET all stays as it is."""
        ...

    async def ensure(self, key: ShareKey, start_offset: int) -> StateAnswer:
        """Have a group begin at an offset if there is no such group yet."""
        ...

    async def delete(self, key: ShareKey) -> StateAnswer:
        """Destroy a group."""
        ...

    async def summary(self, key: ShareKey) -> StateAnswer:
        """Where a group is."""
        ...


class RedisChannel:
    """`RemoteRedis` over the channels between brokers."""

    def __init__(self, channels: BrokerChannels) -> None:
        self._channels = channels

    async def ask(self, broker_id: int, data: bytes, lane: int, timeout_ms: int) -> bytes:
        """Ask another broker. Raises ClientError, and ApiError for what it answers."""
        from ottla.peers.broker_channels import Lane
        from ottla.protocol.messages.redis_commands import RedisCommandsRequest, RedisCommandsResponse

        response = await self._channels.request(
            broker_id,
            RedisCommandsRequest(data),
            RedisCommandsResponse,
            timeout_ms=timeout_ms,
            lane=Lane(f"redis-{lane}"),
        )
        if response.error_code:
            code = ErrorCode(response.error_code)
            raise ApiError(code, response.error_message or code.name)
        return response.data


class RedisExchange:
    """Of one broker. Belongs to the event loop."""

    def __init__(self, remote: RemoteRedis | None = None) -> None:
        self.remote = remote
        """None on a broker that is alone."""
        self.answer: Answer | None = None
        """How the gateway of this broker answers others, once there is one."""
        self.make_gateway: Callable[[], object] = lambda: None
        """Makes the gateway, for a broker without a listener for Redis clients: it may lead keys all the same."""

        self.stream_groups: StreamGroups | None = None
        """Of the gateway, once there is one."""

    @property
    def groups(self) -> StreamGroups:
        """The groups of streams, of a gateway that is made if need be."""
        if self.stream_groups is None:
            self.make_gateway()
        assert self.stream_groups is not None
        return self.stream_groups

    async def answered(self, broker_id: int, data: bytes) -> bytes:
        """What another broker is told. Raises ApiError."""
        if self.answer is None:
            self.make_gateway()
        if self.answer is None:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "this broker serves no Redis clients")
        return await self.answer(broker_id, data)
