"""Who leads a partition that the client took for another broker's, or at another epoch (KIP-951).

Produce and Fetch say it in the same words, in two places: leader and epoch beside the partition's error, and once for
the whole answer the address of each leader that was named. Older versions carry neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ottla.metadata.image.image import NO_LEADER
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from ottla.gateways.kafka.context import RequestContext

FIRST_VERSION: Final = {
    ApiKey.PRODUCE: 10,
    ApiKey.FETCH: 16,
    ApiKey.SHARE_FETCH: 1,
    ApiKey.SHARE_ACKNOWLEDGE: 1,
}
"""The first version of each API whose answers name leaders. Fetch had a field for them since 12, without addresses."""

_LEADER_CHANGED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

E = TypeVar("E")


class Leader(NamedTuple):
    """The broker that leads a partition, and since which epoch; -1 and -1 when nobody is known to."""

    leader_id: int
    leader_epoch: int


NOBODY: Final = Leader(-1, -1)


class CurrentLeaders:
    """What one answer says of leaders: nothing when its version cannot carry it, or no partition has moved."""

    __slots__ = ("_ctx", "_is_carried", "_named")

    def __init__(self, ctx: RequestContext, api: ApiKey) -> None:
        self._ctx = ctx
        self._is_carried = ctx.api_version >= FIRST_VERSION[api]
        self._named: dict[int, None] = {}

    def of(self, topic: str, topic_id: UUID, index: int, error: ErrorCode) -> Leader:
        """The leader to name beside `error`; the topic is the one of its name, or of its id where it has no name."""
        if not self._is_carried or error not in _LEADER_CHANGED:
            return NOBODY
        image = self._ctx.broker.image
        found = image.topic(topic) if topic else image.topic_by_id(topic_id)
        if found is None or not 0 <= index < len(found.partitions):
            return NOBODY
        partition = found.partitions[index]
        if partition.leader == NO_LEADER:
            return NOBODY
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and partition.leader == self._ctx.broker.cluster.node_id:
            # It is being deleted or moved away: this broker's image will say so in a moment.
            return NOBODY
        self._named[partition.leader] = None
        return Leader(partition.leader, partition.leader_epoch)

    def endpoints(self, make: Callable[..., E]) -> tuple[E, ...]:
        """The addresses of the leaders that were named, each made with `node_id`, `host`, `port` and `rack`."""
        if not self._named:
            return ()
        cluster, connection = self._ctx.broker.cluster, self._ctx.connection
        nodes = (cluster.node(leader_id, connection) for leader_id in self._named)
        return tuple(
            make(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
            if node is not None
        )
