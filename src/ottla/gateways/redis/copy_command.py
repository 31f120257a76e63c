"""COPY: a stream once more, under another key.

    COPY orders again             again has a topic of its own, with all that orders has
    COPY orders again REPLACE     the copy is made beside what `again` has, and takes its place once it is whole

Both keys are held until the copy is whole, so nobody sees a part of it; what writes it is `stream_copy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.access import Operation
from ottla.gateways.redis.error import SYNTAX, RedisError, failed
from ottla.gateways.redis.keyspace import KEY_BYTES_MAX, TopicMissingError
from ottla.gateways.redis.long_work import UnfinishedError, Work
from ottla.gateways.redis.numbers import integer
from ottla.gateways.redis.placement import ElsewhereError
from ottla.gateways.redis.stream_copy import StreamCopy
from ottla.gateways.redis.stream_log import are_lost
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native.errors import KernelError

if TYPE_CHECKING:
    from ottla.gateways.redis.placement import Place
    from ottla.gateways.redis.reply import Reply
    from ottla.gateways.redis.session import Session
    from ottla.gateways.redis.stream import Stream

_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


def copy_options(arguments: list[bytes], database: int) -> tuple[int, bool]:
    """The database of the copy, and whether it replaces what is there. Raises RedisError."""
    replaces, at = False, 3
    while at < len(arguments):
        option = arguments[at].upper()
        if option == b"REPLACE":
            replaces = True
            at += 1
        elif option == b"DB" and at + 1 < len(arguments):
            database = integer(arguments[at + 1])
            if not _INT_MIN <= database <= _INT_MAX:
                raise RedisError(f"ERR value is out of range, value must between {_INT_MIN} and {_INT_MAX}")
            at += 2
        else:
            raise RedisError(SYNTAX)
    return database, replaces


def copy(session: Session, arguments: list[bytes]) -> Reply:
    """COPY."""
    keyspace, now_ms = session.keyspace, session.now_ms
    database, replaces = copy_options(arguments, session.database)
    if not 0 <= database < len(keyspace.databases):
        raise RedisError("ERR DB index is out of range")
    place = database, arguments[2]
    if place == (session.database, arguments[1]):
        raise RedisError("ERR source and destination objects are the same")
    if len(place[1]) > KEY_BYTES_MAX:
        raise RedisError(f"ERR keys of more than {KEY_BYTES_MAX} bytes are not served")
    session.require_access(arguments[1], Operation.READ)
    session.require_access(place[1], Operation.WRITE, *([Operation.DELETE] if replaces else ()), database=database)
    source = session.find(arguments[1])
    if source is None:
        return 0
    before, is_elsewhere = None, False
    try:
        before = keyspace.find(*place, now_ms)
    except ElsewhereError:
        if not replaces:
            raise
        is_elsewhere = True
    if before is not None and not replaces:
        return 0
    source.require_tail()
    if before is None and session.access is not None:
        session.access.require_creation(keyspace.topic_of(*place))
    target = None
    if before is None and not is_elsewhere:
        target = keyspace.copies.take_spare(place)
        if target is None:
            raise TopicMissingError(place)
    session.work = CopyWork(session, source, place, before, target)
    raise UnfinishedError(session.work)


class CopyWork(Work):
    """A copy that is being made: into a topic that has its key already, or beside the stream that it is to replace."""

    def __init__(
        self, session: Session, source: Stream, place: Place, before: Stream | None, target: Stream | None
    ) -> None:
        self._broker = session.gateway.broker
        self._now_ms = session.now_ms
        self._source = source
        self._place = place
        self._before = before
        self._target = target
        super().__init__(session, [each for each in (source, before, target) if each is not None])

    async def _work(self) -> None:
        try:
            await self._copy()
            self._reply = 1
        except ApiError as error:
            self._error = failed(error)
        except (KernelError, OSError) as error:
            self._error = RedisError(f"ERR the stream cannot be copied: {error}")
        except Exception as error:  # raised where the command is called
            self._error = error
        if self._target is not None and self._error is not None:
            with self._changing():
                self._keyspace.copies.drop(self._target, self._place, self._before)

    async def _copy(self) -> None:
        keyspace, broker, source = self._keyspace, self._broker, self._source
        is_beside = self._target is None
        if self._target is None:
            self._target = await keyspace.copies.make_beside(self._place)
        target, before = self._target, self._before
        replaced = (keyspace.placement.topic_of(self._place) or "") if before is None else before.log.topic
        partition = broker.replicas.get(source.log.topic, 0)
        copy = StreamCopy(source, target, self._place, partition, broker.tasks)
        await copy.write(self._now_ms, replaced if is_beside else "")
        if is_beside:
            await self._take_place(target)
        with self._changing():
            keyspace.copies.put(target, self._place, before, self._now_ms)

    async def _take_place(self, target: Stream) -> None:
        """Among several brokers the settings of topics say which has the key: this one from now on."""
        keyspace, before = self._keyspace, self._before
        keyspace.hold(target, self)
        self._streams.append(target)
        keyspace.databases[self._place[0]][self._place[1]] = target
        if not keyspace.placement.has_peers:
            return
        if before is not None and not before.journal:
            await before.log.settled()
        told = keyspace.topics.tell_key(target, self._place)
        if await are_lost({told}):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, told.error or "")
