"""Commands about what is pending in a group: XPENDING, XCLAIM, XAUTOCLAIM."""

from typing import Final

from ottla.gateways.redis.error import SYNTAX, RedisError, no_group
from ottla.gateways.redis.group import Consumer, Group
from ottla.gateways.redis.group_commands import find_group
from ottla.gateways.redis.numbers import INT64_MAX, find_integer, integer
from ottla.gateways.redis.read_commands import entries_reply
from ottla.gateways.redis.reply import NULL_ARRAY, Reply
from ottla.gateways.redis.session import Session
from ottla.gateways.redis.stream import Stream
from ottla.gateways.redis.stream_id import ID_MAX, id_bytes, id_text, parse_end, parse_id, parse_start
from ottla.gateways.redis.stream_records import Assigned, ConsumerSeen, GroupSet, Released

ATTEMPTS_FACTOR: Final = 10
COUNT_MAX: Final = INT64_MAX // 16
NOBODYS_IDLE: Final = -1


def _require_group(session: Session, arguments: list[bytes]) -> tuple[Stream, Group]:
    found = find_group(session, arguments[1], arguments[2])
    if found is None:
        raise no_group(arguments[1], arguments[2])
    return found


def xpending(session: Session, arguments: list[bytes]) -> Reply:
    """What is pending, in sum or one by one."""
    if len(arguments) != 3 and not 6 <= len(arguments) <= 9:
        raise RedisError(SYNTAX)
    if len(arguments) == 3:
        return _summary(_require_group(session, arguments)[1])
    at, idle_min_ms = 3, 0
    if arguments[3].upper() == b"IDLE":
        idle_min_ms = integer(arguments[4])
        if len(arguments) < 8:
            raise RedisError(SYNTAX)
        at = 5
    count = max(0, integer(arguments[at + 2]))
    first, last = parse_start(arguments[at]), parse_end(arguments[at + 1])
    name = arguments[at + 3] if at + 3 < len(arguments) else None
    _, group = _require_group(session, arguments)
    wanted = None if name is None else group.consumers.get(name)
    if name is not None and wanted is None:
        return []
    rows: list[Reply] = []
    for entry_id, pending in (
        group.pending_from(first, last) if wanted is None else group.held_from(wanted, first, last)
    ):
        if len(rows) >= count:
            break
        consumer = pending.consumer
        idle_ms = session.now_ms - pending.delivered_ms
        if idle_min_ms and idle_ms < idle_min_ms:
            continue
        owner = b"" if consumer is None else consumer.name
        rows.append([id_text(entry_id), owner, NOBODYS_IDLE if consumer is None else max(0, idle_ms), pending.count])
    return rows


def _summary(group: Group) -> Reply:
    if not group.pending:
        return [0, None, None, NULL_ARRAY]
    holders = sorted((each for each in group.consumers.values() if each.pending_count), key=lambda each: each.name)
    return [
        len(group.pending),
        id_text(group.first_pending),
        id_text(group.last_pending),
        [[each.name, b"%d" % each.pending_count] for each in holders],
    ]


class _Claim:
    """The options of XCLAIM; times and counts are None where nothing was said."""

    def __init__(self, arguments: list[bytes], now_ms: int) -> None:
        self.ids: list[int] = []
        self.is_forced = self.just_ids = False
        self.count: int | None = None
        self.last_id = 0
        delivered_ms: int | None = None
        at = 5
        while at < len(arguments):
            try:
                self.ids.append(parse_id(arguments[at]))
            except RedisError:
                break
            at += 1
        while at < len(arguments):
            option, has_more = arguments[at].upper(), at + 1 < len(arguments)
            if option == b"FORCE":
                self.is_forced = True
            elif option == b"JUSTID":
                self.just_ids = True
            elif option in (b"IDLE", b"TIME", b"RETRYCOUNT") and has_more:
                at += 1
                value = integer(arguments[at], f"ERR Invalid {option.decode()} option argument for XCLAIM")
                if option == b"RETRYCOUNT":
                    self.count = value
                else:
                    delivered_ms = now_ms - value if option == b"IDLE" else value
            elif option == b"LASTID" and has_more:
                at += 1
                self.last_id = parse_id(arguments[at])
            else:
                raise RedisError(b"ERR Unrecognized XCLAIM option '%s'" % arguments[at])
            at += 1
        self.delivered_ms = now_ms if delivered_ms is None or not 0 <= delivered_ms <= now_ms else delivered_ms


