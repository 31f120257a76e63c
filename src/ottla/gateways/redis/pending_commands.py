"""Commands about what is pending in a group: XPENDING, XCLAIM, XAUTOCLAIM."""

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.gateways.redis.error import SYNTAX, RedisError, no_group
from ottla.gateways.redis.group import Consumer, Group, Pending
from ottla.gateways.redis.group_commands import find_group
from ottla.gateways.redis.long_work import SLICE, Steps, array_of, array_of_entries, chunks, in_slices, let_go, slices
from ottla.gateways.redis.numbers import INT64_MAX, find_integer, integer
from ottla.gateways.redis.reply import NULL_ARRAY, Raw, Reply, bulk
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
    stream, group = _require_group(session, arguments)
    wanted = None if name is None else group.consumers.get(name)
    if name is not None and wanted is None:
        return []
    found = group.pending_from(first, last) if wanted is None else group.held_from(wanted, first, last)
    return in_slices(session, [stream], _rows(found, count, idle_min_ms, session.now_ms))


def _rows(found: Iterator[tuple[int, Pending]], count: int, idle_min_ms: int, now_ms: int) -> Steps:
    parts, left, size = [b""], count, 0
    for some in chunks(found):
        rows = [_row(*each, now_ms) for each in some if not idle_min_ms or now_ms - each[1].delivered_ms >= idle_min_ms]
        rows = rows[:left]
        left -= len(rows)
        size += len(rows)
        parts.append(b"".join(rows))
        if not left:
            break
        if len(some) == SLICE:
            yield
    parts[0] = b"*%d\r\n" % size
    return Raw(*parts)


def _row(entry_id: int, pending: Pending, now_ms: int) -> bytes:
    consumer = pending.consumer
    owner = b"" if consumer is None else consumer.name
    idle_ms = NOBODYS_IDLE if consumer is None else max(0, now_ms - pending.delivered_ms)
    return b"*4\r\n%b%b:%d\r\n:%d\r\n" % (bulk(id_text(entry_id)), bulk(owner), idle_ms, pending.count)


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

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.is_forced = self.just_ids = False
        self.count: int | None = None
        self.last_id = 0
        self.delivered_ms = 0

    def parse(self, arguments: list[bytes], now_ms: int) -> Iterator[None]:
        """Read them, a slice at a time. Raises RedisError."""
        delivered_ms: int | None = None
        at = 5
        while at < len(arguments):
            try:
                self.ids.append(parse_id(arguments[at]))
            except RedisError:
                break
            at += 1
            if not at % SLICE:
                yield
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

    def count_of(self, pending: Pending | None, taken: int | None, idle_min_ms: int, now_ms: int) -> int | None:
        """How often an entry was delivered once it is claimed, None where it is not; `taken` is that of an entry which
        the command has claimed before.
        """
        if taken is not None:
            if idle_min_ms and now_ms - self.delivered_ms < idle_min_ms:
                return None
            count = taken
        elif pending is None:
            if not self.is_forced:
                return None
            count = 1
        else:
            if pending.consumer is not None and idle_min_ms and now_ms - pending.delivered_ms < idle_min_ms:
                return None
            count = pending.count
        if self.count is not None and self.count >= 0:
            return self.count
        return count if self.just_ids else count + 1


def xclaim(session: Session, arguments: list[bytes]) -> Reply:
    """Have entries that others have."""
    stream, group = _require_group(session, arguments)
    idle_min_ms = max(0, integer(arguments[4], "ERR Invalid min-idle-time argument for XCLAIM"))
    return in_slices(session, [stream], _claim(session, stream, group, arguments, idle_min_ms))


