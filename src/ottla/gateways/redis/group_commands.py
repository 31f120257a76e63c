"""Commands of consumer groups: XGROUP, XREADGROUP, XACK, XACKDEL, XNACK."""

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from heapq import merge
from itertools import groupby, islice

from ottla.broker.access import Operation
from ottla.gateways.redis.add_commands import none_of, parse_policy_and_ids, result
from ottla.gateways.redis.deletion import delete, release_everywhere
from ottla.gateways.redis.error import RedisError, unknown_or_wrong
from ottla.gateways.redis.group import FATAL_COUNT, UNKNOWN, Consumer, Group
from ottla.gateways.redis.long_work import SLICE, Steps, array_of, chunks, in_slices, let_go, parsed_ids, slices
from ottla.gateways.redis.numbers import find_integer, integer
from ottla.gateways.redis.read_commands import ReadOptions, Room, parse_read, wait
from ottla.gateways.redis.reply import NULL_ARRAY, OK, Pairs, Raw, Reply, encode, entry
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
from ottla.native import encode_entries

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
        session.keyspace.dismantle([group])
        session.keyspace.changed(stream)
        session.keyspace.on_groups(stream)
        return 1
    assert group is not None
    if name == b"SETID":
        last_id = stream.last_id if arguments[4] == b"$" else parse_any_id(arguments[4])
        stream.mark(session.now_ms, GroupSet(group.name, id_bytes(last_id), entries_read))
        session.keyspace.changes += 1  # who waits goes on waiting, as with Redis
        return OK
    consumer = group.consumers.get(arguments[4])
    if name == b"CREATECONSUMER":
        if consumer is None:
            stream.mark(session.now_ms, ConsumerSeen(group.name, arguments[4], session.now_ms))
            session.keyspace.changes += 1
        return int(consumer is None)
    if consumer is None:
        return 0
    return in_slices(session, [stream], _delete_consumer(session, stream, group, consumer))


def _delete_consumer(session: Session, stream: Stream, group: Group, consumer: Consumer) -> Steps:
    now_ms, pending = session.now_ms, consumer.pending_count
    session.keyspace.changes += 1
    while consumer.pending_count > SLICE:
        held = islice(consumer.ids.between(0, ID_MAX), SLICE)
        stream.mark(now_ms, Released(group.name, [id_bytes(each) for each in held]))
        yield
    stream.mark(now_ms, ConsumerDeleted(group.name, consumer.name))
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
    wanted: list[_Wanted] = []
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
    return in_slices(session, [stream for _, stream, _, _ in wanted], _read(session, arguments, options, wanted))


_Wanted = tuple[bytes, Stream, Group, int | None]
"""A key, its stream and group, and behind which id of the history; None for what is new."""


def _read(session: Session, arguments: list[bytes], options: ReadOptions, wanted: list[_Wanted]) -> Steps:
    now_ms, protocol, room = session.now_ms, session.protocol, Room(options)
    plans: list[_Plan | None] = []
    before: dict[Group, _Before] = {}
    for _, stream, group, after in wanted:
        plans.append(
            (yield from _plan(options, room, stream, group, after, now_ms, before.setdefault(group, _Before(group))))
        )
    items: list[tuple[bytes, Reply]] = []
    for (key, stream, group, after), plan in zip(wanted, plans, strict=True):
        session.keyspace.changes += (options.consumer not in group.consumers) + (plan is not None and after is None)
        if plan is None:
            _seen(stream, group, options.consumer, now_ms)
        elif after is not None:
            items.append((key, (yield from _history(options, stream, group, plan.history, now_ms, protocol))))
        else:
            items.append((key, (yield from _new(options, stream, group, plan, now_ms))))
    if items:
        return Pairs(items)
    return wait(session, arguments, options, [each[0] for each in wanted], arguments[options.at + options.keys :])


