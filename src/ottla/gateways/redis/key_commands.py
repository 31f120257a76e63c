"""Commands of keys, whatever their type: TYPE, EXISTS, DEL, KEYS, SCAN, RENAME, the EXPIRE family and others."""

import zlib
from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from ottla.gateways.redis.error import SYNTAX, RedisError
from ottla.gateways.redis.glob import matches
from ottla.gateways.redis.numbers import INT64_MAX, INT64_MIN, integer
from ottla.gateways.redis.placement import ElsewhereError
from ottla.gateways.redis.reply import OK, Reply, Simple
from ottla.gateways.redis.session import Session
from ottla.gateways.redis.stream import Stream
from ottla.gateways.redis.stream_records import Expires

NO_KEY: Final = -2
NO_EXPIRY: Final = -1
SCAN_COUNT: Final = 10
KEY_OVERHEAD_BYTES: Final = 96


def type_of(session: Session, arguments: list[bytes]) -> Reply:
    """TYPE."""
    return Simple(b"none" if session.find(arguments[1]) is None else b"stream")


def exists(session: Session, arguments: list[bytes]) -> Reply:
    """EXISTS, TOUCH: how many of the keys there are."""
    return sum(session.find(key) is not None for key in arguments[1:])


def delete(session: Session, arguments: list[bytes]) -> Reply:
    """DEL, UNLINK. All keys are looked for before one goes: the command may run again for what it lacks."""
    found = [stream for key in dict.fromkeys(arguments[1:]) if (stream := session.find(key)) is not None]
    for stream in found:
        session.keyspace.delete(stream, session.now_ms)
    return len(found)


def keys(session: Session, arguments: list[bytes]) -> Reply:
    """KEYS."""
    return [key for key in session.key_names() if matches(arguments[1], key)]


def scan(session: Session, arguments: list[bytes]) -> Reply:
    """SCAN. Each key has a place of its own by its name, whichever others come and go: the cursor is the place of the
    next key, so that one that is there all the time is shown, and once.
    """
    text = arguments[1]
    if not text.isdigit() or len(text) > 20:
        raise RedisError("ERR invalid cursor")
    cursor, pattern, count, kind = int(text), b"*", SCAN_COUNT, b"stream"
    at = 2
    while at < len(arguments):
        option = arguments[at].upper()
        if at + 1 >= len(arguments):
            raise RedisError(SYNTAX)
        value = arguments[at + 1]
        if option == b"MATCH":
            pattern = value
        elif option == b"COUNT":
            count = integer(value)
            if count < 1:
                raise RedisError(SYNTAX)
        elif option == b"TYPE":
            kind = value.lower()
        else:
            raise RedisError(SYNTAX)
        at += 2
    places = sorted((zlib.crc32(key) + 1, key) for key in session.key_names())
    begin = bisect_left(places, (cursor, b""))
    end = min(begin + count, len(places))
    while begin < end < len(places) and places[end][0] == places[end - 1][0]:
        end += 1
    following = places[end][0] if end < len(places) else 0
    shown = [key for _, key in places[begin:end] if matches(pattern, key)] if kind == b"stream" else []
    return [b"%d" % following, shown]


def dbsize(session: Session, arguments: list[bytes]) -> Reply:
    """DBSIZE."""
    return len(session.key_names())


def random_key(session: Session, arguments: list[bytes]) -> Reply:
    """RANDOMKEY."""
    found = session.key_names()
    return found[session.gateway.broker.rng.randbelow(len(found))] if found else None


def flush_database(session: Session, arguments: list[bytes]) -> Reply:
    """FLUSHDB."""
    _check_flush(arguments)
    _flush(session, [session.database], arguments)
    return OK


def flush_all(session: Session, arguments: list[bytes]) -> Reply:
    """FLUSHALL."""
    _check_flush(arguments)
    _flush(session, range(len(session.keyspace.databases)), arguments)
    return OK


def _check_flush(arguments: list[bytes]) -> None:
    if len(arguments) > 2 or (len(arguments) == 2 and arguments[1].upper() not in (b"SYNC", b"ASYNC")):
        raise RedisError(SYNTAX)


def _flush(session: Session, databases: Iterable[int], arguments: list[bytes]) -> None:
    for database in databases:
        for key, _ in session.keyspace.live(database, session.now_ms):
            session.require_access(key, database=database)
    session.ask_others(arguments)
    for database in databases:
        for _, stream in session.keyspace.live(database, session.now_ms):
            session.keyspace.delete(stream, session.now_ms)


def rename(session: Session, arguments: list[bytes]) -> Reply:
    """RENAME. What another broker has at the second key is replaced from here."""
    stream = session.require(arguments[1])
    if arguments[1] != arguments[2]:
        with suppress(ElsewhereError):
            session.find(arguments[2])
        session.keyspace.rename(stream, session.database, arguments[2], session.now_ms)
    return OK


def rename_if_free(session: Session, arguments: list[bytes]) -> Reply:
    """RENAMENX."""
    stream = session.require(arguments[1])
    if arguments[1] == arguments[2] or session.find(arguments[2]) is not None:
        return 0
    session.keyspace.rename(stream, session.database, arguments[2], session.now_ms)
    return 1


