"""One client that reads a channel: what is in flight to it, and what it says of each message.

A channel is a share group, and a message a record. A message that is pushed is acquired by the client for its message
timeout; FIN accepts it, REQ releases it, TOUCH renews it. When the client goes, what it has is delivered to others once
its time is up, as with nsqd.

A client that subscribes at a broker that does not lead gets messages once it does: a replica of a leader that is gone.
One whose broker leads no longer is hung up on, and looks for the next.

FINs hold as soon as they are read; those of up to 10 ms are stored together.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from ottla.broker.share_partitions import Place, SharePartitions
from ottla.gateways.nsq.error import NsqError
from ottla.gateways.nsq.message_id import OFFSET_BITS, OFFSET_MAX, parse_message_id
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.native import nsq_message_frames
from ottla.native.errors import KernelError
from ottla.queues.acknowledgements import ACCEPT, GAP, RELEASE, RENEW, Run
from ottla.queues.record_delivery import Acquired
from ottla.queues.redelivery import NO_DELAY, Delay
from ottla.queues.share_limits import ShareLimits
from ottla.queues.shared_partition import SharedPartition
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

READ_BYTES: Final = 256 * 1024
"""About so many bytes of the log are read for each push; one batch at least."""
DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""A run of batches that expands beyond it is not delivered."""
FINISHED_LINGER_MS: Final = 10
"""FINs wait for so long to be stored together."""

LIMITS_MS: Final = 1_000
"""How long the settings of the group are used before they are looked at again."""
LOOK_AGAIN_MS: Final = 250
"""How often it is looked whether this broker leads by now, or the channel goes on."""

_LED_ELSEWHERE: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE})
_OF_ALL: Final = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST})
"""One record that is not held any more has all of them refused."""


class ReaderCounts(Struct):
    """What has happened on one connection; nsqd shows these of each client."""

    message_count: int = 0
    finish_count: int = 0
    requeue_count: int = 0
    timeout_count: int = 0


