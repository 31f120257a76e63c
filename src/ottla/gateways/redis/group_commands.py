"""Commands of consumer groups: XGROUP, XREADGROUP, XACK, XACKDEL, XNACK."""

from collections.abc import Iterator
from heapq import heapify, heappop
from itertools import islice

from ottla.broker.access import Operation
from ottla.gateways.redis.add_commands import parse_policy_and_ids
from ottla.gateways.redis.deletion import delete, release_everywhere
from ottla.gateways.redis.error import RedisError, unknown_or_wrong
from ottla.gateways.redis.group import FATAL_COUNT, UNKNOWN, Consumer, Group
from ottla.gateways.redis.numbers import find_integer, integer
from ottla.gateways.redis.read_commands import ReadOptions, Room, entries_reply, parse_read, wait
from ottla.gateways.redis.reply import NULL_ARRAY, OK, Pairs, Raw, Reply, entry
from ottla.gateways.redis.session import Session
from ottla.gateways.redis.stream import Stream
from ottla.gateways.redis.stream_id import ID_MAX, id_bytes, id_text, parse_any_id, parse_id
from ottla.gateways.redis.stream_records import (
    Assigned,
    ConsumerDeleted,
    ConsumerSeen,
    GroupDestroyed,
    GroupSet,
    Released,
)
from ottla.gateways.redis.trimming import is_acknowledged

_NEW = b">"
_NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM "
    "option to create an empty stream automatically."
)


def xgroup(session: Session, arguments: list[bytes]) -> Reply:
    """Make, move and remove groups and consumers."""
    name = arguments[1].upper()
    makes_stream, entries_read = _group_options(name, arguments)
    stream = session.find(arguments[2])
    if stream is None and not makes_stream:
        raise RedisError(_NO_KEY)
    group = None if stream is None else stream.groups.get(arguments[3])
    if group is None and name in (b"SETID", b"CREATECONSUMER", b"DELCONSUMER"):
        raise RedisError(b"NOGROUP No such consumer group '%s' for key name '%s'" % (arguments[3], arguments[2]))
    entries_read = min(entries_read, 0 if stream is None else stream.entries_added)
    if name == b"CREATE":
        return _create(session, arguments, stream, entries_read)
    assert stream is not None
    if name == b"DESTROY":
        if group is None:
            return 0
        stream.mark(session.now_ms, GroupDestroyed(group.name))
        session.keyspace.changed(stream)
        session.keyspace.on_groups(stream)
        return 1
    assert group is not None
    if name == b"SETID":
        last_id = stream.last_id if arguments[4] == b"$" else parse_any_id(arguments[4])
        stream.mark(session.now_ms, GroupSet(group.name, id_bytes(last_id), entries_read))
        session.keyspace.changed(stream)
        return OK
    consumer = group.consumers.get(arguments[4])
    if name == b"CREATECONSUMER":
        if consumer is None:
            stream.mark(session.now_ms, ConsumerSeen(group.name, arguments[4], session.now_ms))
        return int(consumer is None)
    if consumer is None:
        return 0
    pending = consumer.pending_count
    stream.mark(session.now_ms, ConsumerDeleted(group.name, consumer.name))
    return pending


def _group_options(name: bytes, arguments: list[bytes]) -> tuple[bool, int]:
    """Whether the stream is made if need be, and how many entries the group has read."""
    makes_stream, entries_read = False, UNKNOWN
    at = 5
    while at < len(arguments):
        option = arguments[at].upper()
        if name == b"CREATE" and option == b"MKSTREAM":
            makes_stream = True
            at += 1
        elif name in (b"CREATE", b"SETID") and option == b"ENTRIESREAD" and at + 1 < len(arguments):
            entries_read = integer(arguments[at + 1])
            if entries_read < 0 and entries_read != UNKNOWN:
                raise RedisError("ERR value for ENTRIESREAD must be positive or -1")
            at += 2
        else:
            raise unknown_or_wrong(arguments[1], "xgroup")
    return makes_stream, entries_read


