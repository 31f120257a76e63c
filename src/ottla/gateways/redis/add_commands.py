"""Commands that change the entries of a stream: XADD, XDEL, XDELEX, XTRIM, XSETID, XCFGSET."""

from typing import Final

from ottla.broker.access import Operation
from ottla.gateways.redis.deletion import delete, release_everywhere
from ottla.gateways.redis.error import SYNTAX, RedisError, arity
from ottla.gateways.redis.idempotence import DURATION_MAX_S, SIZE_MAX
from ottla.gateways.redis.keyspace import LoadingError, TopicMissingError
from ottla.gateways.redis.long_work import SLICE, Steps, array_of, chunks, in_slices, let_go, parsed_ids, slices
from ottla.gateways.redis.numbers import find_integer, integer
from ottla.gateways.redis.placement import ElsewhereError
from ottla.gateways.redis.reply import OK, Raw, Reply
from ottla.gateways.redis.session import Session
from ottla.gateways.redis.stream import NODE_BYTES_MAX, NodeMissingError, Stream
from ottla.gateways.redis.stream_id import ID_MAX, SEQUENCE_MAX, GivenId, id_bytes, id_text, parse_id
from ottla.gateways.redis.stream_records import Configured, Set
from ottla.gateways.redis.trimming import POLICIES, Options, is_acknowledged, parse_options, trim, trim_in_steps
from ottla.native import StreamAdds
from ottla.runtime.turns import Pace

ENTRY_ARGUMENTS_MIN: Final = 2
_ENTRY_OVERHEAD: Final = 64
_FIELD_OVERHEAD: Final = 5
"""What an entry, and one name or value of it, takes in the log beside its bytes, at most."""
_PLAIN: Final = Options()


def xadd(session: Session, arguments: list[bytes]) -> Reply:
    """Add an entry."""
    if arguments[2] == b"*":
        return _add(session, arguments[1], _fields(arguments, 2), _PLAIN)
    options = parse_options(arguments, is_add=True)
    fields, given = _fields(arguments, options.at), options.entry_id
    if given is not None and given.has_sequence and not given.value:
        raise RedisError("ERR The ID specified in XADD must be greater than 0-0")
    if not options.makes_stream and session.find(arguments[1]) is None:
        return None
    return _add(session, arguments[1], fields, options)


def add_all(session: Session, adds: StreamAdds) -> bytes | None:
    """Add entries with ids of their own to one stream that is there; returns the replies. None where each is to be
    added by itself, and nothing has been done.
    """
    key = adds.key
    if session.gateway.waiters.is_awaited(session.database, key):
        return None
    try:
        stream = session.find(key)
        if stream is None or not stream.log.has_room(2 * adds.size_bytes + _ENTRY_OVERHEAD * len(adds)):
            return None
        replies = stream.append_all(adds, session.now_ms)
    except (NodeMissingError, TopicMissingError, LoadingError, ElsewhereError):
        return None
    if replies is not None:
        session.keyspace.changed(stream, len(adds))
    return replies


def _fields(arguments: list[bytes], at: int) -> list[bytes]:
    fields = arguments[at + 1 :]
    if len(fields) < ENTRY_ARGUMENTS_MIN or len(fields) % 2:
        raise arity("xadd")
    if sum(map(len, fields)) > NODE_BYTES_MAX:
        raise RedisError("ERR Elements are too large to be stored")
    return fields


def _add(session: Session, key: bytes, fields: list[bytes], options: Options) -> Reply:
    now_ms = session.now_ms
    if options.trims:
        session.require_access(key, Operation.DELETE)
    stream = session.find(key)
    if stream is None:
        stream = session.make(key)
    stream.require_tail()
    if not stream.log.has_room(sum(map(len, fields)) + _FIELD_OVERHEAD * len(fields)):
        raise RedisError(f"ERR the entry is larger than max.message.bytes of topic {stream.log.topic}")
    idempotent = None
    if options.producer is not None:
        idempotent = stream.idempotence.key_of(options.producer, options.idempotent_id or b"", fields)
        known = stream.idempotence.find(idempotent, now_ms)
        if known is not None:
            return id_text(known)
    entry_id = _next_id(stream, options.entry_id, now_ms)
    if options.trims:
        _plan(stream, options)
    stream.append(entry_id, fields, now_ms)
    if idempotent is not None:
        stream.idempotence.remember(stream, idempotent, entry_id, now_ms)
    if options.trims:
        trim(stream, options, now_ms)
    session.keyspace.changed(stream)
    return id_text(entry_id)


