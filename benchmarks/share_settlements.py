"""What a share partition settles a second with its state written: encoded, decoded and applied, without a disk.

    python -m benchmarks.share_settlements [--profile]

A member acquires 500 records at once and accepts them: as one run, as runs of 5, or each by a call of its own that has
its own answer. The coordinator answers one write at a time, so what gathers meanwhile is the next write. Times are CPU
times of this process.
"""

import argparse
import asyncio
import cProfile
import pstats
import time
from typing import Any, Final, cast
from uuid import UUID

from ottla.model.error_code import ErrorCode
from ottla.queues.acknowledgements import ACCEPT
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_partition import SharePartition
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import StateAnswer, WriteState
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.runtime.turns import next_turn
from ottla.simulation.shares.share_log import ShareLog
from ottla.simulation.shares.share_states import SimulatedStates

ACQUIRED: Final = 500
LIMITS: Final = ShareLimits(lock_ms=30_000, deliveries_max=5, locks_max=4_000, read_committed=False)
FOR_EVER: Final = (1 << 63) - 1
MEMBER: Final = "member"


class _States(SimulatedStates):
    """Answers each write a turn later."""

    async def write(self, request: WriteState) -> StateAnswer:
        await next_turn()
        return self._ask(self._shard.handle_write, request)


async def settle(batch: int, records: int) -> float:
    """Records a second, accepted in batches."""
    rng, timer = SeededRng(7), ManualTimer()
    key = ShareKey("workers", UUID(int=1), 0)
    share = SharePartition(
        key,
        ShareLog(rng).led(0),
        cast("Any", _States(key, rng)),
        0,
        0,
        0,
        (),
        timer=timer,
        tasks=Tasks("benchmark"),
        on_released=lambda share: None,
        on_lost=lambda share: None,
        clock=timer.clock,
        rng=rng,
    )
    owner = share._owners.number(MEMBER)
    begun = time.process_time()
    for first in range(0, records, ACQUIRED):
        lease, _ = share.ledger.acquire(owner, first, first + ACQUIRED - 1, ACQUIRED, FOR_EVER)
        share._leases.start(lease, LIMITS.lock_ms, owner)
        decided = [
            share.begin_settle(MEMBER, [(at, at + batch - 1, ACCEPT)], LIMITS)
            for at in range(first, first + ACQUIRED, batch)
        ]
        for each in decided:
            assert not isinstance(each, ErrorCode)
            assert await each is ErrorCode.NONE
    took = time.process_time() - begun
    assert share.ledger.start_offset == records, share.ledger.start_offset
    return records / took


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--profile", action="store_true", help="say where the time of single records goes")
    options = parser.parse_args()
    for batch, records in ((500, 5_000_000), (5, 1_000_000), (1, 500_000)):
        print(f"accepted by {batch:3}, with the state {asyncio.run(settle(batch, records)):14,.0f} records/s")
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(asyncio.run, settle(1, 100_000))
        pstats.Stats(profile).sort_stats("tottime").print_stats(20)


if __name__ == "__main__":
    main()