def _claim(session: Session, stream: Stream, group: Group, arguments: list[bytes], idle_min_ms: int) -> Steps:
    now_ms, keyspace, claim = session.now_ms, session.keyspace, _Claim()
    yield from claim.parse(arguments, now_ms)
    found: dict[int, list[bytes] | None] = {}
    for some in slices(claim.ids):
        found.update((entry_id, stream.get(entry_id)) for entry_id in some)
        if len(some) == SLICE:
            yield
    if claim.last_id > group.last_id:
        stream.mark(now_ms, GroupSet(group.name, id_bytes(claim.last_id), group.entries_read))
    consumer = _consumer(stream, group, arguments[3], now_ms)
    gone: dict[int, None] = {}
    taken: dict[int, int] = {}
    order: list[int] = []
    for number, entry_id in enumerate(claim.ids, 1):
        if not number % SLICE:
            yield
        pending = group.pending.get(entry_id)
        if found[entry_id] is None:
            if pending is not None:
                gone[entry_id] = None
            continue
        count = claim.count_of(pending, taken.get(entry_id), idle_min_ms, now_ms)
        if count is None:
            continue
        taken[entry_id] = count
        order.append(entry_id)
    yield from _release(stream, group, gone, now_ms)
    yield from _assign(stream, group, consumer, taken, now_ms, claim.delivered_ms)
    keyspace.changes += 1
    claimed = yield from _claimed(order, found, just_ids=claim.just_ids)
    yield from let_go(order, taken, found, gone, claim.ids)
    return claimed


def xautoclaim(session: Session, arguments: list[bytes]) -> Reply:
    """Have entries that others have had for too long."""
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
    steps = _claim_idle(session, stream, group, arguments[3], idle_min_ms, first, count, just_ids=just_ids)
    return in_slices(session, [stream], steps)


def _claim_idle(
    session: Session,
    stream: Stream,
    group: Group,
    name: bytes,
    idle_min_ms: int,
    first: int,
    count: int,
    *,
    just_ids: bool,
) -> Steps:
    now_ms, keyspace = session.now_ms, session.keyspace
    attempts = count * ATTEMPTS_FACTOR
    gone: dict[int, None] = {}
    taken: dict[int, int] = {}
    found: dict[int, list[bytes] | None] = {}
    following = 0
    for number, (entry_id, pending) in enumerate(group.pending_from(first, ID_MAX), 1):
        if not attempts or not count:
            following = entry_id
            break
        if not number % SLICE:
            yield
        attempts -= 1
        fields = stream.get(entry_id)
        if fields is None:
            gone[entry_id] = None
            count -= 1
            continue
        if idle_min_ms and now_ms - pending.delivered_ms < idle_min_ms:
            continue
        taken[entry_id] = pending.count + (not just_ids)
        found[entry_id] = fields
        count -= 1
    consumer = _consumer(stream, group, name, now_ms)
    yield from _release(stream, group, gone, now_ms)
    yield from _assign(stream, group, consumer, taken, now_ms, now_ms)
    keyspace.changes += 1
    claimed = yield from _claimed(taken, found, just_ids=just_ids)
    texts = yield from array_of(gone, _text)
    yield from let_go(taken, found, gone)
    return [id_text(following), claimed, texts]


def _consumer(stream: Stream, group: Group, name: bytes, now_ms: int) -> Consumer:
    if name not in group.consumers:
        stream.mark(now_ms, ConsumerSeen(group.name, name, now_ms))
    consumer = group.consumers[name]
    consumer.seen_ms = now_ms
    return consumer


def _release(stream: Stream, group: Group, ids: Iterable[int], now_ms: int) -> Iterator[None]:
    for some in chunks(ids):
        stream.mark(now_ms, Released(group.name, [id_bytes(each) for each in some]))
        if len(some) == SLICE:
            yield


def _assign(
    stream: Stream, group: Group, consumer: Consumer, taken: dict[int, int], now_ms: int, delivered_ms: int
) -> Iterator[None]:
    for some in chunks(taken.items()):
        ids, counts = [id_bytes(entry_id) for entry_id, _ in some], [count for _, count in some]
        stream.mark(now_ms, Assigned(group.name, consumer.name, now_ms, delivered_ms, ids, counts))
        if len(some) == SLICE:
            yield


def _claimed(ids: Iterable[int], found: dict[int, list[bytes] | None], *, just_ids: bool) -> Steps:
    if just_ids:
        return (yield from array_of(ids, _text))
    return (yield from array_of_entries((each, found[each] or []) for each in ids))


def _text(entry_id: int) -> bytes:
    return bulk(id_text(entry_id))
