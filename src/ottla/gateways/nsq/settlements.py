"""What one client says of the messages that it has: FIN accepts one, REQ releases it, TOUCH renews it.

FINs hold as soon as they are read; those of up to 10 ms are stored together. The client is told of what could not be
stored, before its CLS is answered: nsqd has no such answer, but clients expect errors of FIN at any time.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ottla.gateways.nsq.channel_partitions import ChannelPartitions
from ottla.gateways.nsq.error import NsqError
from ottla.gateways.nsq.in_flight import InFlight
from ottla.gateways.nsq.message_id import message_id, parse_message_id
from ottla.model.error_code import ErrorCode
from ottla.queues.acknowledgements import ACCEPT, RELEASE, RENEW
from ottla.queues.redelivery import NO_DELAY, Delay
from ottla.queues.shared_partition import ReadablePartition
from ottla.runtime.clock import Clock

logger = logging.getLogger(__name__)

FINISHED_LINGER_MS: Final = 10
"""FINs wait for so long to be stored together."""

_OF_ALL: Final = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST})
"""One record that is not held any more has all of them refused."""


class Settlements:
    """Of one client. Belongs to the event loop."""

    def __init__(
        self,
        reader_id: str,
        partitions: ChannelPartitions,
        in_flight: InFlight,
        clock: Clock,
        *,
        message_timeout_ms: int,
        message_timeout_max_ms: int,
        on_failed: Callable[[NsqError], None],
    ) -> None:
        """`reader_id` is the name by which the client holds messages. `on_failed` is told of what it said in vain."""
        self._reader_id = reader_id
        self._partitions = partitions
        self._in_flight = in_flight
        self._clock = clock
        self._message_timeout_ms = message_timeout_ms
        self._message_timeout_max_ms = message_timeout_max_ms
        self._on_failed = on_failed
        self._finished: dict[int, list[int]] = {}
        """Offsets of messages that are done, of what has just been read of the client, by partition."""
        self._settling: set[asyncio.Future[ErrorCode]] = set()

    def finish(self, identity: bytes) -> None:
        """FIN; stored with `settle_finished`. Raises NsqError."""
        partition, offset = self._take("FIN", identity)
        self._finished.setdefault(partition, []).append(offset)

    def finish_many(self, numbers: Sequence[int]) -> list[int]:
        """FINs that arrived together, with the ids as numbers; stored with `settle_finished`. Returns those that
        failed.
        """
        had, others = self._in_flight.take_many(numbers)
        for partition, offsets in had.items():
            self._finished.setdefault(partition, []).extend(offsets)
        return others

    def settle_finished(self) -> None:
        """What has been finished since the last call is done, in one."""
        if not self._finished:
            return
        finished, self._finished = self._finished, {}
        for partition, offsets in finished.items():
            share, runs = self._partitions.still_found(partition), accepted(offsets)
            if share is None:
                self._told("FIN", partition, offsets, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            begun = share.begin_settle(self._reader_id, runs, self._partitions.limits(), linger_ms=FINISHED_LINGER_MS)
            if begun in _OF_ALL and len(offsets) > 1:
                # The time of one was up meanwhile; the others are done.
                for offset in offsets:
                    self.settle(share, [(offset, offset, ACCEPT)], command="FIN")
            else:
                self._follow(begun, "FIN", partition, offsets)

    def requeue(self, identity: bytes, delay_ms: int) -> None:
        """REQ. Raises NsqError."""
        partition, offset = self._take("REQ", identity)
        delay = Delay(delay_ms, self._clock.now_ms() + delay_ms) if delay_ms else NO_DELAY
        self.settle(self._partitions.found(partition), [(offset, offset, RELEASE)], delay, command="REQ")

    def touch(self, identity: bytes) -> None:
        """TOUCH: the message timeout begins anew, up to a longest time since the delivery. Raises NsqError."""
        partition, offset, delivered_ms = self._find("TOUCH", identity)
        left_ms = delivered_ms + self._message_timeout_max_ms - self._clock.monotonic_ms()
        limits = self._partitions.limits()._replace(lock_ms=max(0, min(self._message_timeout_ms, left_ms)))
        share = self._partitions.found(partition)
        begun = share.begin_settle(self._reader_id, [(offset, offset, RENEW)], limits)
        self._follow(begun, "TOUCH", partition, [offset])

    def settle(
        self, share: ReadablePartition, runs: list[tuple[int, int, int]], delay: Delay = NO_DELAY, command: str = ""
    ) -> None:
        """Settle messages of a partition, as the client said with a command, or nobody did."""
        begun = share.begin_settle(self._reader_id, runs, self._partitions.limits(), delay)
        offsets = [first for first, _, _ in runs] if command else []
        self._follow(begun, command, share.key.partition, offsets)

    async def all_settled(self) -> None:
        """Wait until what the client has said is stored."""
        self.settle_finished()
        while self._settling:
            for share in self._partitions.all_found():
                share.store_now()
            await asyncio.wait(self._settling)

    def _take(self, command: str, identity: bytes) -> tuple[int, int]:
        partition, offset, _ = self._find(command, identity)
        self._in_flight.take(partition, offset)
        return partition, offset

    def _find(self, command: str, identity: bytes) -> tuple[int, int, int]:
        """Partition and offset of a message that the client has, and when it was delivered."""
        place = parse_message_id(identity)
        if place is not None:
            delivered_ms = self._in_flight.delivered_ms(*place)
            if delivered_ms is not None:
                return *place, delivered_ms
            if self._partitions.holder(*place) not in (None, self._reader_id):
                raise _not_settled(command, identity, "client does not own message")
        raise not_in_flight(command, identity)

    def _follow(
        self, begun: "ErrorCode | asyncio.Future[ErrorCode]", command: str, partition: int, offsets: list[int]
    ) -> None:
        if isinstance(begun, ErrorCode):
            self._told(command, partition, offsets, begun)
        else:
            self._settling.add(begun)
            begun.add_done_callback(partial(self._on_settled, command, partition, offsets))

    def _on_settled(
        self, command: str, partition: int, offsets: list[int], settled: "asyncio.Future[ErrorCode]"
    ) -> None:
        self._settling.discard(settled)
        if not settled.cancelled():
            self._told(command, partition, offsets, settled.result())

    def _told(self, command: str, partition: int, offsets: list[int], error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            return
        # It stays with the client until its time is up, and is delivered again.
        logger.info("channel %s: a message was not settled: %s", self._partitions.channel, error.name)
        for offset in offsets:
            reason = "ID not in flight" if error in _OF_ALL else f"{error.name}: it may come again"
            self._on_failed(_not_settled(command, message_id(partition, offset), reason))


def accepted(offsets: list[int]) -> list[tuple[int, int, int]]:
    """Runs of messages that are done.

    >>> accepted([5, 3, 4, 8])
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
