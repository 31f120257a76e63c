"""Commands of Redis clients of other brokers, on keys that this broker leads; and who wants to hear of which keys.

Run --> each command as if its client were here --> what it changed is on disk --> Ran
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from ottla.client.errors import ClientError
from ottla.gateways.redis import peer_messages as messages
from ottla.gateways.redis import reply as replies
from ottla.gateways.redis.command_call import call
from ottla.gateways.redis.error import RedisError, failed
from ottla.gateways.redis.fetched import Fetched
from ottla.gateways.redis.peer_messages import (
    BLOCKED,
    REPLY,
    Changed,
    GroupAsked,
    Outcome,
    Ran,
    Reach,
    Run,
    Versions,
    Watch,
    Watched,
)
from ottla.gateways.redis.placement import ElsewhereError, Place
from ottla.gateways.redis.session import BlockError, QuitError, Session
from ottla.gateways.redis.stream_log import Flush, are_lost
from ottla.gateways.redis.transaction import MISSING, encoded, finish_queued, places_of_all, run_queued
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal, broker_principal

if TYPE_CHECKING:
    from ottla.gateways.redis.gateway import RedisGateway

logger = logging.getLogger(__name__)

REPLY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of the replies to one `Run`: they travel as one answer between brokers."""
INTEREST_MS: Final = 10_000
"""For so long a broker hears of a key; it says once a second that it still wants to."""
TELL_TIMEOUT_MS: Final = 5_000
REACH_MS: Final = 5_000
REACH_LOOK_MS: Final = 2
UNKNOWN_VERSION: Final = b"?"
TOO_LARGE: Final = f"ERR the reply is larger than {REPLY_BYTES_MAX >> 20} MiB, and another broker's: ask for fewer"


