"""A share partition over a log that the test writes."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import build_batch
from ottla.queues import share_partition
from ottla.queues.acknowledgements import ACCEPT, RELEASE, RENEW
from ottla.queues.letters import WriteLetters
from ottla.queues.recent_reads import RecentReads
from ottla.queues.redelivery import Delay
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_partition import SharePartition
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import StateAnswer, WriteState
from ottla.queues.state_batches import StateBatch
from ottla.runtime.file_slice import FileSlice
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.storage.log_config import LogConfig
from ottla.storage.log_read_result import LogReadResult

LIMITS = ShareLimits(lock_ms=1_000, deliveries_max=5, locks_max=100, read_committed=False)
FAR = 5_000_000_000


class States:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[WriteState] = []

    async def write(self, request: WriteState) -> StateAnswer:
        self.written.append(request)
        return StateAnswer(ErrorCode.NONE)


def log_of(path: Path, offsets: list[int], records: int = 1) -> int:
    """A file with one batch of so many records at each offset."""
    batches = [build_batch([(0, None, b"x", ())] * records) for _ in offsets]
    path.write_bytes(b"".join(at.to_bytes(8, "big") + batch[8:] for at, batch in zip(offsets, batches, strict=True)))
    return os.open(path, os.O_RDONLY)


def share_over(
    fd: int,
    end: int,
    tasks: Tasks,
    on_lost: Callable[[SharePartition], None] = lambda share: None,
    states: States | None = None,
    write_letters: WriteLetters | None = None,
    batches: Sequence[StateBatch] = (),
    ttl_ms: int = -1,
    is_stream: bool = False,
    has_ttl_header: bool = False,
    reads: RecentReads | None = None,
) -> SharePartition:
    """A share partition over a log of which each read returns all."""
    timer = ManualTimer()
    size = os.fstat(fd).st_size
    read = LogReadResult((FileSlice(fd, 0, size, None),), size)
    partition = SimpleNamespace(
        topic_partition="t-0",
        is_leader=True,
        leader_epoch=0,
        high_watermark=end,
        last_stable_offset=end,
        log=SimpleNamespace(
            log_start_offset=0,
            aborted_in=lambda *asked: [],
            config=LogConfig(ttl_ms=ttl_ms, is_stream=is_stream, has_ttl_header=has_ttl_header),
        ),
        read=lambda *asked, **more: read,
    )
    return SharePartition(
        ShareKey("g", UUID(int=1), 0),
        cast("Any", partition),
        cast("Any", states or States()),
        0,
        0,
        0,
        batches,
        timer=timer,
        tasks=tasks,
        on_released=lambda share: None,
        on_lost=on_lost,
        clock=timer.clock,
        rng=SeededRng(1),
        write_letters=write_letters,
        reads=reads,
    )


def test_a_gap_that_compaction_left_is_passed_over_at_once_however_large_it_is(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0, FAR])

    async def run() -> list[tuple[int, int, int]]:
        tasks = Tasks()
        share = share_over(fd, FAR + 1, tasks)
        acquired = await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=10, exact=False)
        assert share.ledger.unfinished_count == 2
        assert share.ledger.lease_count == 2
        await tasks.close()
        return acquired.runs

    assert asyncio.run(run()) == [(0, 0, 1), (FAR, FAR, 1)]
    os.close(fd)


def test_the_limit_of_unfinished_records_never_passes_over_a_record(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0, 3, 6], records=3)
    limits = LIMITS._replace(locks_max=4)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, 9, tasks)
        delivered = []
        for first, last in ((0, 3), (4, 7), (8, 8)):
            acquired = await share.acquire("m", limits, max_bytes=1 << 20, max_records=10, exact=False)
            delivered += acquired.runs
            assert share.ledger.end_offset == last + 1
            assert await share.settle("m", [(first, last, ACCEPT)], limits) is ErrorCode.NONE
        assert delivered == [(0, 3, 1), (4, 7, 1), (8, 8, 1)]
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_a_record_that_is_given_back_for_later_is_delivered_then_and_keeps_the_partition_until_then(
    tmp_path: Path,
) -> None:
    fd = log_of(tmp_path / "log", [0])

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, 1, tasks)
        timer = cast("ManualTimer", share._leases._timer)

        async def acquire() -> list[tuple[int, int, int]]:
            return (await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=1, exact=True)).runs

        assert await acquire() == [(0, 0, 1)]
        assert await share.settle("m", [(0, 0, RELEASE)], LIMITS, Delay(5_000, 105_000)) is ErrorCode.NONE
        assert await acquire() == []
        assert share.deliveries().waiting == 1
        share.retire()
        assert not share.is_lost, "the delay would be forgotten"
        timer.advance(4_999)
        assert await acquire() == []
        share.keep()
        timer.advance(1)
        assert await acquire() == [(0, 0, 2)]
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_what_a_reader_that_is_gone_holds_is_released_when_its_time_is_up(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0])

    async def run() -> None:
        tasks = Tasks()
        is_lost = asyncio.Event()
        share = share_over(fd, 1, tasks, lambda share: is_lost.set())
        timer = cast("ManualTimer", share._leases._timer)
        timed_out: list[Any] = []
        for name in ("here", "gone"):
            share.watch_timeouts(name, timed_out.append)
            acquired = await share.acquire(name, LIMITS, max_bytes=1 << 20, max_records=1, exact=True)
            assert [run[:2] for run in acquired.runs] == [(0, 0)]
            if name == "gone":
                share.forget_member(name)
                share.retire()
            assert not share.is_lost
            timer.advance(LIMITS.lock_ms)
        assert [list(runs) for runs in timed_out] == [[(0, 0, 0, 1)]], "nobody is told for the one that is gone"
        await is_lost.wait()
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_what_a_member_holds_that_goes_is_released_in_slices_and_written_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_partition, "RELEASED_MAX", 3)
    fd = log_of(tmp_path / "log", [0], records=10)

    async def run() -> None:
        tasks = Tasks()
        states = States()
        given_up = asyncio.Event()
        share = share_over(fd, 10, tasks, lambda share: given_up.set(), states)
        await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=10, exact=True)
        share.release_member("m")
        assert share.ledger.acquired_count == 7, "the first slice is released at once"
        share.retire()
        await given_up.wait()
        assert share.ledger.acquired_count == 0
        written = [
            offset for each in states.written for run in each.batches for offset in range(run.first, run.last + 1)
        ]
        assert sorted(written) == list(range(10))
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_a_log_that_cannot_be_read_is_an_error_of_its_partition(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0])

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, 1, tasks)
        os.close(fd)
        with pytest.raises(ApiError) as refused:
            await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=10, exact=False)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        await tasks.close()

    asyncio.run(run())


def test_a_member_that_only_acknowledges_leaves_nothing_behind(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0])

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, 1, tasks)
        await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=10, exact=False)
        assert await share.settle("other", [(0, 0, ACCEPT)], LIMITS) is ErrorCode.INVALID_RECORD_STATE
        assert await share.settle("m", [(0, 0, ACCEPT)], LIMITS) is ErrorCode.NONE
        assert await share.settle("another", [(0, 0, ACCEPT)], LIMITS) is ErrorCode.NONE  # it is done
        assert share._owners.members == ["m"]
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_runs_end_where_a_batch_begins_that_is_too_far_from_their_first(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0, 3, 6, 9], records=3)

    async def run() -> None:
        tasks = Tasks()
        for size, runs in ((1, [(0, 2), (3, 5), (6, 8), (9, 11)]), (4, [(0, 5), (6, 11)]), (20, [(0, 11)])):
            share = share_over(fd, 12, tasks)
            acquired = await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=20, exact=False, batch_size=size)
            assert acquired.runs == [(first, last, 1) for first, last in runs]
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_what_is_written_says_how_many_records_behind_the_start_are_done(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0], records=10)
    states = States()

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, 10, tasks, states=states)
        await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=10, exact=False)
        for first, last in ((2, 4), (6, 6), (0, 1)):
            assert await share.settle("m", [(first, last, ACCEPT)], LIMITS) is ErrorCode.NONE
        await tasks.close()

    asyncio.run(run())
    assert [(each.start_offset, each.complete_count) for each in states.written] == [(0, 3), (0, 4), (5, 1)]
    os.close(fd)


def test_records_near_the_limit_of_deliveries_are_delivered_in_parts_and_the_last_time_alone(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0, 4], records=4)

    async def run() -> list[list[tuple[int, int, int]]]:
        tasks = Tasks()
        share = share_over(fd, 8, tasks)
        delivered = []
        for _ in range(6):
            acquired = await share.acquire(
                "m", LIMITS, max_bytes=1 << 20, max_records=10, exact=False, batch_size=10, throttles=True
            )
            delivered.append(acquired.runs)
            given_back = [(first, last, RELEASE) for first, last, _ in acquired.runs]
            assert await share.settle("m", given_back, LIMITS) is ErrorCode.NONE
        await tasks.close()
        return delivered

    first, second, third, *parts = asyncio.run(run())
    assert [first, second, third] == [[(0, 7, 1)], [(0, 7, 2)], [(0, 7, 3)]]
    assert parts == [[(0, 3, 4)], [(0, 0, 5)], [(1, 1, 5)]]
    os.close(fd)


def test_a_part_that_compaction_took_away_is_passed_over(tmp_path: Path) -> None:
    before, after = log_of(tmp_path / "log", [0, 4], records=4), log_of(tmp_path / "compacted", [4], records=4)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(before, 8, tasks, reads=RecentReads(bytes_max=0))

        async def acquire() -> list[tuple[int, int, int]]:
            acquired = await share.acquire(
                "m", LIMITS, max_bytes=1 << 20, max_records=10, exact=False, batch_size=4, throttles=True
            )
            return acquired.runs

        for _ in range(3):
            assert sum(last - first + 1 for first, last, _ in await acquire()) == 8
            assert await share.settle("m", [(0, 7, RELEASE)], LIMITS) is ErrorCode.NONE
        share.partition.read = share_over(after, 8, tasks).partition.read  # type: ignore[method-assign]
        assert await acquire() == [(4, 5, 4)]
        assert share.ledger.start_offset == 4
        await tasks.close()

    asyncio.run(run())
    os.close(before)
    os.close(after)


def test_a_lease_of_which_all_is_settled_leaves_no_timer(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0], records=10_000)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, 10_000, tasks)
        timer = cast("ManualTimer", share._leases._timer)
        for offset in range(10_000):
            acquired = await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=1, exact=True)
            assert acquired.runs == [(offset, offset, 1)]
            assert len(timer) == 1
            assert await share.settle("m", [(offset, offset, ACCEPT)], LIMITS) is ErrorCode.NONE
        assert len(timer) == 0
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_a_lease_keeps_its_timer_until_its_last_record_is_settled_and_a_renewed_one_has_the_new_timer_only(
    tmp_path: Path,
) -> None:
    fd = log_of(tmp_path / "log", [0], records=4)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, 4, tasks)
        timer = cast("ManualTimer", share._leases._timer)
        await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=4, exact=True)
        assert await share.settle("m", [(0, 2, ACCEPT)], LIMITS) is ErrorCode.NONE
        timer.advance(LIMITS.lock_ms - 1)
        assert await share.settle("m", [(3, 3, RENEW)], LIMITS) is ErrorCode.NONE
        assert len(timer) == 1
        timer.advance(LIMITS.lock_ms - 1)
        assert share.holder(3) == "m"
        timer.advance(1)
        assert share.holder(3) is None
        assert len(timer) == 0
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_records_below_the_start_of_the_log_leave_no_timer(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0], records=4)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, 4, tasks)
        timer = cast("ManualTimer", share._leases._timer)
        await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=4, exact=True)
        assert len(timer) == 1
        cast("Any", share.partition.log).log_start_offset = 4
        assert not share.has_news(LIMITS)
        assert len(timer) == 0
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


class FailingStates(States):
    """Says of each write what it is told to; None for what is stored."""

    def __init__(self, *errors: ErrorCode) -> None:
        super().__init__()
        self.errors = list(errors)

    async def write(self, request: WriteState) -> StateAnswer:
        self.written.append(request)
        return StateAnswer(self.errors.pop(0) if self.errors else ErrorCode.NONE)


def test_where_a_write_may_have_moved_the_start_the_next_one_says_what_lies_between(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0], records=5)

    async def run() -> None:
        tasks = Tasks()
        states = FailingStates(ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
        share = share_over(fd, 5, tasks, states=states)
        await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=5, exact=False)
        assert await share.settle("m", [(1, 2, ACCEPT)], LIMITS) is ErrorCode.NONE
        assert await share.settle("m", [(0, 0, ACCEPT)], LIMITS) is ErrorCode.REQUEST_TIMED_OUT
        assert states.written[-1].start_offset == 3, "the coordinator may have forgotten what lies below"
        assert await share.settle("m", [(4, 4, RELEASE)], LIMITS) is ErrorCode.NONE
        assert states.written[-1].start_offset == 0
        assert states.written[-1].batches == (StateBatch(0, 0, 0, 0), StateBatch(1, 2, 2, 1), StateBatch(4, 4, 0, 1))
        assert await share.settle("m", [(3, 3, RELEASE)], LIMITS) is ErrorCode.NONE
        assert states.written[-1].batches == (StateBatch(3, 3, 0, 1),), "it is said once"
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_who_accepts_a_record_below_a_start_that_is_not_stored_yet_is_answered_when_it_is(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0], records=2)
    limits = LIMITS._replace(deliveries_max=1)

    async def run() -> None:
        tasks = Tasks()
        states = FailingStates(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        share = share_over(fd, 2, tasks, states=states)
        timer = cast("ManualTimer", share._leases._timer)
        await share.acquire("m", limits, max_bytes=1 << 20, max_records=1, exact=True)
        timer.advance(limits.lock_ms)
        for _ in range(4):
            await asyncio.sleep(0)
        assert not states.errors
        assert share.ledger.start_offset == 1, "it was delivered too often"
        assert await share.settle("m", [(0, 0, ACCEPT)], limits) is ErrorCode.NONE
        assert [each.start_offset for each in states.written] == [1, 1]
        assert await share.settle("m", [(0, 0, ACCEPT)], limits) is ErrorCode.NONE
        assert len(states.written) == 2
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_records_that_are_too_old_here_and_there_are_archived_in_one_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [(0, None, b"v", (("ottla-ttl", b"1" if each % 2 else b"100000000"),)) for each in range(100)]
    (tmp_path / "log").write_bytes(build_batch(records))
    fd = os.open(tmp_path / "log", os.O_RDONLY)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, 100, tasks, has_ttl_header=True)
        cast("ManualTimer", share._leases._timer).advance(10)
        limits = LIMITS._replace(letters_topic="letters")
        changes: list[Any] = []
        write_later = share._writer.write_later

        def note(*change: Any) -> None:
            changes.append(change)
            write_later(*change)

        monkeypatch.setattr(share._writer, "write_later", note)
        acquired = await share.acquire("m", limits, max_bytes=1 << 20, max_records=500, exact=True)
        assert acquired.runs == [(each, each, 1) for each in range(0, 100, 2)]
        assert len(changes) == 1
        await tasks.close()
        assert share.ledger.acquired_count == 50
        assert share.ledger.unfinished_count == 50
        assert [letter[:2] for letter in changes[0][1]] == [(each, each) for each in range(1, 100, 2)]

    asyncio.run(run())
    os.close(fd)