def _create(session: Session, arguments: list[bytes], stream: Stream | None, entries_read: int) -> Reply:
    at_end = 0 if stream is None else stream.last_id
    last_id = at_end if arguments[4] == b"$" else parse_id(arguments[4])
    if stream is None:
        stream = session.make(arguments[2])
    if arguments[3] in stream.groups:
        raise RedisError("BUSYGROUP Consumer Group name already exists")
    stream.mark(session.now_ms, GroupSet(arguments[3], id_bytes(last_id), entries_read))
    session.keyspace.changed(stream)
    session.keyspace.on_groups(stream)
    return OK


# --- reading --------------------------------------------------------------------------------------------------------


def xreadgroup(session: Session, arguments: list[bytes]) -> Reply:
    """Entries that a group has not read, or what a consumer has."""
    options = parse_read(arguments, is_group=True)
    assert options.group is not None
    session.require_group(options.group, Operation.READ)
    keys = arguments[options.at : options.at + options.keys]
    texts = arguments[options.at + options.keys :]
    wanted: list[tuple[bytes, Stream, Group, int | None]] = []
    for key, text in zip(keys, texts, strict=True):
        stream = session.find(key)
        group = None if stream is None else stream.groups.get(options.group)
        if stream is None or group is None:
            raise RedisError(
                b"NOGROUP No such key '%s' or consumer group '%s' in XREADGROUP with GROUP option"
                % (key, options.group)
            )
        if text in (b"$", b"+"):
            raise RedisError(
                b"ERR The %b ID is meaningless in the context of XREADGROUP: you want to read the history of this "
                b"consumer by specifying a proper ID, or use the > ID to get new messages. The %b ID would just return "
                b"an empty result set." % (text, text)
            )
        said = ID_MAX if text == _NEW else parse_id(text)
        wanted.append((key, stream, group, None if said == ID_MAX else said))  # to Redis, the largest id is `>`
    room = Room(options)
    plans = [_plan(session, options, room, *each[1:]) for each in wanted]
    items: list[tuple[bytes, Reply]] = []
    for (key, stream, group, after), plan in zip(wanted, plans, strict=True):
        if plan is None:
            if options.consumer not in group.consumers:
                stream.mark(session.now_ms, ConsumerSeen(group.name, options.consumer, session.now_ms))
            else:
                group.consumers[options.consumer].seen_ms = session.now_ms
            continue
        if after is not None:
            items.append((key, _history(session, options, stream, group, plan.history)))
        else:
            items.append((key, _new(session, options, stream, group, plan)))
    return Pairs(items) if items else wait(session, arguments, options, keys, texts)


class _Plan:
    """What one stream gives, found before anything is changed."""

    def __init__(self) -> None:
        self.history: list[tuple[int, list[bytes] | None]] = []
        self.claimed: list[tuple[int, list[bytes], int, int]] = []
        self.fresh: list[tuple[int, list[bytes]]] = []


def _plan(
    session: Session, options: ReadOptions, room: Room, stream: Stream, group: Group, after: int | None
) -> _Plan | None:
    plan = _Plan()
    if after is not None:
        consumer = group.consumers.get(options.consumer)
        if consumer is not None:
            held = (at for at, _ in group.held_from(consumer, after + 1, ID_MAX))
            plan.history = [(at, stream.get(at)) for at in islice(held, options.count)]
        return plan
    left = options.count
    if options.claim_ms is not None:
        for at, fields, idle_ms, count in _idle(session, stream, group, options.claim_ms):
            if left == 0 or (room.is_bounded and not room.take(fields)):
                break
            plan.claimed.append((at, fields, idle_ms, count))
            left = None if left is None else left - 1
    if left != 0 and stream.has_after(group.last_id):
        found = list(islice(stream.range(group.last_id + 1, stream.last_id), left))
        plan.fresh = [each for each in found if room.take(each[1])] if room.is_bounded else found
        if plan.fresh:
            _ = stream.first_id  # may have to be read
    return plan if plan.fresh or plan.claimed else None