class _Plan:
    """What one stream gives, found before anything is changed."""

    def __init__(self) -> None:
        self.history: list[tuple[int, list[bytes] | None]] = []
        self.claimed: list[tuple[int, list[bytes], int, int]] = []
        self.fresh: list[list[tuple[int, list[bytes]]]] = []
        """In slices."""
        self.fresh_ids: list[int] = []


class _Before:
    """What a command gives of a group by keys that it names before: a key may be named twice."""

    def __init__(self, group: Group) -> None:
        self.last_id = group.last_id
        self.claimed: set[int] = set()
        self.fresh: list[list[int]] = []
        """What is pending with the consumer."""

    def held(self, held: Iterator[int], after: int) -> Iterator[int]:
        """What the consumer has behind an id, of that what it `held` before."""
        if not self.fresh and not self.claimed:
            return held
        claimed = sorted(each for each in self.claimed if each > after)
        fresh = (islice(ids, bisect_right(ids, after), None) for ids in self.fresh)
        return (each for each, _ in groupby(merge(held, claimed, *fresh)))


def _plan(
    options: ReadOptions, room: Room, stream: Stream, group: Group, after: int | None, now_ms: int, before: _Before
) -> Generator[None, None, _Plan | None]:
    plan = _Plan()
    if after is not None:
        consumer = group.consumers.get(options.consumer)
        held = () if consumer is None else group.held_from(consumer, after + 1, ID_MAX)
        for some in chunks(islice(before.held((at for at, _ in held), after), options.count)):
            plan.history += [(at, stream.get(at)) for at in some]
            if len(some) == SLICE:
                yield
        return plan
    left = options.count
    if options.claim_ms is not None:
        left = yield from _plan_claims(plan, left, room, stream, group, now_ms, options.claim_ms, before)
    if left != 0 and stream.has_after(before.last_id):
        for entries in chunks(islice(stream.range(before.last_id + 1, stream.last_id), left)):
            fresh = [each for each in entries if room.take(each[1])] if room.is_bounded else entries
            plan.fresh.append(fresh)
            plan.fresh_ids += [at for at, _ in fresh]
            if len(fresh) < SLICE:
                break
            yield
        if plan.fresh_ids:
            _ = stream.first_id  # may have to be read
            before.last_id = plan.fresh_ids[-1]
            if not options.no_ack:
                before.fresh.append(plan.fresh_ids)
    return plan if plan.fresh_ids or plan.claimed else None


def _plan_claims(
    plan: _Plan,
    left: int | None,
    room: Room,
    stream: Stream,
    group: Group,
    now_ms: int,
    idle_min_ms: int,
    before: _Before,
) -> Generator[None, None, int | None]:
    """What is pending for at least a time, what nobody has first, then the longest first. Returns how many entries may
    follow.
    """
    yield from group.sort_by_time(SLICE)
    for number, (at, pending) in enumerate(group.by_time(now_ms - idle_min_ms), 1):
        if left == 0:
            break
        if not number % SLICE:
            yield
        if at in before.claimed:
            continue
        fields = stream.get(at)
        if fields is None:
            continue
        if room.is_bounded and not room.take(fields):
            break
        before.claimed.add(at)
        plan.claimed.append((at, fields, now_ms - pending.delivered_ms, pending.count))
        left = None if left is None else left - 1
    return left


def _history(
    options: ReadOptions,
    stream: Stream,
    group: Group,
    history: list[tuple[int, list[bytes] | None]],
    now_ms: int,
    protocol: int,
) -> Steps:
    """What a consumer has, which counts as delivered once more; None for entries that are gone."""
    _seen(stream, group, options.consumer, now_ms)
    parts = [b"*%d\r\n" % len(history)]
    for number, some in enumerate(slices(history)):
        if number:
            yield
        found = [at for at, fields in some if fields is not None]
        counts = [group.pending[at].count + 1 for at in found]
        if found:
            stream.mark(now_ms, _assigned(group, options.consumer, found, counts, now_ms))
        rows = [
            encode([id_text(at), NULL_ARRAY], protocol) if fields is None else entry(id_text(at), fields)
            for at, fields in some
        ]
        parts.append(b"".join(rows))
    yield from let_go(history)
    return Raw(*parts)


