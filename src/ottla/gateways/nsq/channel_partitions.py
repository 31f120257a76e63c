"""The partitions of a channel, as one of its readers has them.

led here      SharePartition, in memory
led elsewhere RemoteShare, at the leader
led nowhere   nothing for the moment: it is looked again
"""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.remote_shares import RemoteShares
from ottla.broker.share_partitions import Place, SharePartitions
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.queues.acknowledgements import Run
from ottla.queues.share_limits import ShareLimits, limits_of_reader
from ottla.queues.shared_partition import ReadablePartition, SharedPartition
from ottla.runtime.clock import Clock

LIMITS_MS: Final = 1_000
"""How long the settings of the group are used before they are looked at again."""

NOT_HERE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,  # the replica here is offline, and another one leads
    }
)
"""Errors of a partition that another broker may have."""

PASSING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        # The state of the channel cannot be read while its coordinator moves.
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors of a partition that is to be looked for again."""


class ChannelPartitions:
    """Of one reader. Belongs to the event loop."""

    def __init__(
        self,
        reader_id: str,
        channel: str,
        places: Sequence[Place],
        partitions: SharePartitions,
        elsewhere: RemoteShares | None,
        principal: Principal,
        message_timeout_ms: int,
        clock: Clock,
        *,
        on_change: Callable[[object], None],
        on_lost: Callable[[int], None],
        on_timed_out: Callable[[int, Sequence[Run]], None],
    ) -> None:
        """`elsewhere` has what other brokers lead; None where there are none. `on_change` is called when there may be
        something to deliver, `on_lost` with a partition of which the client has nothing any more, `on_timed_out` with
        what of it the client had for too long.
        """
        self.channel = channel
        self.places = list(places)
        """In the order in which it is their turn."""
        self._reader_id = reader_id
        self._partitions = partitions
        self._elsewhere = elsewhere
        self._principal = principal
        self._message_timeout_ms = message_timeout_ms
        self._clock = clock
        self._on_change = on_change
        self._on_lost = on_lost
        self._on_timed_out = on_timed_out
        self._shares: dict[int, ReadablePartition] = {}
        """By partition, as they were read last."""
        self._known_limits: ShareLimits | None = None
        self._limits_ms = 0

    def found(self, partition: int) -> ReadablePartition:
        """A partition of which the client has something."""
        return self._shares[partition]

    def still_found(self, partition: int) -> ReadablePartition | None:
        """A partition of which the client had something; None if it is not to be had any more."""
        return self._shares.get(partition)

    def all_found(self) -> list[ReadablePartition]:
        """Those that were read."""
        return list(self._shares.values())

    async def get(self, place: Place) -> ReadablePartition | None:
        """A partition, wherever it is led; None while that is nowhere. Raises ApiError."""
        try:
            share = await self._get(place)
        except ApiError as error:
            if error.code not in PASSING:
                raise
            self.give_up(place)
            return None
        self._watch(share)
        return share

    async def _get(self, place: Place) -> ReadablePartition:
        try:
            return await self._partitions.get(self._principal, self.channel, place)
        except ApiError as error:
            if error.code not in NOT_HERE or self._elsewhere is None:
                raise
        return self._elsewhere.get(self._principal, self.channel, place)

    def at_hand(self, place: Place) -> SharedPartition | None:
        """A partition that is led here and was read before; None where there is something to wait for."""
        try:
            share = self._partitions.at_hand(self._principal, self.channel, place)
        except ApiError:
            return None  # `get` is told, too
        return share if share is not None and self._shares.get(place[1]) is share else None

    def lost(self) -> list[Place]:
        """Those that are to be read anew: another broker leads them, or the channel begins elsewhere."""
        shares = self._shares
        return [place for place in self.places if place[1] in shares and not shares[place[1]].is_current]

    def served(self, place: Place) -> None:
        """Something was delivered of a partition: the others come first the next time."""
        self.places.remove(place)
        self.places.append(place)

    def holder(self, partition: int, offset: int) -> str | None:
        """Who has a message of a partition that is led here."""
        loaded = (self._partitions.loaded(self.channel, each) for each in self.places if each[1] == partition)
        return next((holder for share in loaded if share is not None and (holder := share.holder(offset))), None)

    def limits(self) -> ShareLimits:
        """What holds for the reader now."""
        now_ms = self._clock.monotonic_ms()
        if self._known_limits is None or now_ms - self._limits_ms >= LIMITS_MS:
            self._known_limits = limits_of_reader(self._partitions.limits(self.channel), self._message_timeout_ms)
            self._limits_ms = now_ms
        return self._known_limits

    def give_up(self, place: Place) -> None:
        """A partition is not to be had for the moment."""
        share = self._shares.pop(place[1], None)
        if share is not None:
            self._unwatch(share)
            self._on_lost(place[1])

    def close(self) -> None:
        """The reader is gone."""
        for share in self._shares.values():
            self._unwatch(share)

    def _watch(self, share: ReadablePartition) -> None:
        partition = share.key.partition
        before = self._shares.get(partition)
        if before is share:
            return
        if before is not None:
            self._unwatch(before)
        # What another leader delivered, or this one before its state was loaded anew, is delivered again.
        self._shares[partition] = share
        self._on_lost(partition)
        share.partition.subscribe(self._on_change)
        share.watch_timeouts(self._reader_id, lambda runs: self._timed_out(share, runs))

    def _unwatch(self, share: ReadablePartition) -> None:
        share.partition.unsubscribe(self._on_change)
        share.forget_member(self._reader_id)

    def _timed_out(self, share: ReadablePartition, runs: Sequence[Run]) -> None:
        partition = share.key.partition
        if self._shares.get(partition) is share:
            self._on_timed_out(partition, runs)
