"""Deleting entries one by one."""

from collections.abc import Sequence

from ottla.gateways.redis.stream import Stream
from ottla.gateways.redis.stream_id import id_bytes
from ottla.gateways.redis.stream_records import Deleted, Released


def delete(stream: Stream, ids: Sequence[int], now_ms: int, *, raises_tombstone: bool = True) -> None:
    """Delete entries that are there, each named once."""
    tombstone = max(ids) if raises_tombstone else 0
    stream.mark(now_ms, Deleted([id_bytes(each) for each in ids], id_bytes(tombstone)))


def release_everywhere(stream: Stream, ids: Sequence[int], now_ms: int) -> None:
    """Entries are pending in no group any more."""
    for group in stream.groups.values():
        held = [id_bytes(each) for each in ids if each in group.pending]
        if held:
            stream.mark(now_ms, Released(group.name, held))