def _new(options: ReadOptions, stream: Stream, group: Group, plan: _Plan, now_ms: int) -> Steps:
    name = options.consumer
    _seen(stream, group, name, now_ms)
    parts = [b"*%d\r\n" % (len(plan.claimed) + len(plan.fresh_ids))]
    for claimed in slices(plan.claimed):
        ids = [at for at, _, _, _ in claimed]
        stream.mark(now_ms, _assigned(group, name, ids, [count + 1 for _, _, _, count in claimed], now_ms))
        parts.append(b"".join([_with_times(*each) for each in claimed]))
        if len(claimed) == SLICE:
            yield
    if plan.fresh_ids:
        entries_read = entries_read_behind(stream, group, plan.fresh_ids)
        stream.mark(now_ms, GroupSet(group.name, id_bytes(plan.fresh_ids[-1]), entries_read))
    for fresh in plan.fresh:
        if not options.no_ack:
            stream.mark(now_ms, _assigned(group, name, [at for at, _ in fresh], [1], now_ms))
        if options.claim_ms is None:
            parts.append(encode_entries(list(fresh)))
        else:
            parts.append(b"".join([_with_times(at, fields, 0, 0) for at, fields in fresh]))
        if len(fresh) == SLICE:
            yield
            fresh.clear()
    group.consumers[name].active_ms = now_ms
    yield from let_go(plan.claimed, plan.fresh_ids)
    return Raw(*parts)


def _with_times(at: int, fields: list[bytes], idle_ms: int, count: int) -> bytes:
    return b"*4" + entry(id_text(at), fields)[2:] + b":%d\r\n:%d\r\n" % (idle_ms, count)


def entries_read_behind(stream: Stream, group: Group, ids: list[int]) -> int:
    """The logical position of a group behind entries, as Redis counts it one by one. Raises NodeMissingError.

    It goes on from the position before where nothing that the group has not read is gone, be it deleted or trimmed.
    Elsewhere it is computed anew. Only the last entry at which it is matters, then the first entry of the stream and
    the last: it is known nowhere else.
    """
    entries_read, first = group.entries_read, 0
    if entries_read == UNKNOWN or stream.has_gap_behind(group.last_id):
        first = min(bisect_right(ids, stream.max_deleted_id), len(ids) - 1)
    numbers: list[int] = sorted({*range(first, min(first + 3, len(ids))), len(ids) - 1})
    for number in numbers:
        if entries_read != UNKNOWN and not stream.has_gap_behind(ids[number - 1] if number else group.last_id):
            return entries_read + len(ids) - number
        if stream.entries_added:
            entries_read = stream.distance_to(ids[number])
    return entries_read


def _assigned(group: Group, consumer: bytes, ids: list[int], counts: list[int], now_ms: int) -> Assigned:
    return Assigned(group.name, consumer, now_ms, now_ms, [id_bytes(at) for at in ids], counts)


def _seen(stream: Stream, group: Group, name: bytes, now_ms: int) -> None:
    if name not in group.consumers:
        stream.mark(now_ms, ConsumerSeen(group.name, name, now_ms))
    group.consumers[name].seen_ms = now_ms


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
    return in_slices(session, [found[0]], _acknowledge(session, *found, arguments))


def _acknowledge(session: Session, stream: Stream, group: Group, arguments: list[bytes]) -> Steps:
    now_ms, keyspace = session.now_ms, session.keyspace
    wanted = yield from parsed_ids(arguments[3:])
    count = 0
    for some in slices(wanted):
        ids = [id_bytes(at) for at in dict.fromkeys(some) if at in group.pending]
        if ids:
            stream.mark(now_ms, Released(group.name, ids))
            count += len(ids)
        if len(some) == SLICE:
            yield
    yield from let_go(wanted)
    keyspace.changes += count > 0
    return count