def _plan(stream: Stream, options: Options) -> None:
    """Have what trimming needs in memory before anything is changed: the first node that may be cut."""
    if options.is_approximate and options.policy != "acked":
        return
    if options.length_max is not None and options.length_max >= stream.length + 1:
        return
    if options.policy == "acked":
        for node in stream.nodes:
            for _ in stream.range(node.first_id, node.first_id):
                break
        return
    if options.length_max is not None:
        stream.plan_trim_length(max(0, options.length_max - 1), 0, approximate=False)
    elif options.id_min is not None:
        stream.plan_trim_id(options.id_min, 0, approximate=False)


def _next_id(stream: Stream, given: GivenId | None, now_ms: int) -> int:
    last = stream.last_id
    if last == ID_MAX:
        raise RedisError("ERR The stream has exhausted the last possible ID, unable to add more items")
    if given is None:
        return max(now_ms << 64, last + 1)
    entry_id = given.value
    if not given.has_sequence and last >> 64 == entry_id >> 64:
        if last & SEQUENCE_MAX == SEQUENCE_MAX:
            raise _too_small()
        entry_id = last + 1
    if entry_id <= last:
        raise _too_small()
    return entry_id


def _too_small() -> RedisError:
    return RedisError("ERR The ID specified in XADD is equal or smaller than the target stream top item")


def xtrim(session: Session, arguments: list[bytes]) -> Reply:
    """Remove the oldest entries."""
    options = parse_options(arguments, is_add=False)
    stream = session.find(arguments[1])
    if stream is None:
        return 0
    return in_slices(session, [stream], _trim(session, stream, options))


def _trim(session: Session, stream: Stream, options: Options) -> Steps:
    removed = yield from trim_in_steps(stream, options, session.now_ms)
    if removed:
        session.keyspace.changed(stream)
    return removed


def xdel(session: Session, arguments: list[bytes]) -> Reply:
    """Delete entries."""
    stream = session.find(arguments[1])
    if stream is None:
        return 0
    return in_slices(session, [stream], _delete(session, stream, arguments))


def _delete(session: Session, stream: Stream, arguments: list[bytes]) -> Steps:
    now_ms, keyspace = session.now_ms, session.keyspace
    wanted = yield from parsed_ids(arguments[2:])
    ids: dict[int, None] = {}
    for some in slices(wanted):
        ids.update(dict.fromkeys(entry_id for entry_id in some if stream.get(entry_id) is not None))
        if len(some) == SLICE:
            yield
    for going in chunks(ids):
        delete(stream, going, now_ms)
        if len(going) == SLICE:
            yield
    if ids:
        keyspace.changed(stream)
    deleted = len(ids)
    yield from let_go(ids, wanted)
    return deleted


def xdelex(session: Session, arguments: list[bytes]) -> Reply:
    """Delete entries, and say of each what became of it: 1 deleted, -1 absent, 2 still referenced."""
    policy, texts = parse_policy_and_ids(arguments, 2)
    stream = session.find(arguments[1])
    if stream is None:
        return in_slices(session, [], none_of(texts))
    return in_slices(session, [stream], _delete_if(session, stream, policy, texts))


def none_of(texts: list[bytes]) -> Steps:
    """The reply to XDELEX and XACKDEL where there is nothing."""
    yield from parsed_ids(texts)
    return Raw(b"*%d\r\n%b" % (len(texts), result(-1) * len(texts)))


