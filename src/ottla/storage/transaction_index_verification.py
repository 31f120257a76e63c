"""Whether the transaction indexes of a log say what its batches say, for a look at a log that no broker uses.

Each ABORT marker of a transaction that has records has an entry: without it readers take the records for committed. An
entry may be left of a transaction whose records compaction took, but never without its marker.
"""

from collections.abc import Iterator

from ottla.native import BatchInfo
from ottla.records.control import ControlRecordType
from ottla.storage.producer_state_manager import ProducerStateManager
from ottla.storage.transaction_index import AbortedTransaction, CorruptTransactionIndexError, TransactionIndex


class TransactionIndexVerification:
    """Sees the batches of a log in their order, then its indexes."""

    __slots__ = ("_aborted", "_markers", "_producers")

    def __init__(self) -> None:
        self._producers = ProducerStateManager()
        self._aborted: list[AbortedTransaction] = []
        self._markers: dict[int, int] = {}

    def see(self, batch: BatchInfo) -> None:
        """The next batch."""
        if batch.producer_id < 0:
            return
        if batch.marker is not None and batch.marker[0] == ControlRecordType.ABORT:
            self._markers[batch.base_offset] = batch.producer_id
        aborted = self._producers.update(batch, batch.base_offset, batch.max_timestamp, 0)
        if aborted is not None:
            self._aborted.append(aborted)

    def findings(self, content: bytes, base_offset: int, end_offset: int, settled_up_to: float) -> Iterator[str]:
        """What is wrong with the index of a segment from `base_offset` to `end_offset`; markers from `settled_up_to` on
        are not looked at: a start makes their entries again.
        """
        index = TransactionIndex(content)
        if settled_up_to < end_offset:
            index = TransactionIndex(index.up_to(int(settled_up_to)))
        try:
            index.require_sound(base_offset, end_offset)
        except CorruptTransactionIndexError as error:
            yield f"{error}; a start makes the file again"
            return
        entries = {each.last_offset: each for each in index}
        for each in entries.values():
            if self._markers.get(each.last_offset) != each.producer_id:
                yield f"there is no marker at offset {each.last_offset} that aborts a transaction of {each.producer_id}"
        for each in self._aborted:
            if base_offset <= each.last_offset < min(end_offset, settled_up_to):
                found = entries.get(each.last_offset)
                if found is None or found.first_offset > each.first_offset:
                    yield (
                        f"the transaction of producer {each.producer_id} from offset {each.first_offset} to "
                        f"{each.last_offset} was aborted and is not entered: readers take its records for committed"
                    )
