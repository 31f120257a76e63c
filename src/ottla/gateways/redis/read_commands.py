"""Commands that read entries: XLEN, XRANGE, XREVRANGE, XREAD, and what XREADGROUP shares with that."""

from collections.abc import Generator, Iterable
from itertools import islice
from typing import Final

from msgspec import Struct

from ottla.gateways.redis.error import SYNTAX, RedisError
from ottla.gateways.redis.long_reply import LongReplyError, Span, span_of
from ottla.gateways.redis.long_work import SLICE, Steps, array_of_entries, chunks, in_slices, let_go
from ottla.gateways.redis.numbers import integer, timeout_ms
from ottla.gateways.redis.reply import NULL_ARRAY, RESP3, Pairs, Reply, bulk
from ottla.gateways.redis.session import BlockError, Session
from ottla.gateways.redis.stream import Stream
from ottla.gateways.redis.stream_id import id_text, parse_end, parse_id, parse_start

_WITH_NUMBER: Final = frozenset({b"BLOCK", b"COUNT", b"MAXCOUNT", b"MAXSIZE", b"CLAIM"})


def xlen(session: Session, arguments: list[bytes]) -> Reply:
    """The number of entries."""
    stream = session.find(arguments[1])
    return 0 if stream is None else stream.length


def xrange(session: Session, arguments: list[bytes]) -> Reply:
    """Entries of an interval."""
    return _range(session, arguments, arguments[2], arguments[3], is_reverse=False)


def xrevrange(session: Session, arguments: list[bytes]) -> Reply:
    """Entries of an interval, the last first."""
    return _range(session, arguments, arguments[3], arguments[2], is_reverse=True)


def _range(session: Session, arguments: list[bytes], start: bytes, end: bytes, *, is_reverse: bool) -> Reply:
    first = parse_start(start)
    last = parse_end(end)
    count = None
    at = 4
    while at < len(arguments):
        if arguments[at].upper() != b"COUNT" or at + 1 >= len(arguments):
            raise RedisError(SYNTAX)
        count = max(0, integer(arguments[at + 1]))
        at += 2
    stream = session.find(arguments[1])
    if stream is None:
        return []
    if count == 0:
        return NULL_ARRAY
    steps = _entries(stream, first, last, count, is_reverse=is_reverse, may_be_long=session.may_be_long)
    return in_slices(session, [stream], steps)


def _entries(stream: Stream, first: int, last: int, count: int | None, *, is_reverse: bool, may_be_long: bool) -> Steps:
    if may_be_long:
        span = yield from span_of(stream, first, last, count, is_reverse=is_reverse)
        if span is not None:
            raise LongReplyError([span])
    entries = stream.reverse_range(first, last) if is_reverse else stream.range(first, last)
    return (yield from array_of_entries(islice(entries, count)))


class ReadOptions(Struct):
    """What XREAD and XREADGROUP say before the keys; `block_ms` is None without BLOCK."""

    count: int | None = None
    count_max: int | None = None
    bytes_max: int | None = None
    block_ms: int | None = None
    group: bytes | None = None
    consumer: bytes = b""
    no_ack: bool = False
    claim_ms: int | None = None
    at: int = 0
    """Where the keys begin."""
    keys: int = 0


class Room:
    """How many entries and bytes may still be answered with; at least one entry may."""

    def __init__(self, options: ReadOptions) -> None:
        self._count_max = options.count_max
        self._bytes_max = options.bytes_max
        self._count = 0
        self._bytes = 0

    @property
    def is_bounded(self) -> bool:
        """Whether there is a limit at all."""
        return self._count_max is not None or self._bytes_max is not None

    def take(self, fields: list[bytes]) -> bool:
        """Whether an entry may be added."""
        size = sum(map(len, fields)) if self._bytes_max is not None else 0
        if self._count:
            if self._count_max is not None and self._count >= self._count_max:
                return False
            if self._bytes_max is not None and self._bytes + size > self._bytes_max:
                return False
        self._count += 1
        self._bytes += size
        return True


def parse_read(arguments: list[bytes], *, is_group: bool) -> ReadOptions:
    """The options of XREAD or XREADGROUP. Raises RedisError."""
    options = ReadOptions()
    at, end = 1, len(arguments)
    while at < end:
        name, more = arguments[at].upper(), end - at - 1
        if name == b"STREAMS" and more:
            options.at, options.keys = at + 1, more // 2
            if more % 2:
                raise _unbalanced(is_group=is_group)
            break
        if name == b"GROUP" and more >= 2:
            _require_group(is_group, "GROUP")
            options.group, options.consumer = arguments[at + 1], arguments[at + 2]
            at += 3
        elif name == b"NOACK":
            _require_group(is_group, "NOACK")
            options.no_ack = True
            at += 1
        elif name in _WITH_NUMBER and more:
            _number(options, name, arguments[at + 1], is_group=is_group)
            at += 2
        else:
            raise RedisError(SYNTAX)
    if not options.at:
        raise RedisError(SYNTAX)
    if options.count_max is not None and options.count is not None and options.count_max < options.count:
        raise RedisError("ERR MAXCOUNT must be greater than or equal to COUNT")
    if is_group and options.group is None:
        raise RedisError("ERR Missing GROUP option for XREADGROUP")
    return options


