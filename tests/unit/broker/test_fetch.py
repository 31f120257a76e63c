import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.broker.access import Operation, ResourceType
from ottla.broker.fetch import FetchLimits, FetchService, FetchTarget, PartitionRead, read_partitions
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS, Principal
from ottla.native import build_batch
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.purgatory import DelayedOperation, Purgatory
from ottla.runtime.timer import ManualTimer
from ottla.storage.log_config import LogConfig
from tests.unit.broker.rules import Rules
from tests.unit.replication.conftest import Appended

New = Callable[..., object]


def batch(size: int = 10) -> bytearray:
    return build_batch([(1_000, None, b"x" * size, ())])


async def append(partition: Partition, records: bytearray) -> int:
    appended = Appended()
    partition.append(records, acks=ACKS_ALL, on_ack=appended.on_ack)
    await appended.ack
    return len(records)


def target(partition: Partition | None, offset: int = 0, max_bytes: int = 1 << 20) -> FetchTarget:
    error = ErrorCode.NONE if partition is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return FetchTarget(partition, offset, max_bytes, error=error)


def limits(max_bytes: int = 1 << 20, min_bytes: int = 1, max_wait_ms: int = 500) -> FetchLimits:
    return FetchLimits(max_bytes, min_bytes, max_wait_ms)


class Fetching:
    """A purgatory that fetches wait in, and the answers so far."""

    def __init__(self, **rules: Any) -> None:
        self.timer = ManualTimer()
        self.purgatory = Purgatory(self.timer)
        self.replicas = ReplicaManager()
        self.service = FetchService(self.replicas, self.purgatory, 1 << 20, **rules)
        self.answers: list[list[PartitionRead]] = []

    def fetch(self, targets: list[FetchTarget], limits: FetchLimits) -> None:
        self.service.fetch(targets, limits, self.on_fetched)

    def on_fetched(self, reads: list[PartitionRead]) -> None:
        self.answers.append(reads)

    def moved(self, partition: Partition) -> None:
        self.purgatory.check_and_complete(partition.topic_partition)