def xackdel(session: Session, arguments: list[bytes]) -> Reply:
    """Entries are done, and deleted: 1 deleted, -1 not pending, 2 still referenced."""
    policy, texts = parse_policy_and_ids(arguments, 3)
    found = find_group(session, arguments[1], arguments[2])
    if found is None:
        return in_slices(session, [], none_of(texts))
    return in_slices(session, [found[0]], _acknowledge_and_delete(session, *found, policy, texts))


def _acknowledge_and_delete(session: Session, stream: Stream, group: Group, policy: str, texts: list[bytes]) -> Steps:
    now_ms, keyspace = session.now_ms, session.keyspace
    wanted = yield from parsed_ids(texts)
    present: dict[int, None] = {}
    for some in slices(wanted):
        present.update(dict.fromkeys(at for at in some if stream.get(at) is not None))
        if len(some) == SLICE:
            yield
    results: list[int] = []
    for some in slices(wanted):
        results += _done_and_deleted(stream, group, policy, some, present, now_ms)
        if len(some) == SLICE:
            yield
    keyspace.changed(stream)
    yield from let_go(present, wanted)
    return (yield from array_of(results, result))


def _done_and_deleted(
    stream: Stream, group: Group, policy: str, wanted: Sequence[int], present: dict[int, None], now_ms: int
) -> list[int]:
    """What becomes of each of some ids, which may be the same ones; entries that are `present` are in the stream."""
    done = dict.fromkeys((at for at in wanted if at in group.pending), 1)
    if done:
        stream.mark(now_ms, Released(group.name, [id_bytes(at) for at in done]))
    going = [at for at in done if at in present]
    if policy == "acked":
        kept = {at for at in going if not is_acknowledged(stream, at)}
        done.update(dict.fromkeys(kept, 2))
        going = [at for at in going if at not in kept]
    if going:
        delete(stream, going, now_ms)
    if policy == "delref":
        release_everywhere(stream, going, now_ms)
    return [done.pop(at, -1) for at in wanted]


def xnack(session: Session, arguments: list[bytes]) -> Reply:
    """Entries are given back: nobody has them, and XREADGROUP with CLAIM gets them first."""
    mode, texts, retries, is_forced = _nack_options(arguments)
    found = find_group(session, arguments[1], arguments[2])
    if found is None:
        for each in texts[:SLICE]:
            parse_id(each)
        raise RedisError(b"NOGROUP No such key '%s' or consumer group '%s'" % (arguments[1], arguments[2]))
    return in_slices(session, [found[0]], _give_back(session, *found, texts, mode, retries, is_forced=is_forced))


def _give_back(
    session: Session,
    stream: Stream,
    group: Group,
    texts: list[bytes],
    mode: bytes,
    retries: int | None,
    *,
    is_forced: bool,
) -> Steps:
    now_ms, keyspace = session.now_ms, session.keyspace
    wanted = yield from parsed_ids(texts)
    counts: dict[int, int] = {}
    for some in slices(wanted):
        for entry_id in some:
            if entry_id in counts:
                continue
            pending = group.pending.get(entry_id)
            if pending is not None or (is_forced and stream.get(entry_id) is not None):
                counts[entry_id] = _nacked_count(mode, 0 if pending is None else pending.count, retries)
        if len(some) == SLICE:
            yield
    for given in chunks(counts.items()):
        ids = [id_bytes(entry_id) for entry_id, _ in given]
        stream.mark(now_ms, Assigned(group.name, None, now_ms, 0, ids, [count for _, count in given]))
        if len(given) == SLICE:
            yield
    if counts:
        keyspace.changed(stream)
    given_back = len(counts)
    yield from let_go(counts, wanted)
    return given_back


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
