"""Share partitions that other brokers lead, as readers at this one have them: those of channels of NSQ.

    reader --> RemoteShare.acquire      --> Take     what gathers while one is answered is the next
           --> RemoteShare.begin_settle --> Settle   the same, of all share partitions of one leader
           <-- subscribe                <-- Watch    asked again and again while anybody reads something of that leader

A RemoteShare is lost with its leader; readers ask for another one, or this broker leads by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from ottla.broker import share_read_messages as messages
from ottla.broker.access import Authorizer, Operation, ResourceType, require
from ottla.broker.remote_leader import TIMEOUT_MS, RemoteLeader
from ottla.broker.share_read_channel import RemoteReaders
from ottla.broker.share_read_messages import Event, Look, Part, Readers, Settlement, Take, Wanted
from ottla.client.errors import ClientError, error_code
from ottla.metadata.image.image import NO_LEADER, MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.queues.acknowledgements import AVAILABLE, RELEASE
from ottla.queues.record_delivery import Acquired
from ottla.queues.redelivery import NO_DELAY, Delay
from ottla.queues.share_state import ShareKey

if TYPE_CHECKING:
    from ottla.broker.share_partitions import Place
    from ottla.model.principal import Principal
    from ottla.queues.acknowledgements import Run
    from ottla.queues.owners import OnTimedOut
    from ottla.queues.share_limits import ShareLimits
    from ottla.runtime.rng import Rng
    from ottla.runtime.tasks import Tasks

LANES: Final = 4
"""Connections to each leader for `Take`: one that waits for the disk holds up those behind it."""
LOOK_MS: Final = 2_000
CLOSING_S: Final = 1.0
"""Who reads anew waits for so long until its leader knows what was said before."""
TAKEN_TOGETHER_MAX: Final = 64
"""Readers whose records one answer brings."""
NOTHING: Final = Part()

OnChange = Callable[[object], None]


class RemoteShares:
    """Of one broker. Belongs to the event loop."""

    def __init__(
        self,
        remote: RemoteReaders,
        current_image: Callable[[], MetadataImage],
        broker_id: int,
        authorizer: Authorizer,
        *,
        rng: Rng,
        tasks: Tasks,
    ) -> None:
        self.remote = remote
        self.tasks = tasks
        self.incarnation = rng.randbelow(1 << 62)
        """By which leaders know the readers of this start of the broker from those of an earlier one."""
        self._current_image = current_image
        self._broker_id = broker_id
        self._authorizer = authorizer
        self._leaders: dict[int, RemoteLeader] = {}
        self._shares: dict[ShareKey, RemoteShare] = {}
        self._numbers = count(1)

    def get(self, principal: Principal, group_id: str, place: Place) -> RemoteShare:
        """The share partition at the broker that leads it now. Raises ApiError: LEADER_NOT_AVAILABLE where that is
        nobody, or this broker.
        """
        topic = self._current_image().topic_by_id(place[0])
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "the topic was deleted")
        require(self._authorizer, principal, Operation.READ, ResourceType.TOPIC, topic.name)
        require(self._authorizer, principal, Operation.READ, ResourceType.GROUP, group_id)
        leader_id = topic.partitions[place[1]].leader
        if leader_id in (NO_LEADER, self._broker_id):
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"no other broker leads {topic.name}-{place[1]} now")
        key = ShareKey(group_id, *place)
        share = self._shares.get(key)
        if share is not None and share.leader.broker_id != leader_id:
            share.lose()
            share = None
        if share is None:
            leader = self._leaders.get(leader_id)
            if leader is None:
                leader = self._leaders[leader_id] = RemoteLeader(leader_id, self.remote, self.incarnation, self.tasks)
            share = self._shares[key] = RemoteShare(key, next(self._numbers), leader, self._forget)
        return share

    async def has_readers(self, group_id: str, topic_id: UUID, *, if_unknown: bool) -> bool:
        """Whether clients of other brokers read a group in a topic; `if_unknown` where some do not answer, and no other
        has any.
        """
        asked = messages.encode(Readers(group_id, topic_id.bytes))
        are_known = True
        for broker_id in sorted(self._current_image().active_brokers() - {self._broker_id}):
            try:
                if messages.decode_count(await self.remote.ask(broker_id, asked, "settle", TIMEOUT_MS)):
                    return True
            except (ClientError, ApiError, msgspec.DecodeError):
                are_known = False
        return if_unknown and not are_known

    async def look(self, group_id: str, topic_id: UUID) -> None:
        """Have readers at other brokers begin anew; those that do not answer look by themselves within seconds."""
        asked = messages.encode(Look(group_id, topic_id.bytes))
        others = sorted(self._current_image().active_brokers() - {self._broker_id})
        await asyncio.gather(*(self._look(broker_id, asked) for broker_id in others))

    async def _look(self, broker_id: int, asked: bytes) -> None:
        with contextlib.suppress(ClientError, ApiError):
            await self.remote.ask(broker_id, asked, "settle", LOOK_MS)

    def _forget(self, share: RemoteShare) -> None:
        """A share partition is lost, or nobody reads it any more."""
        if self._shares.get(share.key) is share:
            del self._shares[share.key]


class RemoteShare:
    """What readers at this broker have of a share partition that another one leads: see
    `ottla.queues.shared_partition.ReadablePartition`.
    """

    def __init__(
        self, key: ShareKey, number: int, leader: RemoteLeader, on_lost: Callable[[RemoteShare], None]
    ) -> None:
        """`on_lost` is called when it is of no use any more."""
        self._on_lost = on_lost
        self.key = key
        self.number = number
        self.leader = leader
        self.is_current = True
        self._has_news = True
        self._subscribers: tuple[OnChange, ...] = ()
        self._readers: dict[str, OnTimedOut] = {}
        self._wanted: list[tuple[Wanted, int, asyncio.Future[Part]]] = []
        self._taken_for: list[str] = []
        """The readers of the request that is not answered yet."""
        self._leaving: list[str] = []
        """Those of them that are gone."""
        self._told_early: list[tuple[str, list[Run]]] = []
        """Whose time was up while they were taking, maybe of what they are about to get."""
        self._takes = 0
        """Requests whose records the readers do not have yet."""
        self._is_taking = False
        self._happened = 0

    @property
    def partition(self) -> RemoteShare:
        """Whom to ask for what is new of the partition: itself."""
        return self

    def subscribe(self, on_change: OnChange) -> None:
        """Call `on_change` when there may be something to deliver, or it is lost."""
        self._subscribers = (*self._subscribers, on_change)

    def unsubscribe(self, on_change: OnChange) -> None:
        """Call it no more."""
        self._subscribers = tuple(each for each in self._subscribers if each != on_change)

    def has_news(self, limits: ShareLimits) -> bool:
        """Whether there may be something to deliver: as long as the leader has not said that there is nothing."""
        return self.is_current and self._has_news

    async def acquire(
        self, member_id: str, limits: ShareLimits, *, max_bytes: int, max_records: int, exact: bool
    ) -> Acquired:
        """Have the leader deliver records to a reader, so many at most. Raises ApiError."""
        assert exact
        if not self.is_current:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads the partition by now")
        taken: asyncio.Future[Part] = asyncio.get_running_loop().create_future()
        self._wanted.append((Wanted(member_id, max_records, limits.lock_ms), max_bytes, taken))
        if not self._is_taking:
            self._is_taking = True
            self.leader.watch(self)
            self.leader.tasks.spawn(self._take(), "share-take")
        part = await taken
        return Acquired(part.records, part.runs)

    async def _take(self) -> None:
        wanted = self._wanted
        try:
            if (before := self.leader.closing.get(self.key)) is not None:
                await asyncio.wait((before,), timeout=CLOSING_S)
            while self._wanted:
                wanted, self._wanted = self._wanted[:TAKEN_TOGETHER_MAX], self._wanted[TAKEN_TOGETHER_MAX:]
                wanted = [each for each in wanted if not each[2].done()]
                if not wanted:
                    continue
                self._taken_for = [each.reader for each, _, _ in wanted]
                self._takes += 1
                parts = await self._taken([each for each, _, _ in wanted], wanted[0][1])
                parts += [NOTHING] * (len(wanted) - len(parts))
                for part, (each, _, taken) in zip(parts, wanted, strict=True):
                    if not taken.done():
                        taken.set_result(part)
                    elif part.runs:  # the reader is gone, and has not seen them
                        runs = [(first, last, RELEASE) for first, last, _ in part.runs]
                        self.leader.settlements.settle(
                            Settlement(self.number, each.reader, runs, each.lock_ms, 0, 0, 0)
                        )
                self._taken_for = []
                asyncio.get_running_loop().call_soon(self._have_taken)
                while self._leaving:
                    self._leave(self._leaving.pop())
        except ApiError as error:
            self.lose()
            wanted, self._wanted = [*wanted, *self._wanted], []
            for _, _, taken in wanted:
                if not taken.done():
                    taken.set_exception(ApiError(error.code, error.message))
        finally:
            self._is_taking = False

    def _have_taken(self) -> None:
        """The readers have their parts, and so what their time may have been up for before."""
        told = self._told_early
        self._takes -= 1
        if not self._takes:
            self._told_early = []
        self._tell_timed_out(told)

    async def _taken(self, wanted: list[Wanted], max_bytes: int) -> list[Part]:
        key, happened = self.key, self._happened
        asked = Take(
            self.leader.incarnation,
            self.number,
            key.group_id,
            key.topic_id.bytes,
            key.partition,
            max_bytes,
            wanted,
        )
        lane = zlib.crc32(key.group_id.encode()) % LANES
        answer = await self.leader.ask(asked, f"take-{lane}", messages.decode_taken)
        if answer.error:
            raise ApiError(error_code(answer.error), answer.message)
        if not _fit(answer.parts, wanted):
            message = f"broker {self.leader.broker_id} answers with what nobody asked for"
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, message)
        if len(answer.parts) < len(wanted):
            # The leader says when there is more, unless it has said so already.
            self._has_news = self._happened != happened
        return answer.parts

    def begin_settle(
        self,
        member_id: str,
        runs: list[tuple[int, int, int]],
        limits: ShareLimits,
        delay: Delay | None = NO_DELAY,
        *,
        linger_ms: int = 0,
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Tell the leader what a reader said of what it holds; decided when it is stored."""
        if not self.is_current:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        delay_ms, until_ms = delay or NO_DELAY
        return self.leader.settlements.settle(
            Settlement(self.number, member_id, runs, limits.lock_ms, delay_ms, until_ms, linger_ms)
        )

    def store_now(self) -> None:
        """Have the leader store what waits for more."""
        if self.is_current:
            self.leader.tasks.spawn(self.leader.settlements.store(self.number), "share-store")

    def watch_timeouts(self, member_id: str, on_timed_out: OnTimedOut) -> None:
        """Tell a reader which of its records were released because their time was up."""
        self._readers[member_id] = on_timed_out

    def forget_member(self, member_id: str) -> None:
        """A reader is gone; what it holds is released when its time is up."""
        if self._readers.pop(member_id, None) is not None and self.is_current:
            if member_id in self._taken_for:
                self._leaving.append(member_id)
            else:
                self._leave(member_id)

    def _leave(self, member_id: str) -> None:
        self.leader.settlements.leave(self.number, member_id)
        if not self._readers and not self._leaving:
            self.leader.close(self)
            self.is_current = False
            self._on_lost(self)

    def happened(self, event: Event) -> None:
        """The leader has told of it."""
        if event.is_lost:
            self.lose()
            return
        self._happened += 1
        self._has_news = True
        told: list[tuple[str, list[Run]]] = [
            (reader, [(first, last, AVAILABLE, count) for first, last, count in runs])
            for reader, runs in event.timed_out
        ]
        self._tell_timed_out(told)
        if self._takes:
            self._told_early += told
        self._tell()

    def _tell_timed_out(self, told: list[tuple[str, list[Run]]]) -> None:
        for reader, runs in told:
            on_timed_out = self._readers.get(reader)
            if on_timed_out is not None:
                on_timed_out(runs)

    def lose(self) -> None:
        """Another broker leads it, or its leader cannot be reached: readers look for it anew."""
        if not self.is_current:
            return
        self.is_current = False
        self.leader.close(self)
        self._on_lost(self)
        self._tell()

    def _tell(self) -> None:
        for on_change in self._subscribers:
            on_change(self)


def _fit(parts: Sequence[Part], wanted: Sequence[Wanted]) -> bool:
    """Whether parts are such as readers asked for: no more of them, and none with more records."""
    return len(parts) <= len(wanted) and all(
        sum(last - first + 1 for first, last, _ in part.runs) <= each.max_records
        and all(first <= last and count for first, last, count in part.runs)
        for part, each in zip(parts, wanted, strict=False)
    )
