"""Another broker that leads share partitions which clients of this one read: how it is asked, and what it tells."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ottla.broker import share_read_messages as messages
from ottla.broker.remote_settlements import RemoteSettlements
from ottla.broker.share_read_messages import Message, Watch
from ottla.client.errors import ClientError, UnsupportedApiError
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

if TYPE_CHECKING:
    from ottla.broker.remote_shares import RemoteShare
    from ottla.broker.share_read_channel import RemoteReaders
    from ottla.queues.share_state import ShareKey
    from ottla.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

TIMEOUT_MS: Final = 30_000
WATCH_MS: Final = 5_000

T = TypeVar("T")


class RemoteLeader:
    """Another broker, and what is read there."""

    def __init__(self, broker_id: int, remote: RemoteReaders, incarnation: int, tasks: Tasks) -> None:
        self.broker_id = broker_id
        self.incarnation = incarnation
        self.tasks = tasks
        self._remote = remote
        self.watched: dict[int, RemoteShare] = {}
        """By number, those that it has been asked for."""
        self.closing: dict[ShareKey, asyncio.Future[None]] = {}
        """Those that nobody reads any more, until it has heard of it, and of what was said of them before."""
        self.settlements = RemoteSettlements(self._ask_to_settle, incarnation, tasks)
        self._is_watching = False
        self._is_older = False

    async def ask(self, message: Message, lane: str, decode: Callable[[bytes], T], timeout_ms: int = TIMEOUT_MS) -> T:
        """Raises ApiError, LEADER_NOT_AVAILABLE where it cannot be reached or understood."""
        try:
            answer = decode(await self._remote.ask(self.broker_id, messages.encode(message), lane, timeout_ms))
        except UnsupportedApiError as error:
            raise self._older() from error
        except (ClientError, msgspec.DecodeError) as error:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {self.broker_id}: {error}") from error
        self._is_older = False
        return answer

    async def _ask_to_settle(self, message: Message, decode: Callable[[bytes], T]) -> T:
        return await self.ask(message, "settle", decode)

    def _older(self) -> ApiError:
        if not self._is_older:
            self._is_older = True
            logger.warning(
                "broker %d is of a version that delivers NSQ channels to its own clients alone: until it is updated, "
                "clients here that read what it leads are hung up on, and are to connect to it",
                self.broker_id,
            )
        return ApiError(ErrorCode.UNSUPPORTED_VERSION, f"broker {self.broker_id} leads it, and is of an older version")

    def watch(self, share: RemoteShare) -> None:
        """Have it told of what happens to a share partition."""
        self.watched[share.number] = share
        if not self._is_watching:
            self._is_watching = True
            self.tasks.spawn(self._watch(), "share-watch")

    async def _watch(self) -> None:
        asked = Watch(self.incarnation, WATCH_MS, is_first=True)
        try:
            while self.watched:
                events = await self.ask(asked, "watch", messages.decode_events, WATCH_MS + TIMEOUT_MS)
                asked = Watch(self.incarnation, WATCH_MS)
                for event in events:
                    share = self.watched.get(event.number)
                    if share is not None:
                        share.happened(event)
        except ApiError:
            for share in tuple(self.watched.values()):
                share.lose()
        finally:
            self._is_watching = False

    def close(self, share: RemoteShare) -> None:
        """Nobody reads a share partition any more."""
        self.watched.pop(share.number, None)
        closed = self.closing[share.key] = self.settlements.close(share.number)
        closed.add_done_callback(lambda closed: self._has_closed(share.key, closed))

    def _has_closed(self, key: ShareKey, closed: asyncio.Future[None]) -> None:
        if self.closing.get(key) is closed:
            del self.closing[key]
