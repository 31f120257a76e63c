"""What is moved while the leader and its log change."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.producing.delivery import RecordMetadata
from ottla.model.topic_partition import TopicPartition
from ottla.native import TopicRules, build_batch, decode_records
from ottla.runtime.disk import OsDisk
from ottla.runtime.rng import SystemRng
from ottla.server import delay_buckets, delay_mover
from ottla.server.delay_mover import DelayMover
from ottla.server.delay_outbox import Target

if TYPE_CHECKING:
    from collections.abc import Callable

PLACE = TopicPartition("later", 0)
RULES = TopicRules(max_batch_bytes=10_000, max_decompressed_bytes=1 << 20)
NOW_MS = 1_000
STEPS = 200


class Bytes:
    """What was read of a log."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> bytes:
        return self._data


class FakeLog:
    """Batches of one record."""

    topic_partition = PLACE
    log_start_offset = 0
    opened_end_offset = 0

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        self.batches: list[bytes] = []

    @property
    def log_end_offset(self) -> int:
        return len(self.batches)

    def append(self, key: bytes, *headers: tuple[str, bytes | None]) -> None:
        self.batches.append(bytes(build_batch([(0, key, b"v", list(headers))], base_offset=len(self.batches))))

    def aborted_in(self, *_: object) -> list[Any]:
        return []

    def epoch_of_offset(self, offset: int) -> int:
        return 3 if offset >= 0 else -1

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        return (-1, -1)


class FakePartition:
    """One batch is read at a time."""

    topic_partition = PLACE
    leader_epoch = 3
    is_leader = True
    is_behind_election = False
    last_stable_offset = 0

    def __init__(self, log: FakeLog) -> None:
        self.log = log
        self._on_change: list[Callable[[Any], None]] = []

    def subscribe(self, on_change: Callable[[Any], None]) -> None:
        self._on_change.append(on_change)

    def unsubscribe(self, on_change: Callable[[Any], None]) -> None:
        self._on_change.remove(on_change)

    def commit_up_to(self, end: int) -> None:
        self.last_stable_offset = end
        for each in self._on_change:
            each(self)

    def read(self, offset: int, *_: object, **__: object) -> Bytes:
        return Bytes(self.log.batches[offset])