def xclaim(session: Session, arguments: list[bytes]) -> Reply:
    """Have entries that others have."""
    now_ms = session.now_ms
    stream, group = _require_group(session, arguments)
    idle_min_ms = max(0, integer(arguments[4], "ERR Invalid min-idle-time argument for XCLAIM"))
    claim = _Claim(arguments, now_ms)
    found = {entry_id: stream.get(entry_id) for entry_id in claim.ids}
    if claim.last_id > group.last_id:
        stream.mark(now_ms, GroupSet(group.name, id_bytes(claim.last_id), group.entries_read))
    consumer = _consumer(session, stream, group, arguments[3])
    gone: list[int] = []
    taken: dict[int, int] = {}
    order: list[int] = []
    for entry_id in claim.ids:
        pending = group.pending.get(entry_id)
        if found[entry_id] is None:
            if pending is not None and entry_id not in gone:
                gone.append(entry_id)
            continue
        count = taken.get(entry_id)
        if count is None:
            if pending is None:
                if not claim.is_forced:
                    continue
                count = 1
            else:
                if pending.consumer is not None and idle_min_ms and now_ms - pending.delivered_ms < idle_min_ms:
                    continue
                count = pending.count
        elif idle_min_ms and now_ms - claim.delivered_ms < idle_min_ms:
            continue
        if claim.count is not None and claim.count >= 0:
            count = claim.count
        elif not claim.just_ids:
            count += 1
        taken[entry_id] = count
        order.append(entry_id)
    _release(stream, group, gone, now_ms)
    _assign(stream, group, consumer, taken, now_ms, claim.delivered_ms)
    session.keyspace.changes += 1
    return _claimed(order, found, just_ids=claim.just_ids)


def xautoclaim(session: Session, arguments: list[bytes]) -> Reply:
    """Have entries that others have had for too long."""
    now_ms = session.now_ms
    idle_min_ms = max(0, integer(arguments[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM"))
    first = parse_start(arguments[5])
    count, just_ids = 100, False
    at = 6
    while at < len(arguments):
        option = arguments[at].upper()
        if option == b"COUNT" and at + 1 < len(arguments):
            at += 1
            said = find_integer(arguments[at])
            if said is None or not 1 <= said <= COUNT_MAX:
                raise RedisError("ERR COUNT must be > 0")
            count = said
        elif option == b"JUSTID":
            just_ids = True
        else:
            raise RedisError(SYNTAX)
        at += 1
    stream, group = _require_group(session, arguments)
    attempts = count * ATTEMPTS_FACTOR
    gone: list[int] = []
    taken: dict[int, int] = {}
    found: dict[int, list[bytes] | None] = {}
    following = 0
    for entry_id, pending in group.pending_from(first, ID_MAX):
        if not attempts or not count:
            following = entry_id
            break
        attempts -= 1
        fields = stream.get(entry_id)
        if fields is None:
            gone.append(entry_id)
            count -= 1
            continue
        if idle_min_ms and now_ms - pending.delivered_ms < idle_min_ms:
            continue
        taken[entry_id] = pending.count + (not just_ids)
        found[entry_id] = fields
        count -= 1
    consumer = _consumer(session, stream, group, arguments[3])
    _release(stream, group, gone, now_ms)
    _assign(stream, group, consumer, taken, now_ms, now_ms)
    session.keyspace.changes += 1
    return [id_text(following), _claimed(list(taken), found, just_ids=just_ids), [id_text(each) for each in gone]]


def _consumer(session: Session, stream: Stream, group: Group, name: bytes) -> Consumer:
    if name not in group.consumers:
        stream.mark(session.now_ms, ConsumerSeen(group.name, name, session.now_ms))
    consumer = group.consumers[name]
    consumer.seen_ms = session.now_ms
    return consumer


def _release(stream: Stream, group: Group, ids: list[int], now_ms: int) -> None:
    if ids:
        stream.mark(now_ms, Released(group.name, [id_bytes(each) for each in ids]))


def _assign(
    stream: Stream, group: Group, consumer: Consumer, taken: dict[int, int], now_ms: int, delivered_ms: int
) -> None:
    if taken:
        ids = [id_bytes(each) for each in taken]
        stream.mark(now_ms, Assigned(group.name, consumer.name, now_ms, delivered_ms, ids, list(taken.values())))


def _claimed(ids: list[int], found: dict[int, list[bytes] | None], *, just_ids: bool) -> Reply:
    if just_ids:
        return [id_text(each) for each in ids]
    return entries_reply((each, fields) for each in ids if (fields := found[each]) is not None)