def _delete_if(session: Session, stream: Stream, policy: str, texts: list[bytes]) -> Steps:
    now_ms, keyspace, pace = session.now_ms, session.keyspace, Pace(SLICE)
    wanted = yield from parsed_ids(texts)
    going: dict[int, None] = {}
    results: list[int] = []
    for entry_id in wanted:
        if pace.is_enough():
            yield
        if entry_id in going or stream.get(entry_id) is None:
            results.append(-1)
        elif policy == "acked" and not is_acknowledged(stream, entry_id):
            results.append(2)
        else:
            going[entry_id] = None
            results.append(1)
    for some in chunks(going):
        delete(stream, some, now_ms)
        if policy == "delref":
            release_everywhere(stream, some, now_ms)
        if len(some) == SLICE:
            yield
    if going:
        keyspace.changed(stream)
    yield from let_go(going, wanted)
    return (yield from array_of(results, result))


def result(code: int) -> bytes:
    """What became of an entry."""
    return b":%d\r\n" % code


def parse_policy_and_ids(arguments: list[bytes], at: int) -> tuple[str, list[bytes]]:
    """`[KEEPREF|DELREF|ACKED] IDS n id ...` from an argument on. Raises RedisError."""
    policy, texts = "keepref", None
    while at < len(arguments):
        name = arguments[at].upper()
        if name in POLICIES:
            policy = POLICIES[name]
        elif name == b"IDS" and at + 1 < len(arguments):
            count = integer(arguments[at + 1], "ERR Number of IDs must be a positive integer")
            if count <= 0:
                raise RedisError("ERR Number of IDs must be a positive integer")
            texts = arguments[at + 2 : at + 2 + count]
            if len(texts) != count:
                raise RedisError("ERR The `numids` parameter must match the number of arguments")
            at += 1 + count
        else:
            raise RedisError(SYNTAX)
        at += 1
    if texts is None:
        raise RedisError(SYNTAX)
    return policy, texts


def xsetid(session: Session, arguments: list[bytes]) -> Reply:
    """Set the last id of a stream."""
    last_id = parse_id(arguments[2])
    added, tombstone = -1, 0
    at = 3
    while at < len(arguments):
        name, has_more = arguments[at].upper(), at + 1 < len(arguments)
        if name == b"ENTRIESADDED" and has_more:
            added = integer(arguments[at + 1])
            if added < 0:
                raise RedisError("ERR entries_added must be positive")
        elif name == b"MAXDELETEDID" and has_more:
            tombstone = parse_id(arguments[at + 1])
            if last_id < tombstone:
                raise RedisError("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
        else:
            raise RedisError(SYNTAX)
        at += 2
    stream = session.require(arguments[1])
    if last_id < stream.max_deleted_id:
        raise RedisError("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
    if stream.length:
        if last_id < stream.last_valid_id:
            raise RedisError("ERR The ID specified in XSETID is smaller than the target stream top item")
        if added != -1 and stream.length > added:
            raise RedisError("ERR The entries_added specified in XSETID is smaller than the target stream length")
    stream.mark(
        session.now_ms,
        Set(
            id_bytes(last_id),
            id_bytes(tombstone or stream.max_deleted_id),
            stream.entries_added if added == -1 else added,
        ),
    )
    session.keyspace.changed(stream)
    return OK


def xcfgset(session: Session, arguments: list[bytes]) -> Reply:
    """Set how long ids of producers are remembered, and how many."""
    duration_s = size = None
    at = 2
    while at < len(arguments):
        name, has_more = arguments[at].upper(), at + 1 < len(arguments)
        if name == b"IDMP-DURATION" and has_more:
            duration_s = _between(arguments[at + 1], DURATION_MAX_S, "IDMP-DURATION", "seconds")
        elif name == b"IDMP-MAXSIZE" and has_more:
            size = _between(arguments[at + 1], SIZE_MAX, "IDMP-MAXSIZE", "entries")
        else:
            raise RedisError(SYNTAX)
        at += 2
    if duration_s is None and size is None:
        raise RedisError("ERR At least one parameter must be specified")
    stream = session.require(arguments[1])
    known = stream.idempotence
    stream.mark(session.now_ms, Configured(duration_s or known.duration_s, size or known.size))
    return OK


def _between(text: bytes, largest: int, name: str, unit: str) -> int:
    value = find_integer(text)
    if value is None or not 1 <= value <= largest:
        raise RedisError(f"ERR {name} must be between 1 and {largest} {unit}")
    return value