def move(session: Session, arguments: list[bytes]) -> Reply:
    """MOVE."""
    database = integer(arguments[2])
    if not 0 <= database < len(session.keyspace.databases):
        raise RedisError("ERR DB index is out of range")
    if database == session.database:
        raise RedisError("ERR source and destination objects are the same")
    session.require_access(arguments[1], database=database)
    stream = session.find(arguments[1])
    if stream is None or session.keyspace.find(database, arguments[1], session.now_ms) is not None:
        return 0
    session.keyspace.rename(stream, database, arguments[1], session.now_ms)
    return 1


# --- expiry ---------------------------------------------------------------------------------------------------------


def expire(session: Session, arguments: list[bytes]) -> Reply:
    """EXPIRE."""
    return _expire(session, arguments, 1_000, is_absolute=False)


def pexpire(session: Session, arguments: list[bytes]) -> Reply:
    """PEXPIRE."""
    return _expire(session, arguments, 1, is_absolute=False)


def expire_at(session: Session, arguments: list[bytes]) -> Reply:
    """EXPIREAT."""
    return _expire(session, arguments, 1_000, is_absolute=True)


def pexpire_at(session: Session, arguments: list[bytes]) -> Reply:
    """PEXPIREAT."""
    return _expire(session, arguments, 1, is_absolute=True)


def _expire(session: Session, arguments: list[bytes], unit_ms: int, *, is_absolute: bool) -> Reply:
    flags = set()
    for option in arguments[3:]:
        if option.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            raise RedisError(b"ERR Unsupported option %s" % option)
        flags.add(option.upper())
    if b"NX" in flags and len(flags) > 1:
        raise RedisError("ERR NX and XX, GT or LT options at the same time are not compatible")
    if {b"GT", b"LT"} <= flags:
        raise RedisError("ERR GT and LT options at the same time are not compatible")
    at_ms = integer(arguments[2]) * unit_ms + (0 if is_absolute else session.now_ms)
    if not INT64_MIN <= at_ms <= INT64_MAX or (not is_absolute and at_ms > INT64_MAX):
        raise RedisError(f"ERR invalid expire time in '{arguments[0].decode().lower()}' command")
    stream = session.find(arguments[1])
    if stream is None:
        return 0
    current = stream.expires_ms
    if (
        (b"NX" in flags and current is not None)
        or (b"XX" in flags and current is None)
        or (b"GT" in flags and (current is None or at_ms <= current))
        or (b"LT" in flags and current is not None and at_ms >= current)
    ):
        return 0
    if at_ms <= session.now_ms:
        session.keyspace.delete(stream, session.now_ms)
    else:
        stream.mark(session.now_ms, Expires(at_ms))
        session.keyspace.changed(stream)
        session.keyspace.expire_later(stream, at_ms)
    return 1


def persist(session: Session, arguments: list[bytes]) -> Reply:
    """PERSIST."""
    stream = session.find(arguments[1])
    if stream is None or stream.expires_ms is None:
        return 0
    stream.mark(session.now_ms, Expires(None))
    session.keyspace.changed(stream)
    return 1


def _left_ms(session: Session, key: bytes, *, is_absolute: bool) -> int:
    stream = session.find(key)
    if stream is None:
        return NO_KEY
    if stream.expires_ms is None:
        return NO_EXPIRY
    return stream.expires_ms if is_absolute else max(0, stream.expires_ms - session.now_ms)


def ttl(session: Session, arguments: list[bytes]) -> Reply:
    """TTL."""
    left_ms = _left_ms(session, arguments[1], is_absolute=False)
    return left_ms if left_ms < 0 else (left_ms + 500) // 1_000


def pttl(session: Session, arguments: list[bytes]) -> Reply:
    """PTTL."""
    return _left_ms(session, arguments[1], is_absolute=False)


def expire_time(session: Session, arguments: list[bytes]) -> Reply:
    """EXPIRETIME."""
    at_ms = _left_ms(session, arguments[1], is_absolute=True)
    return at_ms if at_ms < 0 else (at_ms + 500) // 1_000


def pexpire_time(session: Session, arguments: list[bytes]) -> Reply:
    """PEXPIRETIME."""
    return _left_ms(session, arguments[1], is_absolute=True)


# --- what a key looks like inside -----------------------------------------------------------------------------------


def object_of(session: Session, arguments: list[bytes]) -> Reply:
    """OBJECT ENCODING and its like."""
    name = arguments[1].upper()
    if session.find(arguments[2]) is None:
        return None
    if name == b"FREQ":
        raise RedisError(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when "
            "switching between policies at runtime LRU and LFU data will take some time to adjust."
        )
    return {b"ENCODING": b"stream", b"REFCOUNT": 1, b"IDLETIME": 0}[name]


def memory(session: Session, arguments: list[bytes]) -> Reply:
    """MEMORY USAGE: what Redis would need, about. PURGE has nothing to give back."""
    if arguments[1].upper() == b"PURGE":
        return OK
    if arguments[1].upper() != b"USAGE":
        raise RedisError(b"ERR MEMORY %b is not served: the broker's metrics tell of its memory" % arguments[1].upper())
    at = 3
    while at < len(arguments):
        if arguments[at].upper() != b"SAMPLES" or at + 1 >= len(arguments):
            raise RedisError(SYNTAX)
        if integer(arguments[at + 1]) < 0:
            raise RedisError(SYNTAX)
        at += 2
    stream = session.find(arguments[2])
    return None if stream is None else _usage(stream)


def _usage(stream: Stream) -> int:
    limit = stream.limits.bytes_max
    size = KEY_OVERHEAD_BYTES + len(stream.key or b"") + stream.nodes.size_bytes(limit)
    return size + sum(84 * len(group.pending) for group in stream.groups.values())
