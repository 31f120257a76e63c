"""One client that reads a channel: what is pushed to it.

A channel is a share group, and a message a record. A message that is pushed is acquired by the client for its message
timeout; FIN accepts it, REQ releases it, TOUCH renews it. When the client goes, what it has is delivered to others once
its time is up, as with nsqd.

A client gets messages at any broker: those that another one leads come from there (`ottla.broker.remote_shares`).
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from ottla.broker.remote_shares import RemoteShares
from ottla.broker.share_partitions import Place, SharePartitions
from ottla.gateways.nsq.channel_partitions import PASSING, ChannelPartitions
from ottla.gateways.nsq.error import NsqError
from ottla.gateways.nsq.in_flight import InFlight
from ottla.gateways.nsq.sampling import first_of, sampled
from ottla.gateways.nsq.settlements import Settlements
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.native import nsq_message_frames
from ottla.native.errors import KernelError
from ottla.queues.acknowledgements import ACCEPT, GAP, RELEASE, Run
from ottla.queues.record_delivery import NOTHING, Acquired
from ottla.queues.shared_partition import ReadablePartition
from ottla.runtime.clock import Clock

READ_BYTES: Final = 256 * 1024
"""About so many bytes of the log are read for each push; one batch at least."""
DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""A run of batches that expands beyond it is not delivered."""
LOOK_AGAIN_MS: Final = 250
"""How often it is looked whether anybody leads by now, or the channel goes on."""


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
        on_failed: Callable[[NsqError], None] = lambda error: None,
        elsewhere: RemoteShares | None = None,
        samples: Callable[[], bool] | None = None,
    ) -> None:
        """`reader_id` is the name by which it holds messages. `send` takes frames; `may_send` says whether the
        connection keeps up with them; `wake` is to be called when it does again, and when `is_paused`, which says that
        the channel delivers nothing, has changed. `on_failed` is told of FIN, REQ and TOUCH that turned out to
        be in vain. `elsewhere` has the partitions that other brokers lead. `samples`
        says of a message whether the client gets it: one that it does not get is done.
        """
        self.channel = channel
        self.counts = ReaderCounts()
        self.ready_count = 0
        self._reader_id = reader_id
        self._partitions = partitions
        self._send = send
        self._may_send = may_send
        self._is_paused = is_paused
        self._clock = clock
        self._samples = samples
        self._in_flight = InFlight()
        self._own = ChannelPartitions(
            reader_id,
            channel,
            places,
            partitions,
            elsewhere,
            principal,
            message_timeout_ms,
            clock,
            on_change=self._on_change,
            on_lost=self._on_lost,
            on_timed_out=self._on_timed_out,
        )
        self._settlements = Settlements(
            reader_id,
            self._own,
            self._in_flight,
            clock,
            message_timeout_ms=message_timeout_ms,
            message_timeout_max_ms=message_timeout_max_ms,
            on_failed=on_failed,
        )
        self._changed = asyncio.Event()
        self._is_pushing = False
        """Whether `run` is about to push, and may be waiting for what."""
        self._is_closing = False
        self._looks_again = False

    @property
    def in_flight_count(self) -> int:
        """Messages that the client has."""
        return self._in_flight.count

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
        return self._own.places[0][0]

    def look_again(self) -> None:
        """Look whether another broker emptied or deleted the channel."""
        self._partitions.look_again(self.channel, self._own.places)

    def stop_pushing(self) -> None:
        """The client wants no more messages; it settles those that it has."""
        self._is_closing = True

    def forget_in_flight(self) -> None:
        """The channel was emptied: the client has nothing any more."""
        self._in_flight.clear()
        self.wake()

    async def run(self) -> None:
        """Push messages until the task is cancelled. Raises ApiError when the channel cannot be read any more."""
        self._partitions.enter(self.channel, is_member=False)
        places = tuple(self._own.places)
        for place in places:
            self._partitions.add_waiter(place, self._changed)
        try:
            while True:
                self._changed.clear()
                self._is_pushing = True
                if await self._push():
                    continue
                self._is_pushing = False
                # That somebody leads by now, or the channel goes on, nobody says.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN_MS / 1000 if self._looks_again else None):
                        await self._changed.wait()
        finally:
            for place in places:
                self._partitions.remove_waiter(place, self._changed)
            try:
                # What the client said before it went holds: a share partition settles for members that it knows.
                await self.all_settled()
            finally:
                self._own.close()
                self._partitions.leave(self.channel, is_member=False)

    # --- pushing ------------------------------------------------------------------------------------------------------

    async def _push(self) -> bool:
        """Push what there is room for, of the first partition that has something. Returns whether there was any."""
        self.settle_finished()
        self._looks_again = False
        # Also where there is no room: the channel was emptied, and the client has nothing any more, or it is gone.
        for place in self._own.lost():
            await self._found(place)
        if self._is_paused():
            self._looks_again = True  # another broker may be told to go on
            return False
        for place in tuple(self._own.places):
            room = self.ready_count - self.in_flight_count
            if room <= 0 or self._is_closing or not self._may_send():
                return False
            share = await self._found(place)
            if share is None:
                continue
            acquired = await self._acquired(share, place, room)
            if acquired.runs:
                self._push_acquired(share, place, acquired)
                return True
        return False

    async def _found(self, place: Place) -> ReadablePartition | None:
        share = await self._own.get(place)
        if share is None:
            self._looks_again = True
        return share

    async def _acquired(self, share: ReadablePartition, place: Place, room: int) -> Acquired:
        limits = self._own.limits()
        if not share.has_news(limits):
            return NOTHING
        try:
            return await share.acquire(self._reader_id, limits, max_bytes=READ_BYTES, max_records=room, exact=True)
        except ApiError as error:
            if error.code not in PASSING:
                raise
            self._own.give_up(place)
            self._looks_again = True
            return NOTHING

    def push_at_hand(self) -> None:
        """Push what there is room for, of the first partition that has something in memory. The rest `run` pushes."""
        room = self.ready_count - self.in_flight_count
        if room <= 0 or self._is_closing or self._changed.is_set():
            return
        if self._is_pushing or self._is_paused() or not self._may_send():
            self.wake()
            return
        limits = self._own.limits()
        for place in self._own.places:
            share = self._own.at_hand(place)
            if share is None:
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

    def _push_acquired(self, share: ReadablePartition, place: Place, acquired: Acquired) -> None:
        self._own.served(place)
        room = 0 if self._is_closing or self._is_paused() else max(0, self.ready_count - self.in_flight_count)
        runs, left = first_of(acquired.runs, room)
        if left:  # the client said meanwhile that it wants fewer, or none
            self._settlements.settle(share, [(first, last, RELEASE) for first, last, _ in left])
        if runs:
            self._push_records(share, acquired.records, runs)

    def _push_records(self, share: ReadablePartition, records: bytes, runs: list[tuple[int, int, int]]) -> None:
        partition = share.key.partition
        if self._samples is not None:
            runs, left_out = sampled(runs, self._samples)
            if left_out:
                self._settlements.settle(share, [(first, last, ACCEPT) for first, last, _ in left_out])
        try:
            frames, missing = nsq_message_frames(
                records, runs, partition, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX
            )
        except KernelError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the records at offset {runs[0][0]}: {error}") from error
        self.counts.message_count += self._in_flight.add(partition, runs, self._clock.monotonic_ms())
        for offset in missing:  # compaction took them
            self._in_flight.take(partition, offset)
            self._settlements.settle(share, [(offset, offset, GAP)])
        self.counts.message_count -= len(missing)
        self._send(frames)

    # --- what the client says -----------------------------------------------------------------------------------------

    def finish(self, identity: bytes) -> None:
        """FIN; stored with `settle_finished`. Raises NsqError."""
        self._settlements.finish(identity)
        self.counts.finish_count += 1
        self.wake()

    def finish_many(self, numbers: Sequence[int]) -> list[int]:
        """FINs that arrived together, with the ids as numbers; stored with `settle_finished`, and `push_at_hand` makes
        use of the room. Returns those that failed.
        """
        failed = self._settlements.finish_many(numbers)
        self.counts.finish_count += len(numbers) - len(failed)
        return failed

    def settle_finished(self) -> None:
        """What has been finished since the last call is done, in one."""
        self._settlements.settle_finished()

    def requeue(self, identity: bytes, delay_ms: int) -> None:
        """REQ. Raises NsqError."""
        self._settlements.requeue(identity, delay_ms)
        self.counts.requeue_count += 1
        self.wake()

    def touch(self, identity: bytes) -> None:
        """TOUCH. Raises NsqError."""
        self._settlements.touch(identity)

    async def all_settled(self) -> None:
        """Wait until what the client has said of its messages is stored."""
        await self._settlements.all_settled()

    # --- the channel --------------------------------------------------------------------------------------------------

    def _on_change(self, partition: object) -> None:
        self.wake()

    def _on_lost(self, partition: int) -> None:
        self._in_flight.clear_partition(partition)

    def _on_timed_out(self, partition: int, runs: Sequence[Run]) -> None:
        for first, last, _, attempts in runs:
            self.counts.timeout_count += self._in_flight.take_timed_out(partition, first, last, attempts)
        self.wake()
