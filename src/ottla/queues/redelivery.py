"""When a record that was given back is delivered again: the retry policy of a group, and waits that were stored."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ottla.native import DeliveryLedger
from ottla.queues.state_batches import StateBatch

_RELEASE: Final = 2
_FOR_EVER: Final = (1 << 63) - 1


class Delay(NamedTuple):
    """How long records that are given back are not delivered, and until when that is."""

    delay_ms: int
    until_ms: int


NO_DELAY: Final = Delay(0, 0)


class Backoff(NamedTuple):
    """How long a record waits that a member released: twice as long after each delivery.

    >>> [Backoff(1_000, 10_000, 0).delay_ms(deliveries, 0.5) for deliveries in (1, 2, 3, 4, 5)]
    [1000, 2000, 4000, 8000, 10000]
    """

    first_ms: int = 0
    """After the first delivery; 0: records are delivered again at once."""
    max_ms: int = 0
    jitter_percent: int = 0

    def delay_ms(self, deliveries: int, chance: float) -> int:
        """The delay after so many deliveries; `chance`, from 0 to 1, says where it lies within the jitter."""
        if not self.first_ms:
            return 0
        delay_ms = min(self.max_ms, self.first_ms << min(max(deliveries - 1, 0), 40))
        return max(1, round(delay_ms * (1 + (2 * chance - 1) * self.jitter_percent / 100)))


def by_deliveries(
    ledger: DeliveryLedger, runs: Iterable[tuple[int, int, int]]
) -> dict[int, list[tuple[int, int, int]]]:
    """Runs of first offset, last offset and kind, by how often their records were delivered; 0 where they are not
    released.
    """
    found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for first, last, kind in runs:
        if kind != _RELEASE:
            found[0].append((first, last, kind))
            continue
        at = first
        while at <= last:
            part = ledger.runs(at, 1)
            if not part or part[0][0] > last:
                break
            ((part_first, part_last, _, deliveries),) = part
            end = min(part_last, last)
            found[deliveries].append((max(part_first, at), end, kind))
            at = end + 1
        if at <= last:
            found[0].append((at, last, kind))  # the ledger says what is wrong with it
    return found


def restore_waits(
    ledger: DeliveryLedger, batches: Sequence[StateBatch], owner: int, now_ms: int
) -> list[tuple[int, int]]:
    """Have the records wait again whose time had not come when their state was stored.

    `owner` holds no records but these, and those for the moment. Returns the lease of each wait and how long it is.
    """
    waits: list[tuple[int, int]] = []
    for batch in batches:
        if batch.not_before_ms <= now_ms or batch.state != 0:
            continue
        offsets = list(range(max(batch.first, ledger.start_offset), batch.last + 1))
        _, held = ledger.claim(owner, offsets, _FOR_EVER, 0)
        runs = [(first, last, _RELEASE) for first, last, _, _ in held]
        change, _ = ledger.settle(owner, runs, 0, batch.not_before_ms)
        if change and (wait := ledger.commit(change)):
            waits.append((wait, batch.not_before_ms - now_ms))
    return waits
