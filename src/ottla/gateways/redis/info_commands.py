"""XINFO: what a stream, its groups and their consumers look like."""

from collections.abc import Generator, Iterator
from itertools import islice

from ottla.gateways.redis.error import RedisError, unknown_or_wrong
from ottla.gateways.redis.group import NEVER, UNKNOWN, Group, Pending
from ottla.gateways.redis.long_work import SLICE, Steps, array_of, array_of_entries, in_slices
from ottla.gateways.redis.numbers import integer
from ottla.gateways.redis.reply import Raw, Reply, bulk, entry
from ottla.gateways.redis.session import Session
from ottla.gateways.redis.stream import Stream
from ottla.gateways.redis.stream_id import ID_MAX, id_text

FULL_COUNT = 10


def xinfo(session: Session, arguments: list[bytes]) -> Reply:
    """Describe a stream, its groups, or the consumers of one."""
    stream = session.require(arguments[2])
    match arguments[1].upper():
        case b"STREAM":
            return in_slices(session, [stream], _stream(stream, _full_count(arguments)))
        case b"GROUPS":
            return [_group(stream, group) for _, group in sorted(stream.groups.items())]
        case _:
            group = stream.groups.get(arguments[3])
            if group is None:
                raise RedisError(
                    b"NOGROUP No such consumer group '%s' for key name '%s'" % (arguments[3], arguments[2])
                )
            return _consumers(session, group)


def _full_count(arguments: list[bytes]) -> int | None:
    """How many entries FULL shows, 0 for all; None without FULL."""
    if len(arguments) == 3:
        return None
    if len(arguments) not in (4, 6) or arguments[3].upper() != b"FULL":
        raise unknown_or_wrong(arguments[1], "xinfo")
    if len(arguments) == 4:
        return FULL_COUNT
    if arguments[4].upper() != b"COUNT":
        raise unknown_or_wrong(arguments[1], "xinfo")
    count = integer(arguments[5])
    return FULL_COUNT if count < 0 else count


def _stream(stream: Stream, full_count: int | None) -> Steps:
    known = stream.idempotence
    row: dict[bytes, Reply] = {
        b"length": stream.length,
        b"radix-tree-keys": len(stream.nodes),
        b"radix-tree-nodes": len(stream.nodes) + 1,
        b"last-generated-id": id_text(stream.last_id),
        b"max-deleted-entry-id": id_text(stream.max_deleted_id),
        b"entries-added": stream.entries_added,
        b"recorded-first-entry-id": id_text(stream.first_id),
        b"idmp-duration": known.duration_s,
        b"idmp-maxsize": known.size,
        b"pids-tracked": known.producers,
        b"iids-tracked": known.tracked,
        b"iids-added": known.added,
        b"iids-duplicates": known.duplicates,
    }
    if full_count is None:
        row[b"groups"] = len(stream.groups)
        row[b"first-entry"] = _edge(stream.range(0, ID_MAX))
        row[b"last-entry"] = _edge(stream.reverse_range(0, ID_MAX))
        return row
    most = full_count or None
    entries = islice(stream.range(0, ID_MAX), most)
    row[b"entries"] = yield from array_of_entries(entries)
    groups: list[Reply] = []
    for _, group in sorted(stream.groups.items()):
        groups.append((yield from _full_group(stream, group, most)))
    row[b"groups"] = groups
    return row


def _edge(entries: Iterator[tuple[int, list[bytes]]]) -> Reply:
    for entry_id, fields in entries:
        return Raw(entry(id_text(entry_id), fields))
    return None


def _full_group(stream: Stream, group: Group, most: int | None) -> Generator[None, None, dict[bytes, Reply]]:
    pending = yield from array_of(islice(group.pending_from(0, ID_MAX), most), _pending_row)
    consumers: list[Reply] = []
    for number, (_, consumer) in enumerate(sorted(group.consumers.items()), 1):
        held = group.held_from(consumer, 0, ID_MAX)
        consumers.append(
            {
                b"name": consumer.name,
                b"seen-time": consumer.seen_ms,
                b"active-time": consumer.active_ms,
                b"pel-count": consumer.pending_count,
                b"pending": (yield from array_of(islice(held, most), _held_row)),
            }
        )
        if not number % SLICE:
            yield
    return {
        b"name": group.name,
        b"last-delivered-id": id_text(group.last_id),
        b"entries-read": None if group.entries_read == UNKNOWN else group.entries_read,
        b"lag": stream.lag(group),
        b"pel-count": len(group.pending),
        b"nacked-count": group.unowned_count,
        b"pending": pending,
        b"consumers": consumers,
    }


def _pending_row(row: tuple[int, Pending]) -> bytes:
    entry_id, pending = row
    owner = b"" if pending.consumer is None else pending.consumer.name
    numbers = b":%d\r\n:%d\r\n" % (pending.delivered_ms, pending.count)
    return b"*4\r\n%b%b%b" % (bulk(id_text(entry_id)), bulk(owner), numbers)


def _held_row(row: tuple[int, Pending]) -> bytes:
    entry_id, pending = row
    return b"*3\r\n%b:%d\r\n:%d\r\n" % (bulk(id_text(entry_id)), pending.delivered_ms, pending.count)


def _group(stream: Stream, group: Group) -> dict[bytes, Reply]:
    return {
        b"name": group.name,
        b"consumers": len(group.consumers),
        b"pending": len(group.pending),
        b"last-delivered-id": id_text(group.last_id),
        b"entries-read": None if group.entries_read == UNKNOWN else group.entries_read,
        b"lag": stream.lag(group),
    }


def _consumers(session: Session, group: Group) -> list[dict[bytes, Reply]]:
    return [
        {
            b"name": consumer.name,
            b"pending": consumer.pending_count,
            b"idle": max(0, session.now_ms - consumer.seen_ms),
            b"inactive": NEVER if consumer.active_ms == NEVER else max(0, session.now_ms - consumer.active_ms),
        }
        for _, consumer in sorted(group.consumers.items())
    ]
