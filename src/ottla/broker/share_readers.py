"""Readers at other brokers of share partitions that this one leads.

    Take     --> SharePartition.acquire for each reader --> nothing left: the asking broker waits for news
    Watch    <-- news, time that was up, partitions that are led elsewhere, of all that the asking broker reads here
    Settle   --> SharePartition.begin_settle for each

What readers hold at a broker that is gone is delivered to others once its time is up, as when a client is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from ottla.broker import share_read_messages as messages
from ottla.broker.share_read_messages import (
    Begin,
    Begun,
    Event,
    Leave,
    Look,
    Part,
    Readers,
    Settle,
    Settlement,
    Store,
    Take,
    Taken,
    Watch,
)
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import broker_principal
from ottla.native import pick_records
from ottla.queues.redelivery import Delay
from ottla.queues.share_limits import limits_of_reader
from ottla.queues.share_state import ShareKey

if TYPE_CHECKING:
    from ottla.broker.share_groups import ShareGroupService
    from ottla.broker.share_partitions import Place, SharePartitions
    from ottla.queues.acknowledgements import Run
    from ottla.queues.record_delivery import Acquired
    from ottla.queues.shared_partition import SharedPartition
    from ottla.runtime.timer import Timer
    from ottla.runtime.timing_wheel import TimerTask

SILENT_MS: Final = 20_000
"""Readers of a broker that does not watch for so long are gone."""
WATCH_MS_MAX: Final = 10_000
PARTITIONS_MAX: Final = 20_000
"""Share partitions that one other broker reads here."""
REFUSED_TOGETHER: Final = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST})
"""One record that is not held any more has all of a settlement refused."""
TAKEN_BYTES_MAX: Final = 4 * 1024 * 1024
"""Once an answer has so many bytes of records, the readers that are left ask again."""
PICKED_FROM_BYTES: Final = 16 * 1024
"""Of so many bytes of batches or more nothing is sent but the records that were delivered, if those are few."""
SETTLED_SINGLY_MAX: Final = 20_000
"""Records of such a settlement that are settled one by one; it takes some 50 ms."""


class ShareReaders:
    """Belongs to the event loop."""

    def __init__(self, partitions: SharePartitions, groups: ShareGroupService, broker_id: int, timer: Timer) -> None:
        self._partitions = partitions
        self._groups = groups
        self._principal = broker_principal(broker_id)
        self._timer = timer
        self._peers: dict[int, _Peer] = {}
        self._silent: dict[int, int] = {}
        """Brokers that were forgotten and do not know it yet, and their incarnations."""
        self.readers_here: Callable[[str, UUID], int] = lambda group_id, topic_id: 0
        """How many clients of this broker read a group in a topic; said by the gateway that has them."""

    async def answered(self, broker_id: int, data: bytes) -> bytes:
        """What another broker is told. Raises ApiError."""
        try:
            message = messages.decode(data)
        except msgspec.DecodeError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"not a message of ShareReads: {error}") from error
        if isinstance(message, Begin):
            return messages.encode(await self._begin_group(message))
        if isinstance(message, Readers):
            return messages.encode(self.readers_here(message.group_id, UUID(bytes=message.topic_id)))
        if isinstance(message, Look):
            await self._partitions.look_now(message.group_id, UUID(bytes=message.topic_id))
            return b""
        peer = self._peer(broker_id, message.incarnation)
        if isinstance(message, Watch) and self._silent.pop(broker_id, None) == message.incarnation:
            raise _forgotten()
        return await self._answered(peer, message)

    async def _answered(self, peer: _Peer, message: Take | Settle | Store | Watch | Leave) -> bytes:
        match message:
            case Take():
                return messages.encode(await self._take(peer, message))
            case Settle():
                return messages.encode(await self._settle(peer, message.settlements))
            case Store():
                for number in message.numbers:
                    if (watched := peer.watched.get(number)) is not None:
                        watched.share.store_now()
                return b""
            case Watch():
                return messages.encode(await self._watch(peer, message))
            case Leave():
                for number, reader in message.readers:
                    if (watched := peer.watched.get(number)) is not None:
                        watched.forget(reader)
                for number in message.numbers:
                    self._close(peer, number)
                return b""

    def begin_anew(self, group_id: str, place: Place) -> None:
        """Readers of other brokers hold nothing of a partition any more: the channel was emptied."""
        for peer in self._peers.values():
            for watched in peer.watched.values():
                if watched.place == place and watched.share.key.group_id == group_id:
                    watched.is_over = True
                    watched.set()

    def _peer(self, broker_id: int, incarnation: int) -> _Peer:
        peer = self._peers.get(broker_id)
        if peer is not None and peer.incarnation != incarnation:
            self._forget(peer)
            peer = None
        if peer is None:
            peer = self._peers[broker_id] = _Peer(broker_id, incarnation)
        if peer.silent is not None:
            peer.silent.cancel()
        peer.silent = self._timer.schedule(SILENT_MS, partial(self._forget_silent, peer))
        return peer

    def _forget_silent(self, peer: _Peer) -> None:
        """One that reads here may have been paused, and waits for news; one that reads nothing has no need to watch."""
        if peer.watched:
            self._silent[peer.broker_id] = peer.incarnation
        self._forget(peer)

    def _forget(self, peer: _Peer) -> None:
        """A broker is gone, or was started anew."""
        if peer.silent is not None:
            peer.silent.cancel()
        if self._peers.get(peer.broker_id) is peer:
            del self._peers[peer.broker_id]
        for number in tuple(peer.watched):
            self._close(peer, number)
        peer.changed.set()

    # --- what is asked ------------------------------------------------------------------------------------------------

    async def _begin_group(self, asked: Begin) -> Begun:
        starts = {ShareKey(asked.group_id, UUID(bytes=each[0]), each[1]): each[2] for each in asked.starts}
        answer, begun = await self._groups.begin(self._principal, asked.group_id, starts)
        partitions = [(int(each.error), each.message) for key in starts if (each := begun.get(key)) is not None]
        return Begun(answer.error, answer.message, partitions)

    async def _take(self, peer: _Peer, asked: Take) -> Taken:
        try:
            watched = await self._open(peer, asked)
        except ApiError as error:
            return Taken(error.code, error.message, [])
        limits = self._partitions.limits(asked.group_id)
        parts: list[Part] = []
        size_bytes = 0
        watched.is_marked = False
        for each in asked.wanted:
            try:
                acquired = await watched.share.acquire(
                    watched.named(each.reader),
                    limits_of_reader(limits, each.lock_ms),
                    max_bytes=asked.max_bytes,
                    max_records=each.max_records,
                    exact=True,
                )
            except ApiError as error:
                if not parts:
                    return Taken(error.code, error.message, [])
                watched.wait_for_news(has_missed=True)  # what others have is theirs; who asks again is told
                break
            if not acquired.runs:
                watched.wait_for_news()
                break
            part = Part(_picked(acquired), acquired.runs)
            parts.append(part)
            size_bytes += len(part.records)
            if size_bytes >= TAKEN_BYTES_MAX and len(parts) < len(asked.wanted):
                watched.wait_for_news(has_missed=True)
                break
        return Taken(0, "", parts)

    async def _open(self, peer: _Peer, asked: Take) -> _Watched:
        """The share partition of a number. Raises ApiError."""
        place = UUID(bytes=asked.topic_id), asked.partition
        watched = peer.watched.get(asked.number)
        if watched is not None:
            if watched.is_lost:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the state of the group is to be read anew")
            return watched
        if len(peer.watched) >= PARTITIONS_MAX:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "the broker reads too many share partitions here")
        self._partitions.enter(asked.group_id, is_member=False)
        try:
            share = await self._partitions.get(self._principal, asked.group_id, place)
        except BaseException:
            self._partitions.leave(asked.group_id, is_member=False)
            raise
        if asked.number in peer.watched or self._peers.get(peer.broker_id) is not peer:
            self._partitions.leave(asked.group_id, is_member=False)
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker was forgotten meanwhile")
        for before in [each for each in peer.watched.values() if each.share.key == share.key]:
            self._close(peer, before.number)  # the broker lost it, and begins anew
        watched = peer.watched[asked.number] = _Watched(peer, asked.number, place, share)
        share.partition.subscribe(watched.on_change)
        self._partitions.add_waiter(place, watched)
        return watched

    def _close(self, peer: _Peer, number: int) -> None:
        watched = peer.watched.pop(number, None)
        if watched is None:
            return
        peer.marked.pop(watched, None)
        self._partitions.remove_waiter(watched.place, watched)
        watched.share.partition.unsubscribe(watched.on_change)
        for reader in tuple(watched.readers):
            watched.forget(reader)
        self._partitions.leave(watched.share.key.group_id, is_member=False)

    async def _settle(self, peer: _Peer, settlements: Iterable[Settlement]) -> list[int]:
        """An error code for each, once all are stored."""
        begun = [self._begin(peer, each) for each in settlements]
        return [_first_error([await _decided(part) for part in parts]) for parts in begun]

    def _begin(self, peer: _Peer, asked: Settlement) -> list[ErrorCode | asyncio.Future[ErrorCode]]:
        watched = peer.watched.get(asked.number)
        if watched is None:
            return [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        share, reader = watched.share, watched.named(asked.reader)
        limits = limits_of_reader(self._partitions.limits(share.key.group_id), asked.lock_ms)
        delay = Delay(asked.delay_ms, asked.until_ms)
        whole = share.begin_settle(reader, asked.runs, limits, delay, linger_ms=asked.linger_ms)
        count = sum(last - first + 1 for first, last, _ in asked.runs)
        if whole not in REFUSED_TOGETHER or not 1 < count <= SETTLED_SINGLY_MAX:
            return [whole]
        # The time of one was up meanwhile; what was said of the others holds.
        return [
            share.begin_settle(reader, [(offset, offset, kind)], limits, delay, linger_ms=asked.linger_ms)
            for first, last, kind in asked.runs
            for offset in range(first, last + 1)
        ]

    async def _watch(self, peer: _Peer, asked: Watch) -> list[Event]:
        peer.watches += 1
        number = peer.watches
        peer.changed.set()  # one whose connection is gone would take what this one is to tell
        for watched in peer.watched.values():
            self._partitions.look_again(watched.share.key.group_id, (watched.place,))
            if asked.is_first:
                watched.wait_for_news(has_missed=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(asked.wait_ms, WATCH_MS_MAX) / 1000):
                while number == peer.watches:
                    if events := self._events(peer):
                        return events
                    if self._peers.get(peer.broker_id) is not peer:
                        self._silent.pop(peer.broker_id, None)
                        raise _forgotten()
                    peer.changed.clear()
                    await peer.changed.wait()
        return []

    def _events(self, peer: _Peer) -> list[Event]:
        events = []
        marked, peer.marked = peer.marked, {}
        for watched in marked:
            timed_out, watched.timed_out = watched.timed_out, []
            share = watched.share
            if watched.is_lost:
                self._close(peer, watched.number)
                events.append(Event(watched.number, is_lost=True))
                continue
            limits = limits_of_reader(self._partitions.limits(share.key.group_id), 0)
            if timed_out or (watched.waits and share.has_news(limits)):
                watched.waits = False
                events.append(Event(watched.number, timed_out=timed_out))
        return events


class _Peer:
    """Another broker that reads here, since one start of it."""

    def __init__(self, broker_id: int, incarnation: int) -> None:
        self.broker_id = broker_id
        self.incarnation = incarnation
        self.watched: dict[int, _Watched] = {}
        self.marked: dict[_Watched, None] = {}
        """Those of which there may be something to tell."""
        self.changed = asyncio.Event()
        self.watches = 0
        self.silent: TimerTask | None = None


class _Watched:
    """A share partition that readers of another broker read; a waiter of it."""

    def __init__(self, peer: _Peer, number: int, place: Place, share: SharedPartition) -> None:
        self.peer = peer
        self.number = number
        self.place = place
        self.share = share
        self.readers: set[str] = set()
        self.timed_out: list[tuple[str, messages.Runs]] = []
        self.waits = False
        """Whether the broker was told that there is nothing, and of nothing new since."""
        self.is_marked = False
        """Whether something has happened since it was last asked."""
        self.is_over = False
        """Whether readers are to begin anew, and hold nothing."""

    @property
    def is_lost(self) -> bool:
        """Whether it is not to be had by this number any more."""
        return self.is_over or not self.share.is_current

    def named(self, reader: str) -> str:
        """The name by which a reader holds records here; from now on it is told whose time was up."""
        member = f"{reader}@{self.peer.broker_id}"
        if reader not in self.readers:
            self.readers.add(reader)
            self.share.watch_timeouts(member, partial(self._on_timed_out, reader))
        return member

    def forget(self, reader: str) -> None:
        """A reader is gone; what it holds is delivered to others once its time is up."""
        if reader in self.readers:
            self.readers.discard(reader)
            self.share.forget_member(f"{reader}@{self.peer.broker_id}")

    def wait_for_news(self, *, has_missed: bool = False) -> None:
        """There was nothing more to deliver; or the broker may have missed that there was."""
        self.waits = True
        if self.is_marked or has_missed:  # meanwhile there may be
            self.set()

    def set(self) -> None:
        """There may be something to tell."""
        self.is_marked = True
        self.peer.marked[self] = None
        self.peer.changed.set()

    def on_change(self, partition: object) -> None:
        """The log has grown, or another broker leads it."""
        self.set()

    def _on_timed_out(self, reader: str, runs: Iterable[Run]) -> None:
        self.timed_out.append((reader, [(first, last, count) for first, last, _, count in runs]))
        self.set()


def _picked(acquired: Acquired) -> bytes:
    """The batches that a reader is sent: one that reads a large batch message by message does not get it each time."""
    size_bytes = len(acquired.records)
    if size_bytes < PICKED_FROM_BYTES:
        return acquired.records
    return pick_records(acquired.records, [(0, size_bytes)], [(first, last) for first, last, _ in acquired.runs])


def _forgotten() -> ApiError:
    return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker was silent for too long, and forgotten")


def _first_error(codes: Iterable[ErrorCode]) -> int:
    return next((int(code) for code in codes if code is not ErrorCode.NONE), 0)


async def _decided(begun: ErrorCode | asyncio.Future[ErrorCode]) -> ErrorCode:
    return begun if isinstance(begun, ErrorCode) else await begun