class ChannelReader:
    """Belongs to the event loop; `run` is its task."""

    def __init__(
        self,
        reader_id: str,
        channel: str,
        places: Sequence[Place],
        partitions: SharePartitions,
        principal: Principal,
        *,
        message_timeout_ms: int,
        message_timeout_max_ms: int,
        send: Callable[[bytes], None],
        may_send: Callable[[], bool],
        is_paused: Callable[[], bool],
        clock: Clock,
        tasks: Tasks,
        samples: Callable[[], bool] | None = None,
    ) -> None:
        """`reader_id` is the name by which it holds messages. `send` takes frames; `may_send` says whether the
        connection keeps up with them; `wake` is to be called when it does again, and when `is_paused`, which says that
        the channel delivers nothing, has changed. `samples` says of a message whether the client gets it: one that it
        does not get is done.
        """
        self.channel = channel
        self.counts = ReaderCounts()
        self.ready_count = 0
        self._reader_id = reader_id
        self._places = list(places)
        self._partitions = partitions
        self._principal = principal
        self._message_timeout_ms = message_timeout_ms
        self._message_timeout_max_ms = message_timeout_max_ms
        self._send = send
        self._may_send = may_send
        self._is_paused = is_paused
        self._clock = clock
        self._tasks = tasks
        self._samples = samples
        self._shares: dict[int, SharedPartition] = {}
        """By partition, as they were read last."""
        self._in_flight: dict[int, dict[int, int]] = {}
        """When each message was delivered that the client has, by partition and offset."""
        self._finished: dict[int, list[int]] = {}
        """Offsets of messages that are done, of what has just been read of the client, by partition."""
        self._settling: set[asyncio.Future[ErrorCode]] = set()
        self._changed = asyncio.Event()
        self._is_pushing = False
        """Whether `run` is about to push, and may be waiting for what."""
        self._is_closing = False
        self._looks_again = False
        self._known_limits: ShareLimits | None = None
        self._limits_ms = 0

    @property
    def in_flight_count(self) -> int:
        """Messages that the client has."""
        return sum(map(len, self._in_flight.values()))

    def wake(self) -> None:
        """There may be something to push."""
        self._changed.set()

    def set_ready(self, count: int) -> None:
        """So many messages may be in flight from now on."""
        self.ready_count = count
        self.wake()

    @property
    def topic_id(self) -> UUID:
        """The topic that it reads."""
        return self._places[0][0]

    def look_again(self) -> None:
        """Look whether another broker emptied or deleted the channel."""
        self._partitions.look_again(self.channel, self._places)

    def stop_pushing(self) -> None:
        """The client wants no more messages; it settles those that it has."""
        self._is_closing = True

    def forget_in_flight(self) -> None:
        """The channel was emptied: the client has nothing any more."""
        for in_flight in self._in_flight.values():
            in_flight.clear()
        self.wake()

    async def all_settled(self) -> None:
        """Wait until what the client has said of its messages is stored."""
        self.settle_finished()
        while self._settling:
            for share in self._shares.values():
                share.store_now()
            await asyncio.wait(self._settling)

    async def run(self) -> None:
        """Push messages until the task is cancelled. Raises ApiError when the channel cannot be read any more."""
        self._partitions.enter(self.channel, is_member=False)
        for place in self._places:
            self._partitions.add_waiter(place, self._changed)
        try:
            while True:
                self._changed.clear()
                self._is_pushing = True
                if await self._push():
                    continue
                self._is_pushing = False
                # That this broker leads by now, or the channel goes on, nobody says.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN_MS / 1000 if self._looks_again else None):
                        await self._changed.wait()
        finally:
            for place in self._places:
                self._partitions.remove_waiter(place, self._changed)
            try:
                # What the client said before it went holds: a share partition settles for members that it knows.
                await self.all_settled()
            finally:
                for share in self._shares.values():
                    self._unwatch(share)
                self._partitions.leave(self.channel, is_member=False)

    async def _push(self) -> bool:
        """Push what there is room for, of the first partition that has something. Returns whether there was any."""
        self.settle_finished()
        await self._read_lost_anew()
        if self._is_paused():
            self._looks_again = True  # another broker may be told to go on
            return False
        self._looks_again = False
        for place in tuple(self._places):
            room = self.ready_count - self.in_flight_count
            if room <= 0 or self._is_closing or not self._may_send():
                return False
            try:
                share = await self._partitions.get(self._principal, self.channel, place)
            except ApiError as error:
                if error.code not in _LED_ELSEWHERE or place[1] in self._shares:
                    raise
                self._looks_again = True
                continue
            self._watch(share)
            limits = self._limits()
            if not share.has_news(limits):
                continue
            acquired = await share.acquire(self._reader_id, limits, max_bytes=READ_BYTES, max_records=room, exact=True)
            if not acquired.runs:
                continue
            self._push_acquired(share, place, acquired)
            return True
        return False

    async def _read_lost_anew(self) -> None:
        """Also where there is no room: the channel was emptied, and the client has nothing any more, or it is gone."""
        for place in tuple(self._places):
            share = self._shares.get(place[1])
            if share is not None and not share.is_current:
                self._watch(await self._partitions.get(self._principal, self.channel, place))

    def push_at_hand(self) -> None:
        """Push what there is room for, of the first partition that has something in memory. The rest `run` pushes."""
        room = self.ready_count - self.in_flight_count
        if room <= 0 or self._is_closing or self._changed.is_set():
            return
        if self._is_pushing or self._is_paused() or not self._may_send():
            self.wake()
            return
        limits = self._limits()
        for place in self._places:
            try:
                share = self._partitions.at_hand(self._principal, self.channel, place)
            except ApiError:
                share = None  # `run` is told, too
            if share is None or self._shares.get(place[1]) is not share:
                self.wake()
                return
            acquired = share.acquire_at_hand(self._reader_id, limits, max_bytes=READ_BYTES, max_records=room)
            if acquired.runs:
                self._push_acquired(share, place, acquired)
            if self.in_flight_count < self.ready_count and share.has_news(limits):
                self.wake()
                return
            if acquired.runs:
                return

    def _push_acquired(self, share: SharedPartition, place: Place, acquired: Acquired) -> None:
        """Push what was delivered of a partition; those of the others come first the next time."""
        self._places.remove(place)
        self._places.append(place)
        self._push_records(share, acquired.records, acquired.runs)

    def _push_records(self, share: SharedPartition, records: bytes, runs: list[tuple[int, int, int]]) -> None:
        partition = share.key.partition
        if self._samples is not None:
            runs, left_out = _sampled(runs, self._samples)
            if left_out:
                self._settle(share, [(first, last, ACCEPT) for first, last, _ in left_out])
        try:
            frames, missing = nsq_message_frames(
                records, runs, partition, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX
            )
        except KernelError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the records at offset {runs[0][0]}: {error}") from error
        now_ms = self._clock.monotonic_ms()
        in_flight = self._in_flight[partition]
        for first, last, _ in runs:
            in_flight.update(dict.fromkeys(range(first, last + 1), now_ms))
            self.counts.message_count += last - first + 1
        for offset in missing:  # compaction took them
            del in_flight[offset]
            self._settle(share, [(offset, offset, GAP)])
        self.counts.message_count -= len(missing)
        self._send(frames)

    # --- what the client says ---------------------------------------------------------------------------------------

    def finish(self, identity: bytes) -> None:
        """FIN; stored with `settle_finished`. Raises NsqError."""
        partition, offset = self._take("FIN", identity)
        self._finished.setdefault(partition, []).append(offset)
        self.counts.finish_count += 1

    def finish_many(self, numbers: Sequence[int]) -> list[int]:
        """FINs that arrived together, with the ids as numbers; stored with `settle_finished`, and `push_at_hand` makes
        use of the room. Returns those that failed.
        """
        failed = []
        for number in numbers:
            partition, offset = number >> OFFSET_BITS, number & OFFSET_MAX
            in_flight = self._in_flight.get(partition)
            if in_flight is None or in_flight.pop(offset, None) is None:
                failed.append(number)
            else:
                self._finished.setdefault(partition, []).append(offset)
        self.counts.finish_count += len(numbers) - len(failed)
        return failed

    def settle_finished(self) -> None:
        """What has been finished since the last call is done, in one."""
        if not self._finished:
            return
        finished, self._finished = self._finished, {}
        for partition, offsets in finished.items():
            share, runs = self._shares[partition], _accepted(offsets)
            begun = share.begin_settle(self._reader_id, runs, self._limits(), linger_ms=FINISHED_LINGER_MS)
            if begun in _OF_ALL and len(offsets) > 1:
                # The time of one was up meanwhile; the others are done.
                for offset in offsets:
                    self._settle(share, [(offset, offset, ACCEPT)])
            else:
                self._follow(begun)

    def requeue(self, identity: bytes, delay_ms: int) -> None:
        """REQ. Raises NsqError."""
        partition, offset = self._take("REQ", identity)
        self.counts.requeue_count += 1
        delay = Delay(delay_ms, self._clock.now_ms() + delay_ms) if delay_ms else NO_DELAY
        self._settle(self._shares[partition], [(offset, offset, RELEASE)], delay)

    def touch(self, identity: bytes) -> None:
        """TOUCH: the message timeout begins anew, up to a longest time since the delivery. Raises NsqError."""
        partition, offset = self._find("TOUCH", identity)
        left_ms = self._in_flight[partition][offset] + self._message_timeout_max_ms - self._clock.monotonic_ms()
        limits = self._limits()._replace(lock_ms=max(0, min(self._message_timeout_ms, left_ms)))
        self._follow(self._shares[partition].begin_settle(self._reader_id, [(offset, offset, RENEW)], limits))

    def _take(self, command: str, identity: bytes) -> tuple[int, int]:
        partition, offset = self._find(command, identity)
        del self._in_flight[partition][offset]
        self.wake()
        return partition, offset

    def _find(self, command: str, identity: bytes) -> tuple[int, int]:
        """Partition and offset of a message that the client has."""
        place = parse_message_id(identity)
        if place is not None and place[1] in self._in_flight.get(place[0], ()):
            return place
        if place is not None and self._is_held(*place):
            raise _not_settled(command, identity, "client does not own message")
        raise not_in_flight(command, identity)

    def _is_held(self, partition: int, offset: int) -> bool:
        """Whether another client has the message."""
        loaded = (self._partitions.loaded(self.channel, each) for each in self._places if each[1] == partition)
        return any(share is not None and share.holder(offset) not in (None, self._reader_id) for share in loaded)

    def _settle(self, share: SharedPartition, runs: list[tuple[int, int, int]], delay: Delay = NO_DELAY) -> None:
        self._follow(share.begin_settle(self._reader_id, runs, self._limits(), delay))

    def _follow(self, begun: "ErrorCode | asyncio.Future[ErrorCode]") -> None:
        if isinstance(begun, ErrorCode):
            self._told(begun)
        else:
            self._settling.add(begun)
            begun.add_done_callback(self._on_settled)

    def _on_settled(self, settled: "asyncio.Future[ErrorCode]") -> None:
        self._settling.discard(settled)
        if not settled.cancelled():
            self._told(settled.result())

    def _told(self, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            # It stays with the client until its time is up, and is delivered again.
            logger.info("channel %s: a message was not settled: %s", self.channel, error.name)

    # --- the channel ------------------------------------------------------------------------------------------------

    def _limits(self) -> ShareLimits:
        """NSQ has no limit of deliveries: the group's holds where it has a topic for dead letters. The client says how
        long it may take. Messages of DPUB come by transactions, so what these did not commit is never delivered.
        """
        now_ms = self._clock.monotonic_ms()
        if self._known_limits is None or now_ms - self._limits_ms >= LIMITS_MS:
            limits = self._partitions.limits(self.channel)
            self._known_limits = limits._replace(
                lock_ms=self._message_timeout_ms,
                deliveries_max=limits.deliveries_max if limits.letters_topic else 0,
                read_committed=True,
            )
            self._limits_ms = now_ms
        return self._known_limits

    def _watch(self, share: SharedPartition) -> None:
        partition = share.key.partition
        before = self._shares.get(partition)
        if before is share:
            return
        if before is not None:
            self._unwatch(before)
        # What another leader delivered, or this one before its state was loaded anew, is delivered again.
        self._shares[partition] = share
        self._in_flight[partition] = {}
        share.partition.subscribe(self._on_partition_change)
        share.watch_timeouts(self._reader_id, lambda runs: self._on_timed_out(share, runs))

    def _unwatch(self, share: SharedPartition) -> None:
        share.partition.unsubscribe(self._on_partition_change)
        share.forget_member(self._reader_id)

    def _on_partition_change(self, partition: object) -> None:
        self.wake()

    def _on_timed_out(self, share: SharedPartition, runs: Sequence[Run]) -> None:
        if self._shares.get(share.key.partition) is not share:
            return
        in_flight = self._in_flight[share.key.partition]
        for first, last, _, _ in runs:
            for offset in range(first, last + 1):
                if in_flight.pop(offset, None) is not None:
                    self.counts.timeout_count += 1
        self.wake()


Delivered = list[tuple[int, int, int]]
"""Runs of messages: first and last offset, and how often they were delivered."""


def _sampled(runs: Delivered, samples: Callable[[], bool]) -> tuple[Delivered, Delivered]:
    """The messages of runs that are delivered, and those that are left out.

    >>> choices = iter([True, False, False, True])
    >>> _sampled([(5, 7, 1), (9, 9, 2)], lambda: next(choices))
    ([(5, 5, 1), (9, 9, 2)], [(6, 7, 1)])
    """
    parts: tuple[Delivered, Delivered] = [], []
    for first, last, count in runs:
        for offset in range(first, last + 1):
            part = parts[0] if samples() else parts[1]
            if part and part[-1][1] + 1 == offset and part[-1][2] == count:
                part[-1] = part[-1][0], offset, count
            else:
                part.append((offset, offset, count))
    return parts


def _accepted(offsets: list[int]) -> list[tuple[int, int, int]]:
    """Runs of messages that are done.

    >>> _accepted([5, 3, 4, 8])
    [(3, 5, 1), (8, 8, 1)]
    """
    runs: list[tuple[int, int, int]] = []
    for offset in sorted(offsets):
        if runs and runs[-1][1] + 1 == offset:
            runs[-1] = runs[-1][0], offset, ACCEPT
        else:
            runs.append((offset, offset, ACCEPT))
    return runs


def not_in_flight(command: str, identity: bytes) -> NsqError:
    """The error of FIN, REQ or TOUCH for a message that nobody has."""
    return _not_settled(command, identity, "ID not in flight")


def _not_settled(command: str, identity: bytes, reason: str) -> NsqError:
    return NsqError(f"E_{command}_FAILED", f"{command} ".encode() + identity + f" failed {reason}".encode())