class Environment:
    """Nothing takes time, and no timer ever ends."""

    rng = SystemRng()

    class Tasks:
        async def in_thread(self, function: Any, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        def spawn(self, coroutine: Any, name: str) -> asyncio.Task[Any]:
            return asyncio.get_running_loop().create_task(coroutine, name=name)

    class Clock:
        def now_ms(self) -> int:
            return NOW_MS

        def monotonic_ms(self) -> int:
            return NOW_MS

    class Timer:
        async def sleep(self, ms: int) -> None:
            await asyncio.Event().wait()

        def schedule(self, ms: int, call: object) -> asyncio.Event:
            found = asyncio.Event()
            found.cancel = lambda: None  # type: ignore[attr-defined]
            return found

    tasks, clock, timer = Tasks(), Clock(), Timer()


async def appended(offset: int) -> Any:
    return RecordMetadata(PLACE, offset, NOW_MS)


class CaseProducer:
    """Keeps what it sends in its case."""

    def __init__(self, case: Case) -> None:
        self._case = case

    async def close(self, *, deliver: bool) -> None: ...

    def begin_transaction(self) -> None: ...

    async def send_encoded(self, topic: str, partition: int, batch: bytearray, count: int) -> Any:
        if topic == PLACE.topic:
            return appended(self._case.own_offset)
        self._case.sent += [each[2] for each in decode_records(bytes(batch), max_decompressed_bytes=1 << 20)]
        self._case.on_sent()
        return None

    async def abort_transaction(self) -> None:
        self._case.aborts += 1

    async def send_offsets_to_transaction(self, committed: Any, group: str) -> None:
        self._committed = committed

    async def commit_transaction(self) -> None:
        self._case.commits += 1
        self._case.committed = self._committed
        self._case.on_commit()


class Case:
    """A mover with a producer that keeps what it sends."""

    def __init__(self, directory: Path) -> None:
        self.log = FakeLog(directory)
        self.partition = FakePartition(self.log)
        self.sent: list[bytes | None] = []
        self.environment = Environment()
        self.commits = self.aborts = 0
        self.own_offset = 0
        self.most_cancels = 0
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self.found_first: dict[TopicPartition, tuple[int, CommittedOffset | None]] = {}
        self.on_sent: Callable[[], None] = lambda: None
        self.on_commit: Callable[[], None] = lambda: None

    async def become_producer(self, _place: TopicPartition) -> tuple[Any, CommittedOffset | None]:
        return CaseProducer(self), self.committed.get(PLACE)

    @contextlib.asynccontextmanager
    async def running(self) -> Any:
        async def nothing(*_: object) -> None: ...

        mover = DelayMover(
            cast("Any", self.partition),
            "now",
            0,
            self.become_producer,
            cast("Any", self.environment),
            OsDisk(),
            look_up=lambda name: Target(name, 1, RULES),
            partition_count=lambda: 1,
            ensure_topic=nothing,
            keep_log_start=nothing,
            found_first=self.found_first,
        )
        self.mover = mover
        task = asyncio.create_task(mover.run())
        await self.steps()
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def steps(self) -> None:
        for _ in range(STEPS):
            await asyncio.sleep(0)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


CANCEL = ("ottla-cancel", b"")


def test_a_new_leader_waits_for_what_was_acknowledged_above_its_high_watermark(case: Case) -> None:
    async def run() -> None:
        case.log.append(b"a")
        case.log.append(b"a", CANCEL)
        case.log.append(b"b")
        case.partition.last_stable_offset = 1
        case.partition.is_behind_election = True
        async with case.running():
            assert case.sent == []
            case.partition.is_behind_election = False
            case.partition.commit_up_to(3)
            await case.steps()
            assert case.sent == [b"b"]

    asyncio.run(run())


def test_what_was_written_in_a_transaction_that_had_to_wait_is_read_before_the_next(case: Case) -> None:
    def written_meanwhile() -> None:
        if case.commits == 1:
            case.log.append(b"a")
            case.log.append(b"b")
            case.log.append(b"a", CANCEL)
            case.partition.commit_up_to(4)

    async def run() -> None:
        case.log.append(b"first")
        case.partition.last_stable_offset = 1
        case.on_commit = written_meanwhile
        async with case.running():
            assert case.sent == [b"first", b"b"]

    asyncio.run(run())


def test_nothing_is_committed_once_another_broker_leads(case: Case) -> None:
    def led_elsewhere() -> None:
        case.partition.is_leader = False

    async def run() -> None:
        case.log.append(b"a")
        case.partition.last_stable_offset = 1
        case.on_sent = led_elsewhere
        async with case.running():
            assert case.sent == [b"a"]
            assert case.commits == 0

    asyncio.run(run())


def test_a_progress_of_ours_that_reads_like_the_one_of_before_a_cut_is_not_cut_again(case: Case) -> None:
    async def run() -> None:
        case.committed = before = {PLACE: CommittedOffset(0, 3, "5000:0:2:0,0")}
        case.log.append(b"old")
        case.log.opened_end_offset = 1
        case.log.append(b"written anew")
        case.partition.last_stable_offset = 2
        async with case.running():
            assert case.sent == [b"written anew"]
        assert case.committed == before
        async with case.running():
            assert case.sent == [b"written anew"]

    asyncio.run(run())


def test_what_is_written_of_a_schedule_too_far_behind_what_was_read_is_not_committed(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_mover, "APART_MAX", 3)

    async def run() -> None:
        case.log.append(b"k", ("ottla-cron", b"* * * * *"))
        for _ in range(4):
            case.log.append(b"other", CANCEL)
        case.partition.last_stable_offset = 1
        case.own_offset = 4
        async with case.running():
            assert (case.commits, case.aborts) == (0, 1)
        case.partition.last_stable_offset = 5
        case.own_offset = 5
        async with case.running():
            assert (case.commits, case.aborts) == (1, 1)

    asyncio.run(run())


@pytest.mark.parametrize("flush_bytes", [1 << 20, 1])
def test_who_reads_the_whole_log_again_keeps_a_limited_number_of_cancellations(
    case: Case, monkeypatch: pytest.MonkeyPatch, flush_bytes: int
) -> None:
    for module in (delay_mover, delay_buckets):
        monkeypatch.setattr(module, "CANCELS_MAX", 20)
        monkeypatch.setattr(module, "APART_MAX", 10)
    monkeypatch.setattr(delay_mover, "FLUSH_LOG_BYTES", flush_bytes)
    read = case.partition.read

    def counting(*args: Any, **options: Any) -> Bytes:
        case.most_cancels = max(case.most_cancels, case.mover._index.cancel_count)
        return read(*args, **options)

    monkeypatch.setattr(case.partition, "read", counting)

    async def run() -> None:
        case.log.append(b"far", ("ottla-deliver-at", b"%d" % (2 * NOW_MS)))
        for number in range(300):
            case.log.append(b"%d" % number, CANCEL)
        case.partition.last_stable_offset = case.log.log_end_offset
        async with case.running():
            while case.mover._position < case.log.log_end_offset:
                await case.steps()
        assert 20 <= case.most_cancels <= 41

    asyncio.run(run())


CRON = ("ottla-cron", b"* * * * *")


def test_what_is_due_does_not_wait_for_what_was_written_of_a_schedule_behind_an_open_transaction(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_mover, "TRANSACTION_RECORDS", 1)

    async def run() -> None:
        case.log.append(b"first")
        case.log.append(b"schedule", CRON, ("ottla-scheduled", b"0"), ("ottla-deliver-at", b"500"))
        case.log.append(b"schedule", CRON, ("ottla-deliver-at", b"100"))
        case.log.append(b"last", ("ottla-deliver-at", b"900"))
        case.partition.last_stable_offset = 4
        case.own_offset = 7
        async with case.running():
            assert case.sent == [b"first", b"last"], "a time of the schedule that was replaced is not delivered"

    asyncio.run(run())


def test_a_cancellation_is_kept_until_all_is_read_that_was_written_of_schedules(case: Case) -> None:
    async def run() -> None:
        case.log.append(b"a", CRON)
        case.partition.last_stable_offset = 1
        case.own_offset = 7
        async with case.running():
            case.log.append(b"a", CANCEL)
            case.log.append(b"b", CRON)
            case.partition.commit_up_to(3)
            await case.steps()
            assert case.commits == 2
            assert case.mover._safe_offset == 1

    asyncio.run(run())


def test_a_new_leader_keeps_a_cancellation_until_all_is_read_that_was_written_of_schedules_before_it_led(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_mover, "FLUSH_LOG_BYTES", 1)

    async def run() -> None:
        case.committed = {PLACE: CommittedOffset(1, 3, "100:0:1:0,0")}
        case.log.opened_end_offset = 4
        case.log.append(b"a", CRON)
        case.log.append(b"a", CANCEL)
        case.log.append(b"a", CRON, ("ottla-scheduled", b"0"), ("ottla-deliver-at", b"500"))
        case.log.append(b"b")
        case.partition.last_stable_offset = 2
        async with case.running():
            case.partition.commit_up_to(4)
            await case.steps()
            assert case.sent == [b"b"]

    asyncio.run(run())


def test_a_clock_that_was_set_back_does_not_stop_reading(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_mover, "TRANSACTION_BYTES", 1)

    async def run() -> None:
        case.committed = {PLACE: CommittedOffset(0, 3, "5000:0:0:0,0")}
        case.log.append(b"later", ("ottla-deliver-at", b"3000"))
        case.log.append(b"due", ("ottla-deliver-at", b"500"))
        case.partition.last_stable_offset = 2
        async with case.running():
            assert case.sent == [b"later", b"due"]

    asyncio.run(run())


def test_who_was_not_told_that_another_broker_leads_does_not_cut_its_progress(case: Case) -> None:
    async def run() -> None:
        case.committed = {PLACE: CommittedOffset(0, 4, "500:0:2:0,0")}
        case.log.append(b"a", ("ottla-deliver-at", b"800"))
        case.partition.last_stable_offset = 1
        async with case.running():
            assert case.sent == []
            assert case.commits == 0

    asyncio.run(run())


class SlowClock(Environment.Clock):
    """Each look at it takes time."""

    now = 0

    def monotonic_ms(self) -> int:
        self.now += 60
        return self.now


def test_what_is_written_while_much_is_read_is_read_before_anything_is_moved(case: Case) -> None:
    case.environment.clock = SlowClock()

    def read(offset: int, *_: object, **__: object) -> Bytes:
        if offset == 2 and len(case.log.batches) == 3:
            case.log.append(b"c")
            case.log.append(b"a", CANCEL)
            case.partition.last_stable_offset = 5
        return Bytes(case.log.batches[offset])

    async def run() -> None:
        for key in (b"a", b"b", b"b"):
            case.log.append(key)
        case.partition.last_stable_offset = 3
        case.partition.read = read  # type: ignore[method-assign]
        async with case.running():
            assert case.sent == [b"b", b"b", b"c"]

    asyncio.run(run())
