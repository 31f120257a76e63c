"""The delivery ledger by itself: records a second, acquired and accepted; memory and load of a million in flight.

    python -m benchmarks.delivery_ledger

Batches of 500, 5 and 1, in order; a million in flight accepted singly at random; what that million takes in memory,
and how long its state takes to be stored as runs and loaded. Then what holds the event loop at one go, with the most
records in flight that the settings allow, and with a million. Last the load of a state with a wide gap.

Times are CPU times of this process, so that other programs do not count.
"""

import random
import time
from collections.abc import Callable

from ottla.native import DeliveryLedger
from ottla.queues.share_partition import RELEASED_MAX

FOR_EVER = (1 << 63) - 1
LOCKS_MAX = 4_000
"""The upper bound of share.partition.max.record.locks."""
GAP = 100_000_000


def in_order(batch: int, records: int) -> float:
    """Records a second, acquired and accepted in batches."""
    ledger = DeliveryLedger(0)
    begun = time.process_time()
    for first in range(0, records, batch):
        ledger.acquire(1, first, first + batch - 1, batch, FOR_EVER)
        change, _ = ledger.settle(1, [(first, first + batch - 1, 1)], 5, 0)
        ledger.commit(change)
        ledger.take_ended_leases()
    return records / (time.process_time() - begun)


def in_flight(records: int) -> DeliveryLedger:
    """A ledger of which everything is acquired, in batches of 500."""
    ledger = DeliveryLedger(0)
    for first in range(0, records, 500):
        ledger.acquire(1, first, first + 499, 500, FOR_EVER)
    return ledger


def longest_hold(records: int) -> tuple[float, str]:
    """Milliseconds of the longest call, with every second record of so many in flight, and its name."""
    ledger = in_flight(records)
    change, _ = ledger.settle(1, [(offset, offset, 1) for offset in range(0, records, 2)], 5, 0)
    runs = ledger.runs(0, 1 << 30)
    took: dict[str, float] = {}

    def measure(name: str, call: Callable[[], object]) -> None:
        begun = time.process_time()
        call()
        took[name] = (time.process_time() - begun) * 1000

    measure("start_after", lambda: ledger.start_after([change]))
    measure("commit", lambda: ledger.commit(change))
    measure("summary", ledger.summary)
    measure("release_owner", lambda: ledger.release_owner(1, 5, RELEASED_MAX))
    measure("load", lambda: DeliveryLedger(0).load(runs))
    return max((ms, name) for name, ms in took.items())


def main() -> None:
    """Print the table."""
    for batch, records in ((500, 20_000_000), (5, 2_000_000), (1, 1_000_000)):
        print(f"batches of {batch:3}, in order                 {in_order(batch, records):14,.0f} records/s")
    ledger = in_flight(1_000_000)
    print(f"a million in flight                     {ledger.bytes / 1e6:14.1f} MB")
    offsets = list(range(1_000_000))
    random.Random(7).shuffle(offsets)
    begun = time.process_time()
    for offset in offsets[:500_000]:
        change, _ = ledger.settle(1, [(offset, offset, 1)], 5, 0)
        ledger.commit(change)
        ledger.take_ended_leases()
    print(f"half of them accepted singly, at random {500_000 / (time.process_time() - begun):14,.0f} records/s")
    begun = time.process_time()
    runs = ledger.runs(0, 1 << 30)
    stored = time.process_time() - begun
    begun = time.process_time()
    DeliveryLedger(ledger.start_offset).load(runs)
    loaded = time.process_time() - begun
    print(f"its {len(runs):,} runs stored, loaded          {stored * 1000:8.0f} ms, {loaded * 1000:.0f} ms")
    begun, longest, is_all = time.process_time(), 0.0, False
    while not is_all:
        before = time.process_time()
        _, is_all = ledger.release_owner(1, 5, RELEASED_MAX)
        ledger.take_ended_leases()
        longest = max(longest, time.process_time() - before)
    whole = time.process_time() - begun
    print(f"the rest released, in slices            {whole * 1000:14.0f} ms, {longest * 1000:.1f} ms at most for one")
    for records in (LOCKS_MAX, 1_000_000):
        took, name = longest_hold(records)
        print(f"longest hold, {records:9,} in flight         {took:14.2f} ms ({name})")
    begun = time.process_time()
    wide = DeliveryLedger(0)
    wide.load([(0, 0, 0, 1), (GAP, GAP, 0, 1)])
    print(f"a gap of {GAP:,} loaded             {(time.process_time() - begun) * 1e6:14.0f} us, {wide.bytes:,} bytes")


if __name__ == "__main__":
    main()
