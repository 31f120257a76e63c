"""The options by which XADD and XTRIM say what is to be removed."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from ottla.gateways.redis.deletion import delete
from ottla.gateways.redis.error import SYNTAX, RedisError
from ottla.gateways.redis.long_work import SLICE, Steps, slices
from ottla.gateways.redis.numbers import integer
from ottla.gateways.redis.stream import NodeLimits, Stream
from ottla.gateways.redis.stream_id import GivenId, floor_bytes, id_bytes, parse_given_id, parse_id
from ottla.gateways.redis.stream_records import Released, Trimmed

LIMIT_MAX: Final = 1_000_000
LIMIT_WITHOUT_NODES: Final = 10_000
POLICIES: Final = {b"KEEPREF": "keepref", b"DELREF": "delref", b"ACKED": "acked"}


class Options(Struct):
    """What was said before the id of an entry, or behind the key of XTRIM."""

    policy: str = "keepref"
    length_max: int | None = None
    id_min: int | None = None
    is_approximate: bool = False
    limit: int | None = None
    makes_stream: bool = True
    entry_id: GivenId | None = None
    producer: bytes | None = None
    idempotent_id: bytes | None = None
    """Empty for one that is made of the fields."""
    at: int = 0
    """Where the id stands."""

    @property
    def trims(self) -> bool:
        """Whether something is to be removed."""
        return self.length_max is not None or self.id_min is not None


def parse_options(arguments: Sequence[bytes], *, is_add: bool) -> Options:
    """The options from the third argument on. Raises RedisError."""
    options = Options()
    at, end = 2, len(arguments)
    while at < end:
        word = arguments[at]
        if is_add and word == b"*":
            break
        name, more = word.upper(), end - 1 - at
        if name in (b"MAXLEN", b"MINID") and more:
            at = _strategy(options, arguments, at, name, more)
        elif name == b"LIMIT" and more:
            options.limit = integer(arguments[at + 1])
            if options.limit < 0:
                raise RedisError("ERR The LIMIT argument must be >= 0.")
            at += 1
        elif name in POLICIES:
            options.policy = POLICIES[name]
        elif is_add and name == b"NOMKSTREAM":
            options.makes_stream = False
        elif is_add and name in (b"IDMP", b"IDMPAUTO") and more >= (2 if name == b"IDMP" else 1):
            at = _idempotence(options, arguments, at, name)
        elif is_add:
            options.entry_id = parse_given_id(word)
            break
        else:
            raise RedisError(SYNTAX)
        at += 1
    options.at = at
    _check(options, is_add=is_add)
    return options


def _strategy(options: Options, arguments: Sequence[bytes], at: int, name: bytes, more: int) -> int:
    if options.trims:
        raise RedisError("ERR syntax error, MAXLEN and MINID options at the same time are not compatible")
    options.is_approximate = False
    if more >= 2 and arguments[at + 1] in (b"~", b"="):
        options.is_approximate = arguments[at + 1] == b"~"
        at += 1
    if name == b"MAXLEN":
        options.length_max = integer(arguments[at + 1])
        if options.length_max < 0:
            raise RedisError("ERR The MAXLEN argument must be >= 0.")
    else:
        options.id_min = parse_id(arguments[at + 1])
    return at + 1


def _idempotence(options: Options, arguments: Sequence[bytes], at: int, name: bytes) -> int:
    if options.producer is not None:
        raise RedisError("ERR IDMP/IDMPAUTO specified multiple times")
    options.producer = arguments[at + 1]
    if not options.producer:
        raise RedisError(f"ERR {name.decode()} requires a non-empty producer ID")
    if name == b"IDMPAUTO":
        options.idempotent_id = b""
        return at + 1
    options.idempotent_id = arguments[at + 2]
    if not options.idempotent_id:
        raise RedisError("ERR IDMP requires a non-empty idempotent ID")
    return at + 2


def _check(options: Options, *, is_add: bool) -> None:
    if options.limit and not options.trims:
        raise RedisError("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
    if not is_add and not options.trims:
        raise RedisError("ERR syntax error, XTRIM must be called with a trimming strategy")
    if options.limit is not None and not options.is_approximate:
        raise RedisError("ERR syntax error, LIMIT cannot be used without the special ~ option")
    if options.producer is not None and options.entry_id is not None:
        raise RedisError("ERR IDMP/IDMPAUTO can be used only with auto-generated IDs")


def trim(stream: Stream, options: Options, now_ms: int) -> int:
    """Remove what the options say; returns how many entries that were. Raises NodeMissingError before any change."""
    steps = trim_in_steps(stream, options, now_ms)
    while True:
        try:
            next(steps)
        except StopIteration as over:
            removed: int = over.value
            return removed


def trim_in_steps(stream: Stream, options: Options, now_ms: int) -> Steps:
    """The same a slice at a time."""
    limit = _limit(options, stream.limits)
    if options.policy == "acked":
        return (yield from _trim_acknowledged(stream, options, limit, now_ms))
    removed, floor, part = plan(stream, options, limit)
    if removed or (stream.nodes and stream.nodes[0].last_id < floor):  # a node may hold nothing but deleted entries
        stream.mark(now_ms, Trimmed(floor_bytes(floor), part))
        if options.policy == "delref":
            yield from release_below(stream, floor, now_ms)
    return removed


def plan(stream: Stream, options: Options, limit: int) -> tuple[int, int, int]:
    """What is removed, as `Stream.plan_trim_length` says it."""
    if options.length_max is not None:
        return stream.plan_trim_length(options.length_max, limit, approximate=options.is_approximate)
    assert options.id_min is not None
    return stream.plan_trim_id(options.id_min, limit, approximate=options.is_approximate)


def release_below(stream: Stream, floor: int, now_ms: int) -> Iterator[None]:
    """Entries below an id are pending in no group any more."""
    for group in stream.groups.values():
        while ids := [id_bytes(entry_id) for entry_id, _ in islice(group.pending_from(0, floor - 1), SLICE)]:
            stream.mark(now_ms, Released(group.name, ids))
            if len(ids) < SLICE:
                break
            yield


def is_acknowledged(stream: Stream, entry_id: int) -> bool:
    """Whether every group has read an entry and acknowledged it."""
    return all(entry_id <= group.last_id and entry_id not in group.pending for group in stream.groups.values())


def _trim_acknowledged(stream: Stream, options: Options, limit: int, now_ms: int) -> Steps:
    over = stream.length - options.length_max if options.length_max is not None else stream.length
    going: list[int] = []
    looked = 0
    for node in stream.nodes:
        looked += node.count
        if looked >= SLICE:
            looked = 0
            yield
        if over - len(going) <= 0 or (options.id_min is not None and node.first_id >= options.id_min):
            break
        entries = [entry_id for entry_id, _ in stream.range(node.first_id, node.last_id)]
        if options.id_min is not None:
            below = [entry_id for entry_id in entries if entry_id < options.id_min]
        else:
            below = entries[: over - len(going)]
        free = [entry_id for entry_id in below if is_acknowledged(stream, entry_id)]
        if options.is_approximate:
            if len(free) < len(entries):
                continue
            if limit and len(going) + len(free) > limit:
                break
        going += free
    for some in slices(going):
        delete(stream, some, now_ms, raises_tombstone=False)
        if len(some) == SLICE:
            yield
    return len(going)


def _limit(options: Options, limits: NodeLimits) -> int:
    if not options.is_approximate:
        return 0
    if options.limit is not None:
        return options.limit
    limit = 100 * limits.entries_max
    return min(limit, LIMIT_MAX) if limit > 0 else LIMIT_WITHOUT_NODES
