"""Looks at the records of a share partition before they are delivered: for order by key, and for priorities.

start                     known to = end                 start           known to   end
|  delivered and blocked  |  not looked at     or        |  looked at    |  not yet |     after another leader
"""

from collections.abc import Callable

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import DeliveryHints, DeliveryLedger
from ottla.queues.hint_reader import NO_HINTS, HintReader, Wanted
from ottla.queues.log_reader import LogReader
from ottla.queues.recent_reads import Read
from ottla.queues.record_spans import RecordSpans
from ottla.queues.share_limits import ShareLimits
from ottla.replication.partition import Partition


class LookAhead:
    """Of one share partition. Belongs to the event loop; one caller at a time."""

    def __init__(
        self,
        partition: Partition,
        ledger: DeliveryLedger,
        reader: LogReader,
        hints: HintReader,
        is_current: Callable[[], bool],
        spans: RecordSpans,
        pass_over: Callable[[int, int, str], None],
    ) -> None:
        """`pass_over` is called for what no member is given, with the reason."""
        self._partition = partition
        self._ledger = ledger
        self._reader = reader
        self._hints = hints
        self._is_current = is_current
        self._spans = spans
        self._pass_over = pass_over

    def takes_new(self, limits: ShareLimits) -> bool:
        """Whether records may be looked at that were never delivered."""
        ahead = self._ledger.ahead_count
        return self._ledger.unfinished_count - ahead < limits.locks_max and ahead < limits.ahead_max

    async def hints_in(self, read: Read, limits: ShareLimits) -> DeliveryHints:
        """What the records ask for that were not looked at yet."""
        known_to = self._ledger.known_to_offset
        if not read.batches or read.batches[-1].last_offset < known_to:
            return NO_HINTS
        return await self._hints.read(read.data, known_to, Wanted(limits.is_ordered, len(limits.weights)))

    def catches_up(self, hints: DeliveryHints) -> bool:
        """Look at records that were delivered before there was an order, or by another leader. Whether there were any:
        nothing is delivered until all are known. Raises ApiError.
        """
        ledger = self._ledger
        known_to = ledger.known_to_offset
        if known_to == ledger.end_offset:
            return False
        ledger.learn(hints)
        if ledger.known_to_offset == known_to:
            place = self._partition.topic_partition
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{place}: the batch at offset {known_to} cannot be read")
        return True

    async def fill_lanes(self, limits: ShareLimits, max_bytes: int) -> None:
        """Have the lanes know as many records as they may, once they know less than half of that. Raises ApiError."""
        ledger = self._ledger
        is_behind = ledger.known_to_offset < ledger.end_offset
        if not is_behind and ledger.ahead_count * 2 > limits.ahead_max:
            return
        while self._is_current():
            known_to = ledger.known_to_offset
            is_full = known_to == ledger.end_offset and ledger.ahead_count >= limits.ahead_max
            if is_full or known_to >= self._reader.end(limits.read_committed):
                return
            read = await self._reader.read(known_to, max_bytes, limits.ahead_max, limits.read_committed)
            hints = await self.hints_in(read, limits)
            if not read.batches or not self._is_current():
                return
            if self.catches_up(hints):
                continue
            for _, first, last, reason in self._spans.of(*read, known_to, hints.end_offset - 1):
                if ledger.end_offset < first:
                    break
                if reason is not None:
                    self._pass_over(first, last, reason)
                else:
                    ledger.look_ahead(hints, first, last, limits.ahead_max)
