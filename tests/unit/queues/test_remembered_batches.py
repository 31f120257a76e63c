"""What was acquired together is remembered while nobody reads, within a bound, and for the epochs it is of."""

from uuid import UUID

from ottla.queues.delivery_throttle import AcquiredBatches
from ottla.queues.remembered_batches import RememberedBatches
from ottla.queues.share_state import ShareKey

KEYS = [ShareKey("group", UUID(int=1), index) for index in range(3)]


def test_what_is_taken_is_what_was_kept_once_and_in_the_same_epochs_alone() -> None:
    remembered, batches = RememberedBatches(), AcquiredBatches([(0, 4), (5, 8)])
    remembered.keep(KEYS[0], (3, 1), batches)
    assert remembered.take(KEYS[1], (3, 1)) is None
    assert remembered.take(KEYS[0], (3, 1)) is batches
    assert remembered.take(KEYS[0], (3, 1)) is None
    remembered.keep(KEYS[0], (3, 1), batches)
    assert remembered.take(KEYS[0], (3, 2)) is None, "the group began anew"


def test_the_partition_that_was_left_first_is_forgotten_first() -> None:
    remembered = RememberedBatches(batches_max=5)
    for key in (KEYS[0], KEYS[1], KEYS[0], KEYS[2]):
        remembered.keep(key, (0, 0), AcquiredBatches([(0, 4), (5, 8)]))
    assert remembered.take(KEYS[1], (0, 0)) is None
    assert remembered.take(KEYS[0], (0, 0)) is not None
    assert remembered.take(KEYS[2], (0, 0)) is not None
    remembered.keep(KEYS[0], (0, 0), AcquiredBatches([(each, each) for each in range(6)]))
    assert remembered.take(KEYS[0], (0, 0)) is None
