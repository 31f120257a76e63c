"""Which batches of a log are of aborted transactions."""

from collections.abc import Sequence

from ottla.native import BatchInfo


class AbortedBatches:
    """Tells which batches of a run are of aborted transactions, one after the other."""

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        """`transactions` are the producer ids and first offsets of the aborted transactions of the run."""
        self._begin = sorted((first, producer_id) for producer_id, first in transactions)
        self._open: set[int] = set()

    def has(self, batch: BatchInfo) -> bool:
        """Whether a batch is of one; its marker ends it."""
        while self._begin and self._begin[0][0] <= batch.last_offset:
            self._open.add(self._begin.pop(0)[1])
        if batch.is_control:
            self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._open