def _number(options: ReadOptions, name: bytes, text: bytes, *, is_group: bool) -> None:
    match name:
        case b"BLOCK":
            options.block_ms = timeout_ms(text)
        case b"COUNT":
            count = integer(text)
            options.count = count if count > 0 else None
        case b"CLAIM":
            _require_group(is_group, "CLAIM")
            options.claim_ms = integer(text, "ERR min-idle-time is not an integer")
            if options.claim_ms < 0:
                raise RedisError("ERR min-idle-time must be a positive integer")
        case _:
            limit = integer(text)
            if limit <= 0:
                raise RedisError(f"ERR {name.decode()} must be a positive integer")
            if name == b"MAXCOUNT":
                options.count_max = limit
            else:
                options.bytes_max = limit


def _unbalanced(*, is_group: bool) -> RedisError:
    if is_group:
        what = "'xreadgroup' list of streams: for each stream key an ID or '>'"
    else:
        what = "'xread' list of streams: for each stream key an ID, '+', or '$'"
    return RedisError(f"ERR Unbalanced {what} must be specified.")


def _require_group(is_group: bool, option: str) -> None:
    if not is_group:
        raise RedisError(f"ERR The {option} option is only supported by XREADGROUP. You called XREAD instead.")


def xread(session: Session, arguments: list[bytes]) -> Reply:
    """Entries behind an id of each of some streams."""
    options = parse_read(arguments, is_group=False)
    keys = arguments[options.at : options.at + options.keys]
    texts = arguments[options.at + options.keys :]
    streams: list[Stream | None] = []
    after: list[int] = []
    for key, text in zip(keys, texts, strict=True):
        stream = session.find(key)
        streams.append(stream)
        if text == b"$":
            after.append(0 if stream is None else stream.last_id)
        elif text == b">":
            raise RedisError(
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
            )
        elif text == b"+":
            after.append(-1)
        else:
            after.append(parse_id(text))
    found = [each for each in streams if each is not None]
    return in_slices(session, found, _read(session, arguments, options, keys, streams, after))


def _read(
    session: Session,
    arguments: list[bytes],
    options: ReadOptions,
    keys: list[bytes],
    streams: list[Stream | None],
    after: list[int],
) -> Steps:
    items = yield from _found(session, options, zip(keys, streams, after, strict=True))
    if any(isinstance(each, Span) for _, each in items):
        raise LongReplyError(_pieces_of(items, session.protocol))
    if items:
        return Pairs(items)
    return wait(session, arguments, options, keys, [b"0" if each < 0 else id_text(each) for each in after])


def _found(
    session: Session, options: ReadOptions, wanted: Iterable[tuple[bytes, Stream | None, int]]
) -> Generator[None, None, list[tuple[bytes, Reply]]]:
    """What each of some streams has behind an id; the last entry for one below zero."""
    items: list[tuple[bytes, Reply]] = []
    room = Room(options)
    for key, stream, entry_id in wanted:
        if stream is None or not stream.length:
            continue
        if entry_id < 0:
            last = stream.last_valid_id
            found = list(stream.range(last, last))
        elif stream.has_after(entry_id):
            is_whole = session.may_be_long and not room.is_bounded
            span = (yield from span_of(stream, entry_id + 1, stream.last_id, options.count)) if is_whole else None
            if span is not None:
                items.append((key, span))
                continue
            found = []
            for some in chunks(islice(stream.range(entry_id + 1, stream.last_id), options.count)):
                found += some
                if len(some) == SLICE:
                    yield
        else:
            continue
        found = [each for each in found if room.take(each[1])] if room.is_bounded else found
        if found:
            items.append((key, (yield from array_of_entries(found))))
            yield from let_go(found)
    return items


def _pieces_of(items: list[tuple[bytes, Reply]], protocol: int) -> list[bytes | Span]:
    """The reply of XREAD, of which some streams have long spans."""
    pieces: list[bytes | Span] = [(b"%%%d\r\n" if protocol == RESP3 else b"*%d\r\n") % len(items)]
    for key, each in items:
        pieces.append((b"" if protocol == RESP3 else b"*2\r\n") + bulk(key))
        pieces += [each] if isinstance(each, Span) else each.pieces
    return pieces


def wait(
    session: Session, arguments: list[bytes], options: ReadOptions, keys: list[bytes], after: list[bytes]
) -> Reply:
    """There is nothing: wait for it, if the client does."""
    if options.block_ms is None or session.in_transaction:
        return NULL_ARRAY
    raise BlockError(keys, options.block_ms, [*arguments[: options.at + options.keys], *after])