def _idle(
    session: Session, stream: Stream, group: Group, idle_min_ms: int
) -> Iterator[tuple[int, list[bytes], int, int]]:
    """What is pending for at least a time, what nobody has first, then the longest first. Entries are looked at as they
    are asked for. Raises NodeMissingError.
    """
    latest_ms = session.now_ms - idle_min_ms
    found = [
        (each.consumer is not None, each.delivered_ms, at)
        for at, each in group.pending.items()
        if each.consumer is None or each.delivered_ms <= latest_ms
    ]
    heapify(found)
    while found:
        _, delivered_ms, at = heappop(found)
        fields = stream.get(at)
        if fields is not None:
            yield at, fields, session.now_ms - delivered_ms, group.pending[at].count


def _history(
    session: Session,
    options: ReadOptions,
    stream: Stream,
    group: Group,
    history: list[tuple[int, list[bytes] | None]],
) -> Reply:
    """What a consumer has, which counts as delivered once more; None for entries that are gone."""
    found = [at for at, fields in history if fields is not None]
    if found:
        counts = [group.pending[at].count + 1 for at in found]
        stream.mark(session.now_ms, _assigned(session, group, options.consumer, found, counts))
    else:
        _seen(session, stream, group, options.consumer)
    return [[id_text(at), NULL_ARRAY if fields is None else fields] for at, fields in history]


def _new(session: Session, options: ReadOptions, stream: Stream, group: Group, plan: _Plan) -> Reply:
    name, now_ms = options.consumer, session.now_ms
    _seen(session, stream, group, name)
    if plan.claimed:
        ids = [at for at, _, _, _ in plan.claimed]
        counts = [count + 1 for _, _, _, count in plan.claimed]
        stream.mark(now_ms, _assigned(session, group, name, ids, counts))
    if plan.fresh:
        entries_read = entries_read_behind(stream, group, [at for at, _ in plan.fresh])
        stream.mark(now_ms, GroupSet(group.name, id_bytes(plan.fresh[-1][0]), entries_read))
        if not options.no_ack:
            stream.mark(now_ms, _assigned(session, group, name, [at for at, _ in plan.fresh], [1]))
        consumer = group.consumers[name]
        consumer.active_ms = now_ms
    if options.claim_ms is None:
        return entries_reply(iter(plan.fresh))
    parts = [_with_times(at, fields, idle_ms, count) for at, fields, idle_ms, count in plan.claimed]
    parts += [_with_times(at, fields, 0, 0) for at, fields in plan.fresh]
    return Raw(b"*%d\r\n%b" % (len(parts), b"".join(parts)))


def _with_times(at: int, fields: list[bytes], idle_ms: int, count: int) -> bytes:
    return b"*4" + entry(id_text(at), fields)[2:] + b":%d\r\n:%d\r\n" % (idle_ms, count)


def entries_read_behind(stream: Stream, group: Group, ids: list[int]) -> int:
    """The logical position of a group behind entries, as Redis counts it one by one. Raises NodeMissingError."""
    entries_read = group.entries_read
    for at in ids:
        if entries_read != UNKNOWN and not stream.has_tombstone(at):
            entries_read += 1
        elif stream.entries_added:
            entries_read = stream.distance_to(at)
    return entries_read


def _assigned(session: Session, group: Group, consumer: bytes, ids: list[int], counts: list[int]) -> Assigned:
    now_ms = session.now_ms
    return Assigned(group.name, consumer, now_ms, now_ms, [id_bytes(at) for at in ids], counts)


def _seen(session: Session, stream: Stream, group: Group, name: bytes) -> Consumer:
    consumer = group.consumers.get(name)
    if consumer is None:
        stream.mark(session.now_ms, ConsumerSeen(group.name, name, session.now_ms))
        consumer = group.consumers[name]
    consumer.seen_ms = session.now_ms
    return consumer


# --- settling -------------------------------------------------------------------------------------------------------


def find_group(session: Session, key: bytes, name: bytes) -> tuple[Stream, Group] | None:
    """A group; None where there is no such key or group."""
    stream = session.find(key)
    group = None if stream is None else stream.groups.get(name)
    return None if stream is None or group is None else (stream, group)