async def test_what_is_there_is_answered_at_once(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    size = await append(partition, batch())
    fetching = Fetching()
    fetching.fetch([target(partition)], limits())
    assert [read.total_bytes for read in fetching.answers[0]] == [size]
    assert fetching.answers[0][0].high_watermark == 1


async def test_a_fetch_waits_until_min_bytes_are_there(new_partition: New) -> None:
    fetching = Fetching()
    partition = await new_partition(on_change=fetching.moved)  # type: ignore[misc]
    size = len(batch())
    fetching.fetch([target(partition)], limits(min_bytes=2 * size))
    await append(partition, batch())
    assert fetching.answers == []
    await append(partition, batch())
    assert [read.total_bytes for read in fetching.answers[0]] == [2 * size]
    assert fetching.purgatory.delayed_count == 0


async def test_a_fetch_is_answered_with_what_there_is_when_its_time_is_up(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    size = await append(partition, batch())
    fetching = Fetching()
    fetching.fetch([target(partition)], limits(min_bytes=10_000, max_wait_ms=500))
    fetching.timer.advance(499)
    assert fetching.answers == []
    fetching.timer.advance(1)
    assert [read.total_bytes for read in fetching.answers[0]] == [size]


async def test_an_error_of_one_partition_is_told_at_once(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    fetching = Fetching()
    fetching.fetch([target(partition), target(None)], limits())
    assert [read.error for read in fetching.answers[0]] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_an_offset_outside_the_log_is_told_with_the_range_there_is(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    await append(partition, batch())
    [read] = read_partitions([target(partition, offset=2)], limits())
    assert (read.error, read.high_watermark, read.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1, 0)
    [at_end] = read_partitions([target(partition, offset=1)], limits())
    assert (at_end.error, at_end.total_bytes) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("read_committed", [False, True])
async def test_who_reads_above_the_high_watermark_has_nothing_yet_and_waits_for_what_follows(
    new_partition: New, read_committed: bool
) -> None:
    fetching = Fetching()
    partition = await new_partition(on_change=fetching.moved)  # type: ignore[misc]
    on_its_way = asyncio.ensure_future(append(partition, batch()))
    await asyncio.sleep(0)
    assert (partition.high_watermark, partition.log.log_end_offset) == (0, 1)
    for epoch in (-1, 3):
        reading = target(partition, offset=1)
        reading.current_leader_epoch = epoch
        fetching.fetch([reading], FetchLimits(1 << 20, 1, 500, read_committed))
    assert fetching.answers == []
    assert [read.error for read in read_partitions([target(partition, 2)], limits())] == [ErrorCode.OFFSET_OUT_OF_RANGE]
    await on_its_way
    assert (partition.high_watermark, fetching.answers) == (1, [])
    size = await append(partition, batch())
    assert [[read.total_bytes for read in reads] for reads in fetching.answers] == [[size], [size]]


async def test_the_first_batch_comes_whole_however_small_the_limits_and_the_others_wait_their_turn(
    new_partition: New,
) -> None:
    first = await new_partition(0)  # type: ignore[misc]
    second = await new_partition(1)  # type: ignore[misc]
    size = await append(first, batch(5000))
    await append(second, batch(5000))
    reads = read_partitions([target(first, max_bytes=100), target(second, max_bytes=100)], limits(max_bytes=100))
    assert [read.total_bytes for read in reads] == [size, 0]
    assert reads[1].high_watermark == 1


async def test_a_deleted_partition_answers_those_who_wait_on_it(new_partition: New) -> None:
    fetching = Fetching()
    partition = await new_partition(on_change=fetching.moved)  # type: ignore[misc]
    fetching.fetch([target(partition)], limits())
    partition.stop()
    assert [read.error for read in fetching.answers[0]] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_reader_whose_log_parts_from_ours_is_told_where(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    await append(partition, batch())
    stale = target(partition, offset=1)
    stale.last_fetched_epoch = 2
    [read] = read_partitions([stale], limits())
    assert read.diverging_epoch is not None
    assert read.total_bytes == 0
    current = target(partition, offset=1)
    current.last_fetched_epoch = 3
    assert read_partitions([current], limits())[0].diverging_epoch is None


async def test_a_reader_of_an_epoch_nobody_knows_is_out_of_range(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    await append(partition, batch())
    ahead = target(partition, offset=1)
    ahead.last_fetched_epoch = 9
    [read] = read_partitions([ahead], limits())
    assert (read.error, read.diverging_epoch) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


def told(reads: list[PartitionRead]) -> list[tuple[object, ...]]:
    return [
        (read.error, read.high_watermark, read.last_stable_offset, read.log_start_offset, read.total_bytes)
        for read in reads
    ]


def never_read(targets: list[FetchTarget]) -> list[FetchTarget]:
    """The same targets, without what they remember."""
    return [replace(each, nothing=None) for each in targets]


@pytest.mark.parametrize("change", ["append", "delete records", "stop", "new epoch", "nothing"])
async def test_what_did_not_change_is_not_read_again_and_the_rest_as_ever(new_partition: New, change: str) -> None:
    partitions = [await new_partition(index) for index in range(5)]  # type: ignore[misc]
    for partition in partitions:
        await append(partition, batch())
    targets = [target(partition, offset=1) for partition in partitions] + [target(None)]
    for each in targets[:-1]:
        each.current_leader_epoch = 3
    before = read_partitions(targets, limits())
    changed = partitions[2]
    if change == "append":
        await append(changed, batch())
    elif change == "delete records":
        changed.delete_records_before(1)
    elif change == "stop":
        changed.stop()
    elif change == "new epoch":
        changed.become_leader(4)
    after = read_partitions(targets, limits())
    assert told(after) == told(read_partitions(never_read(targets), limits()))
    assert [new is old for new, old in zip(after, before, strict=True)] == [
        True,
        True,
        change == "nothing",
        True,
        True,
        False,  # what had an error is always looked at
    ]


async def test_records_found_again_share_the_bytes_asked_for(new_partition: New) -> None:
    partitions = [await new_partition(index) for index in range(4)]  # type: ignore[misc]
    targets = [target(partition) for partition in partitions]
    read_partitions(targets, limits())
    size = len(batch())
    for partition in partitions[1:]:
        await append(partition, batch())
    few = limits(max_bytes=2 * size)
    after = read_partitions(targets, few)
    assert [read.total_bytes for read in after] == [0, size, size, 0]
    assert told(after) == told(read_partitions(never_read(targets), few))


async def test_what_had_no_room_for_its_records_is_not_taken_for_empty(new_partition: New) -> None:
    first, second = [await new_partition(index) for index in range(2)]  # type: ignore[misc]
    targets = [target(first), target(second, max_bytes=0)]
    size = await append(second, batch())
    assert [read.total_bytes for read in read_partitions(targets, limits())] == [0, size]
    await append(first, batch())
    assert [read.total_bytes for read in read_partitions(targets, limits())] == [size, 0]
    targets[0].offset = 1
    assert [read.total_bytes for read in read_partitions(targets, limits())] == [0, size]


async def test_a_later_partition_whose_first_batch_does_not_fit_gives_no_piece_of_it(new_partition: New) -> None:
    first, second, third = [await new_partition(index) for index in range(3)]  # type: ignore[misc]
    small = await append(first, batch(10))
    large = await append(second, batch(5_000))
    await append(third, batch(10))
    own_limit = [target(first), target(second, max_bytes=large - 1), target(third)]
    assert [read.total_bytes for read in read_partitions(own_limit, limits())] == [small, 0, small]
    whole = [target(first), target(second), target(third)]
    for max_bytes, third_bytes in ((small + large - 1, small), (small + 1, 0)):
        reads = read_partitions(whole, limits(max_bytes))
        assert [read.total_bytes for read in reads] == [small, 0, third_bytes]
    assert [read.total_bytes for read in read_partitions(whole, limits(small + large))] == [small, large, 0]


async def test_a_batch_that_does_not_fit_is_left_out_and_leaves_its_room_to_others(new_partition: New) -> None:
    first, second = [await new_partition(index) for index in range(2)]  # type: ignore[misc]
    size = await append(first, batch(1_000))
    await append(first, batch(1_000))
    small = await append(second, batch())
    [alone] = read_partitions([target(first)], limits(2 * size - 1))
    assert (alone.total_bytes, alone.available_bytes) == (size, 2 * size - 1)
    reads = read_partitions([target(first), target(second)], limits(2 * size - 1))
    assert [read.total_bytes for read in reads] == [size, small]


async def test_a_fetch_does_not_wait_for_more_when_the_next_batch_does_not_fit(new_partition: New) -> None:
    fetching = Fetching()
    partition = await new_partition(on_change=fetching.moved)  # type: ignore[misc]
    size = await append(partition, batch(1_000))
    most = 2 * size - 1
    fetching.fetch([target(partition, max_bytes=most)], limits(max_bytes=most, min_bytes=most))
    assert fetching.answers == []
    await append(partition, batch(1_000))
    assert [[read.total_bytes for read in reads] for reads in fetching.answers] == [[size]]
    fetching.fetch([target(partition, max_bytes=most)], limits(max_bytes=most, min_bytes=most))
    assert len(fetching.answers) == 2


@pytest.mark.parametrize("small_first", [True, False])
async def test_a_fetch_does_not_wait_for_bytes_when_records_are_there_that_do_not_fit(
    new_partition: New, small_first: bool
) -> None:
    fetching = Fetching()
    one, other = [await new_partition(index, on_change=fetching.moved) for index in range(2)]  # type: ignore[misc]
    targets = [target(one), target(other, max_bytes=100)]
    fetching.fetch(targets, limits(min_bytes=10_000))
    for partition in (one, other) if small_first else (other, one):
        assert fetching.answers == []
        await append(partition, batch(10 if partition is one else 5_000))
    size = len(batch(10))
    assert [[read.total_bytes for read in reads] for reads in fetching.answers] == [[size, 0]]


@pytest.fixture
def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The index of each partition whose log is read, as it happens."""
    indexes: list[int] = []
    read = Partition.read

    def counted(partition: Partition, *args: object, **options: object) -> object:
        indexes.append(partition.index)
        return read(partition, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Partition, "read", counted)
    return indexes


async def test_a_waiting_fetch_reads_only_the_partition_that_changed_until_there_is_enough(
    new_partition: New, reads_of: list[int]
) -> None:
    fetching = Fetching()
    partitions = [
        await new_partition(index, on_change=fetching.moved)  # type: ignore[misc]
        for index in range(6)
    ]
    size = len(batch())
    for partition in partitions[:5]:
        await append(partition, batch())
    fetching.fetch([target(partition) for partition in partitions], limits(min_bytes=8 * size))
    assert reads_of == [0, 1, 2, 3, 4]
    reads_of.clear()
    await append(partitions[3], batch())
    await append(partitions[5], batch())
    assert (reads_of, fetching.answers) == ([3, 5], [])
    await append(partitions[5], batch())
    assert reads_of == [3, 5, 5, 0, 1, 2, 3, 4, 5]
    assert [read.total_bytes for read in fetching.answers[0]] == [size, size, size, 2 * size, size, 2 * size]


async def test_a_partition_that_gives_all_it_may_is_not_read_again_while_a_fetch_waits(
    new_partition: New, reads_of: list[int]
) -> None:
    fetching = Fetching()
    partition = await new_partition(on_change=fetching.moved)  # type: ignore[misc]
    await append(partition, batch(100))
    fetching.fetch([target(partition, max_bytes=1)], limits(min_bytes=10_000))
    reads_of.clear()
    await append(partition, batch(100_000))
    assert (reads_of, fetching.answers) == ([], [])
    partition.delete_records_before(1)
    assert [read.error for read in fetching.answers[0]] == [ErrorCode.OFFSET_OUT_OF_RANGE]


async def test_a_partition_that_is_named_twice_counts_twice(new_partition: New) -> None:
    fetching = Fetching()
    partition = await new_partition(on_change=fetching.moved)  # type: ignore[misc]
    size = len(batch())
    fetching.fetch([target(partition), target(partition)], limits(min_bytes=2 * size))
    await append(partition, batch())
    assert [read.total_bytes for read in fetching.answers[0]] == [size, size]


class ReadsAllAgain(DelayedOperation):
    """The plainest fetch that waits: reads every partition from the beginning at each change."""

    def __init__(self, targets: list[FetchTarget], limits: FetchLimits) -> None:
        super().__init__()
        self.targets, self.limits = targets, limits
        self.answer: list[PartitionRead] | None = None

    def read(self) -> list[PartitionRead]:
        return read_partitions(never_read(self.targets), self.limits)

    def try_complete(self) -> bool:
        reads = self.read()
        is_wrong = any(read.error is not ErrorCode.NONE or read.diverging_epoch is not None for read in reads)
        found = sum(read.available_bytes for read in reads)
        is_left_out = found and any(
            read.total_bytes == 0 and each.offset < read.high_watermark
            for each, read in zip(self.targets, reads, strict=True)
        )
        return (is_wrong or is_left_out or found >= self.limits.min_bytes) and self.force_complete()

    def on_complete(self) -> None:
        self.answer = self.read()


def pieces(reads: list[PartitionRead]) -> list[object]:
    """Where in the files the records of each partition lie."""
    return [read.records and [(piece.position, piece.size) for piece in read.records.slices] for read in reads]


class RandomFetches:
    """Fetches over a few partitions that change at random, each beside its plain double."""

    def __init__(self, seed: int, new_partition: New) -> None:
        self.random = random.Random(seed)
        self.fetching = Fetching()
        self.new_partition = new_partition
        self.made = 0
        self.partitions: list[Partition] = []

    async def add(self) -> None:
        partition = await self.new_partition(  # type: ignore[misc]
            self.made,
            on_change=self.fetching.moved,
            flush_before_ack=False,
            config=LogConfig(segment_bytes=400),
        )
        self.made += 1
        self.partitions.append(partition)

    def target(self, partition: Partition) -> FetchTarget:
        start, end = partition.log.log_start_offset, partition.high_watermark
        return FetchTarget(
            partition,
            self.random.choice((end, end, start, self.random.randint(start, end))),
            self.random.choice((0, 1, 60, 150, 1 << 20)),
            current_leader_epoch=self.random.choice((-1, 3)),
            last_fetched_epoch=self.random.choice((-1, -1, 3)),
        )

    def limits(self) -> FetchLimits:
        max_bytes = self.random.choice((0, 50, 200, 1_000, 1 << 20))
        min_bytes = min(max_bytes, self.random.randint(1, 900))
        return FetchLimits(max_bytes, min_bytes, 500, self.random.random() < 0.5)

    async def change(self) -> None:
        partition = self.random.choice(self.partitions)
        kind = self.random.random()
        if kind < 0.88:
            await append(partition, batch(self.random.randint(1, 250)))
        elif kind < 0.97:
            partition.delete_records_before(
                self.random.randint(partition.log.log_start_offset, partition.high_watermark)
            )
        else:
            self.partitions.remove(partition)
            partition.stop()
            await self.add()

    async def run_one(self) -> bool:
        """A fetch and its double until both are answered; whether they had to wait."""
        chosen = self.random.sample(self.partitions, self.random.randint(1, len(self.partitions)))
        targets, limits = [self.target(partition) for partition in chosen], self.limits()
        plain = ReadsAllAgain(targets, limits)
        purgatory, answers = self.fetching.purgatory, self.fetching.answers
        answers.clear()
        keys = [partition.topic_partition for partition in chosen]
        purgatory.try_complete_else_watch(plain, keys, limits.max_wait_ms)
        self.fetching.fetch(targets, limits)
        waited = not answers
        for _ in range(12):
            assert (plain.answer is not None) == bool(answers)
            if answers:
                break
            await self.change()
        else:
            self.fetching.timer.advance(limits.max_wait_ms)
        [answer] = answers
        assert plain.answer is not None
        assert told(answer) == told(plain.answer)
        assert pieces(answer) == pieces(plain.answer)
        assert purgatory.delayed_count == 0
        return waited


@pytest.mark.parametrize("seed", range(3))
async def test_a_fetch_is_answered_when_and_as_one_that_reads_everything_at_each_change(
    new_partition: New, seed: int
) -> None:
    fetches = RandomFetches(seed, new_partition)
    for _ in range(4):
        await fetches.add()
    waited = [await fetches.run_one() for _ in range(60)]
    assert sum(waited) > 15


class NoReader:
    """Nobody may read `t`; notes who asked."""

    version = 0

    def allows_on_any(self, *_: object) -> bool:
        return False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def allows(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        self.asked.append(f"{principal} {operation.name} {resource_type.name} {resource_name}")
        return False


@pytest.mark.parametrize("by_id", [True, False])
async def test_who_may_not_read_is_refused_by_name_and_by_id(new_partition: New, by_id: bool) -> None:
    partition = await new_partition()  # type: ignore[misc]
    rules = NoReader()
    fetching = Fetching(authorizer=rules)
    fetching.replicas.add(partition)
    wanted = FetchTarget(None, 0, 100)
    fetching.service.look_up(ANONYMOUS, partition.topic_id if by_id else "t", 0, wanted)
    assert (wanted.partition, wanted.error) == (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert rules.asked == ["User:ANONYMOUS READ TOPIC t"]


@pytest.mark.parametrize("ends", ["news", "time"])
async def test_who_may_read_no_more_when_a_wait_is_over_gets_no_records(new_partition: New, ends: str) -> None:
    rules = Rules()
    fetching = Fetching(authorizer=rules)
    partition = await new_partition(on_change=fetching.moved)  # type: ignore[misc]
    size = await append(partition, batch())
    wanted = limits(min_bytes=2 * size)
    for reader in (ANONYMOUS, None):  # None: a follower, which the rules are not about
        fetching.service.fetch([target(partition)], wanted, fetching.on_fetched, reader)
    rules.deny(Operation.READ, ResourceType.TOPIC, partition.topic_partition.topic)
    rules.version += 1
    if ends == "news":
        await append(partition, batch())
    else:
        fetching.timer.advance(wanted.max_wait_ms)
    (read,), (of_follower,) = fetching.answers
    assert (read.error, read.records, read.high_watermark) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, -1)
    assert (of_follower.error, of_follower.records is None) == (ErrorCode.NONE, False)
