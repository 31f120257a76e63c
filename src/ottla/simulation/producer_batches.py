"""The producers of a simulated log: the broker's own ProducerStateManager, one batch a record.

A value identifies its producer: `producer * VALUES_MAX + sequence number`.
"""

from typing import Final, cast

from ottla.model.errors import ApiError
from ottla.native import BatchInfo
from ottla.storage.producer_state_manager import ProducerStateManager

VALUES_MAX: Final = 1 << 20
"""No producer writes more values in a schedule."""


class _Batch:
    """What a ProducerStateManager looks at in a batch."""

    __slots__ = ("base_sequence", "last_sequence", "producer_id")

    producer_epoch = 0
    last_offset_delta = 0
    is_control = False
    is_transactional = False

    def __init__(self, value: int) -> None:
        self.producer_id, self.base_sequence = divmod(value, VALUES_MAX)
        self.last_sequence = self.base_sequence


class ProducerBatches:
    """Classifies a value: new and next in sequence, already appended, or out of sequence."""

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state = ProducerStateManager()

    def replay(self, values: list[int]) -> None:
        """Remember what a log holds, from its start, instead of what was remembered."""
        self._state = ProducerStateManager()
        for offset, value in enumerate(values):
            self.add(value, offset)

    def add(self, value: int, offset: int) -> None:
        """A value was appended."""
        self._state.update(cast("BatchInfo", _Batch(value)), offset, 0, 0)

    def find(self, value: int) -> int:
        """The offset it was appended at; -1 when it is new and comes next, -2 when it does not come next."""
        try:
            found = self._state.admit([cast("BatchInfo", _Batch(value))])
        except ApiError:
            return -2
        return -1 if found is None else found.last_offset

    def forget_all_but(self, count: int) -> None:
        """Remember only the last batches of each producer; for a planted bug."""
        for state in self._state:
            del state.batches[:-count]