class PeerCommands:
    """Belongs to the event loop."""

    def __init__(self, gateway: RedisGateway) -> None:
        self._gateway = gateway
        self.own = self._session(broker_principal(gateway.broker.config.node_id))
        self._interests: dict[Place, dict[int, int]] = {}
        self._news: dict[int, set[Place]] = {}

    async def answer(self, broker_id: int, data: bytes) -> bytes:
        """What another broker is told. Raises ApiError for what is no message."""
        try:
            message = messages.decode(data)
        except msgspec.DecodeError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"not a message between gateways: {error}") from error
        if isinstance(message, Reach):
            return await self._reach(message.end_offset)
        if isinstance(message, Run):
            return messages.encode(await self.run(message))
        if isinstance(message, GroupAsked):
            return await self._gateway.groups.answer(message)
        await self._gateway.until_free()
        if isinstance(message, Versions):
            return messages.encode(await self.versions([(each.database, each.key) for each in message.keys]))
        if isinstance(message, Watch):
            return messages.encode(self._watch(broker_id, message))
        for each in message.keys:
            self._gateway.waiters.changed(each.database, each.key)
        self._gateway.serve_waiters()
        return b""

    async def _reach(self, end_offset: int) -> bytes:
        for _ in range(REACH_MS // REACH_LOOK_MS):
            if self._gateway.broker.image.end_offset >= end_offset:
                return b""
            await self._gateway.broker.timer.sleep(REACH_LOOK_MS)
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "this broker does not hear of the metadata")

    # --- commands ---------------------------------------------------------------------------------------------------

    async def run(self, asked: Run) -> Ran:
        """Run commands; returns when what they rest on is on disk."""
        gateway = self._gateway
        await gateway.until_free()
        session = self._session(Principal(asked.client.type, asked.client.name, asked.client.host))
        session.database, session.protocol = asked.database, asked.protocol
        awaited: set[Flush] = set()
        outcomes: list[Outcome] = []
        if asked.is_transaction:
            outcome = await self._transaction(session, asked, awaited)
            outcomes += [] if outcome is None else [outcome]
        else:
            await self._run_all(session, asked, awaited, outcomes)
        is_lost = await are_lost(awaited)
        return Ran(outcomes, session.database, session.protocol, is_lost)

    def _session(self, principal: Principal) -> Session:
        session = Session(self._gateway, 0, "", "", self._gateway.broker.clock.now_ms(), principal)
        session.is_known = session.is_forwarded = True
        return session

    async def _run_all(self, session: Session, asked: Run, awaited: set[Flush], outcomes: list[Outcome]) -> None:
        size = 0
        for arguments in asked.commands:
            outcome = await self._one(session, arguments, awaited)
            if outcome is None:
                return
            size += len(outcome.data)
            outcomes.append(outcome if size <= REPLY_BYTES_MAX else Outcome(REPLY, replies.error(TOO_LARGE.encode())))
            if (outcome.kind == BLOCKED and not asked.goes_on) or size > REPLY_BYTES_MAX:
                return

    async def _one(self, session: Session, arguments: list[bytes], awaited: set[Flush]) -> Outcome | None:
        """What becomes of a command; None where another broker leads its key, and nothing has been done."""
        gateway, fetched = self._gateway, Fetched()
        while True:
            await gateway.until_free()
            session.now_ms = gateway.broker.clock.now_ms()
            gateway.commands_total += 1
            fetched.hold()
            outside = gateway.keyspace.awaited
            gateway.keyspace.awaited = set()
            try:
                return Outcome(REPLY, call(session, arguments))
            except RedisError as error:
                return self._failed(error)
            except BlockError as block:
                keys = [self._seen(session, key) for key in block.keys]
                return Outcome(BLOCKED, b"", block.arguments, block.timeout_ms, keys)
            except QuitError:
                return Outcome(REPLY, replies.OK.data)
            except ElsewhereError:
                return None
            except MISSING as error:
                missing = error
            finally:
                awaited |= gateway.keyspace.awaited
                gateway.keyspace.awaited = outside
                gateway.keyspace.cache.trim()
                gateway.serve_waiters()
            try:
                await gateway.fetch(missing, fetched, session)
            except ApiError as refusal:
                return self._failed(failed(refusal))
            except RedisError as error:
                return self._failed(error)

    def _failed(self, error: RedisError) -> Outcome:
        self._gateway.statistics.answered(error.line)
        return Outcome(REPLY, replies.error(error.line))

    def _seen(self, session: Session, key: bytes) -> Watched:
        try:
            version = session.keyspace.news_of((session.database, key), session.now_ms)
        except (*MISSING, ElsewhereError):
            version = UNKNOWN_VERSION
        return Watched(session.database, key, version)

    async def _transaction(self, session: Session, asked: Run, awaited: set[Flush]) -> Outcome | None:
        gateway, keyspace = self._gateway, self._gateway.keyspace
        watched = [(each.database, each.key) for each in asked.watched]
        places = [*watched, *places_of_all(session, asked.commands)]
        if any(keyspace.owner_of(place) not in (None, keyspace.placement.own_id) for place in places):
            return None
        if not await self._are_unchanged(asked.watched):
            return Outcome(REPLY, replies.encode(replies.NULL_ARRAY, session.protocol))
        session.now_ms = gateway.broker.clock.now_ms()
        answers: list[bytes] = []
        outside = keyspace.awaited
        keyspace.awaited = set()
        missing = run_queued(session, asked.commands, answers)
        awaited |= keyspace.awaited
        keyspace.awaited = outside
        if missing is not None:
            await asyncio.shield(finish_queued(session, asked.commands, answers, missing, awaited))
        gateway.serve_waiters()
        return Outcome(REPLY, encoded(answers))

    async def _are_unchanged(self, watched: list[Watched]) -> bool:
        """Whether keys have the versions that were seen; no command runs between the look and the return."""
        gateway = self._gateway
        while True:
            await gateway.until_free()
            now_ms = gateway.broker.clock.now_ms()
            try:
                return all(
                    gateway.keyspace.version_of((each.database, each.key), now_ms) == each.version for each in watched
                )
            except ElsewhereError:
                return False
            except MISSING as missing:
                try:
                    await gateway.fetch(missing, Fetched(), self.own)
                except ApiError:
                    return False

    async def versions(self, places: list[Place]) -> list[Watched]:
        """The versions of keys, which are read from their logs if need be."""
        return [Watched(*place, await self._version(place)) for place in places]

    async def _version(self, place: Place) -> bytes:
        gateway = self._gateway
        while True:
            try:
                return gateway.keyspace.version_of(place, gateway.broker.clock.now_ms())
            except ElsewhereError:
                return UNKNOWN_VERSION
            except MISSING as missing:
                try:
                    await gateway.fetch(missing, Fetched(), self.own)
                except ApiError:
                    return UNKNOWN_VERSION

    # --- who wants to hear of keys ------------------------------------------------------------------------------------

    def _watch(self, broker_id: int, message: Watch) -> list[Watched]:
        """Remember who wants to hear of keys; returns those that have changed already."""
        now_ms = self._gateway.broker.clock.now_ms()
        changed = []
        for each in message.keys:
            place = each.database, each.key
            try:
                is_same = self._gateway.keyspace.news_of(place, now_ms) == each.version
            except (*MISSING, ElsewhereError):
                is_same = False
            if is_same:
                self._interests.setdefault(place, {})[broker_id] = now_ms + INTEREST_MS
            else:
                changed.append(each)
        return changed

    def changed(self, place: Place) -> None:
        """A key has changed."""
        interested = self._interests.pop(place, None) if self._interests else None
        if interested is None:
            return
        now_ms = self._gateway.broker.clock.now_ms()
        for broker_id, until_ms in interested.items():
            if until_ms > now_ms:
                news = self._news.get(broker_id)
                if news is None:
                    news = self._news[broker_id] = set()
                    asyncio.get_running_loop().call_soon(self._tell_soon, broker_id)
                news.add(place)

    def _tell_soon(self, broker_id: int) -> None:
        keys = [Watched(*place, b"") for place in self._news.pop(broker_id)]
        self._gateway.broker.tasks.spawn(self._tell(broker_id, Changed(keys)), "redis-changed")

    async def _tell(self, broker_id: int, message: Changed) -> None:
        try:
            await self._gateway.forwarding.ask(broker_id, message, timeout_ms=TELL_TIMEOUT_MS)
        except (ClientError, ApiError) as error:
            logger.debug("broker %d does not hear of changes, and looks by itself: %s", broker_id, error)

    def forget_old_interests(self) -> None:
        """Brokers that have not said again that they want to hear of keys do not."""
        now_ms = self._gateway.broker.clock.now_ms()
        for place, interested in tuple(self._interests.items()):
            if max(interested.values()) <= now_ms:
                del self._interests[place]