def xack(session: Session, arguments: list[bytes]) -> Reply:
    """Entries are done."""
    found = find_group(session, arguments[1], arguments[2])
    if found is None:
        return 0
    stream, group = found
    wanted = dict.fromkeys(parse_id(each) for each in arguments[3:])
    ids = [at for at in wanted if at in group.pending]
    if ids:
        stream.mark(session.now_ms, Released(group.name, [id_bytes(at) for at in ids]))
        session.keyspace.changes += 1
    return len(ids)


def xackdel(session: Session, arguments: list[bytes]) -> Reply:
    """Entries are done, and deleted: 1 deleted, -1 not pending, 2 still referenced."""
    policy, texts = parse_policy_and_ids(arguments, 3)
    wanted = [parse_id(each) for each in texts]
    found = find_group(session, arguments[1], arguments[2])
    if found is None:
        return [-1] * len(wanted)
    stream, group = found
    present = {at: stream.get(at) is not None for at in wanted}
    results: list[int] = []
    for at in wanted:
        if at not in group.pending:
            results.append(-1)
            continue
        stream.mark(session.now_ms, Released(group.name, [id_bytes(at)]))
        if not present[at]:
            results.append(1)
        elif policy == "acked" and not is_acknowledged(stream, at):
            results.append(2)
        else:
            present[at] = False
            delete(stream, [at], session.now_ms)
            if policy == "delref":
                release_everywhere(stream, [at], session.now_ms)
            results.append(1)
    session.keyspace.changed(stream)
    return results


def xnack(session: Session, arguments: list[bytes]) -> Reply:
    """Entries are given back: nobody has them, and XREADGROUP with CLAIM gets them first."""
    mode, texts, retries, is_forced = _nack_options(arguments)
    wanted = dict.fromkeys(parse_id(each) for each in texts)
    found = find_group(session, arguments[1], arguments[2])
    if found is None:
        raise RedisError(b"NOGROUP No such key '%s' or consumer group '%s'" % (arguments[1], arguments[2]))
    stream, group = found
    ids: list[int] = []
    counts: list[int] = []
    for entry_id in wanted:
        pending = group.pending.get(entry_id)
        if pending is None and not (is_forced and stream.get(entry_id) is not None):
            continue
        ids.append(entry_id)
        counts.append(_nacked_count(mode, 0 if pending is None else pending.count, retries))
    if ids:
        texts_of = [id_bytes(each) for each in ids]
        stream.mark(session.now_ms, Assigned(group.name, None, session.now_ms, 0, texts_of, counts))
        session.keyspace.changed(stream)
    return len(ids)


def _nack_options(arguments: list[bytes]) -> tuple[bytes, list[bytes], int | None, bool]:
    """Mode, ids, the delivery count that was given, and whether entries that are not pending are taken too."""
    mode = arguments[3].upper()
    if mode not in (b"SILENT", b"FAIL", b"FATAL"):
        raise RedisError("ERR mode must be SILENT, FAIL, or FATAL")
    if len(arguments) < 6 or arguments[4].upper() != b"IDS":
        raise RedisError("ERR syntax error, expected IDS keyword")
    count = find_integer(arguments[5])
    if count is None or count <= 0:
        raise RedisError("ERR numids must be a positive integer")
    texts = arguments[6 : 6 + count]
    if len(texts) != count:
        raise RedisError("ERR number of IDs doesn't match numids")
    retries, is_forced = None, False
    at = 6 + count
    while at < len(arguments):
        option = arguments[at].upper()
        if option == b"FORCE":
            is_forced = True
        elif option == b"RETRYCOUNT" and at + 1 < len(arguments):
            at += 1
            retries = find_integer(arguments[at])
            if retries is None or retries < 0:
                raise RedisError("ERR Invalid RETRYCOUNT value, must be >= 0")
        else:
            raise RedisError(b"ERR Unrecognized XNACK option '%s'" % arguments[at])
        at += 1
    return mode, texts, retries, is_forced


def _nacked_count(mode: bytes, before: int, retries: int | None) -> int:
    if retries is not None:
        return retries
    if mode == b"SILENT":
        return max(0, before - 1)
    return FATAL_COUNT if mode == b"FATAL" else before
