"""How a group of a stream stands, in the numbers of share groups.

Redis         lag 3, pending 2        entries that were not read; entries that were and are not acknowledged
Kafka         lag 5                   records that are not done
NSQ           depth 3, in flight 2

Marks lie between the entries of the log, so where numbers of records are computed of offsets, the offsets that are told
here are such that the numbers are those of entries.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.stream import NodeMissingError
from ottla.gateways.redis.stream_id import ID_MAX
from ottla.queues.deliveries import Deliveries

if TYPE_CHECKING:
    from ottla.gateways.redis.group import Group
    from ottla.gateways.redis.stream import Stream
    from ottla.replication.partition import Partition

LOOKED_AT_MAX: Final = 10_000
"""So much of what is pending is looked at for numbers that are kept nowhere: how often entries were delivered."""


def unread(stream: Stream, group: Group) -> int:
    """How many entries a group has not read; a few too many where Redis cannot tell."""
    try:
        lag = stream.lag(group)
    except NodeMissingError:
        lag = None
    return stream.count_after(group.last_id) if lag is None else lag


def deliveries_of(
    stream: Stream,
    group: Group,
    partition: Partition,
    now_ms: int,
    *,
    place: Callable[[int], int] | None = None,
    accepted: int = 0,
    archived: int = 0,
) -> Deliveries:
    """How a group stands. `place` tells where an entry lies, about."""
    end, lag = partition.high_watermark, unread(stream, group)
    looked_at = list(islice(group.pending_from(0, ID_MAX), LOOKED_AT_MAX))
    waiting = sum(each.consumer is None and each.until_ms > now_ms for _, each in looked_at)
    pending = len(group.pending)
    oldest = looked_at[0] if looked_at else None
    holder = None if oldest is None else oldest[1].consumer
    end_offset = max(0, end - lag)
    return Deliveries(
        start_offset=max(0, end_offset - pending),
        end_offset=end_offset,
        high_watermark=end,
        unfinished=pending,
        in_flight=pending - group.unowned_count,
        waiting=waiting,
        returned=max(0, group.unowned_count - waiting),
        redelivered=sum(each.count > 1 for _, each in looked_at),
        deliveries_most=max((each.count for _, each in looked_at), default=0),
        accepted=accepted,
        archived=archived,
        oldest_offset=-1 if oldest is None else end_offset if place is None else place(oldest[0]),
        oldest_deliveries=0 if oldest is None else oldest[1].count,
        oldest_holder=None if holder is None else holder.name.decode(errors="replace"),
    )
