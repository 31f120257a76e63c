"""What waits in a delay topic, against a plain sorted list: each record once and in order, whatever is lost."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.queues.delay import (
    BEFORE_ALL,
    BadDelayError,
    Progress,
    due_ms,
    is_cancel,
    place_of,
    progress_of,
)
from ottla.runtime.disk import OsDisk
from ottla.runtime.rng import SystemRng
from ottla.runtime.tasks import Tasks as OwnedTasks
from ottla.server import delay_buckets
from ottla.server.delay_buckets import DelayBuckets, LostRunError, runs_to_merge
from ottla.server.delay_manifest import NAME, Manifest, manifest_bytes, manifest_of
from ottla.storage.log import Log

DEFAULT_MS = 50
Headers = list[tuple[str, bytes | None]]
Record = tuple[int, bytes | None, bytes | None, Headers]

times = st.integers(0, 300).map(lambda ms: [("ottla-deliver-at", str(ms).encode())])
delays = st.integers(0, 200).map(lambda ms: [("ottla-delay", str(ms).encode())])
bad = st.sampled_from([b"", b"x", b"-1", None, b"9" * 19]).map(lambda value: [("ottla-deliver-at", value)])
cancels: st.SearchStrategy[Headers] = st.sampled_from([b"", b"1", None]).map(lambda value: [("ottla-cancel", value)])
headers = st.one_of(times, times, times, delays, st.just([]), bad, cancels)
records = st.tuples(st.integers(0, 100), st.sampled_from([None, b"a", b"b", b"c"]), st.just(b"v"), headers)
steps = st.lists(
    st.one_of(
        st.lists(records, min_size=1, max_size=6),
        st.integers(1, 80),
        st.tuples(st.sampled_from([b"a", b"b"]), st.lists(records, max_size=2), st.integers(0, 300)),
        st.sampled_from(["flush", "flush", "flush", "merge", "start", "start", "lose", "damage", "cut"]),
    ),
    max_size=40,
)


class FakeLog:
    """A log of records, each with a leader epoch."""

    topic_partition = TopicPartition("later", 0)

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        self.records: list[Record] = []
        self.epochs: list[int] = []

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    def epoch_of_offset(self, offset: int) -> int:
        return self.epochs[offset] if 0 <= offset < len(self.epochs) else -1


class Tasks:
    """Threads and tasks that run at once."""

    async def in_thread(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def spawn(self, coroutine: Any, name: str) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine, name=name)


class Environment:
    """All that bucket files need of one."""

    tasks = Tasks()

    rng = SystemRng()


class Delivery:
    """Moves what is due as a leader does, and knows from a plain list what it should have moved."""

    def __init__(self, directory: Path) -> None:
        self.log = FakeLog(directory)
        self.waiting: dict[int, tuple[int, bytes | None, int]] = {}
        self.cancelled: dict[bytes | None, int] = {}
        self.progress = Progress().with_default_delay(DEFAULT_MS)
        self.now_ms = self.epoch = 0
        self.buckets = self._new_buckets()

    def _new_buckets(self) -> DelayBuckets:
        return DelayBuckets(cast("Log", self.log), cast("Any", Environment), OsDisk(), lambda: None)

    async def start(self) -> None:
        """As a new leader."""
        await self.buckets.close()
        self.buckets = self._new_buckets()
        self.progress = progress_of(self.progress.low, self.progress.metadata)
        self.index, self.position = await self.buckets.load(self.progress, self.progress.low)
        self.scan()

    def scan(self) -> None:
        for offset in range(self.position, len(self.log.records)):
            batch = bytes(build_batch([self.log.records[offset]], base_offset=offset))
            self.index.add(batch, offset, [], 1 << 20)
        self.position = len(self.log.records)

    def append(self, record: Record) -> None:
        offset = len(self.log.records)
        self.log.records.append(record)
        self.log.epochs.append(self.epoch)
        self._expect(offset, record)

    def append_unread(self, key: bytes, between: list[Record], due: int) -> None:
        """A schedule is cancelled, and its next time is written before the leader has read that."""
        place = len(self.log.records) - 1
        self.append((0, key, None, [("ottla-cancel", b"")]))
        for record in between:
            self.append(record)
        if place >= 0:
            headers: Headers = [("ottla-deliver-at", b"%d" % due), ("ottla-scheduled", b"%d" % place)]
            self.append((0, key, b"v", headers))
        self.scan()

    def _expect(self, offset: int, record: Record) -> None:
        timestamp, key, _, given_headers = record
        try:
            if is_cancel(key, given_headers):
                place = place_of(offset, given_headers)
                self.cancelled[key] = max(self.cancelled.get(key, -1), place)
                self.waiting = {
                    each: entry for each, entry in self.waiting.items() if entry[1] != key or entry[2] >= place
                }
                return
            due = due_ms(timestamp, given_headers, DEFAULT_MS)
        except BadDelayError:
            due = BEFORE_ALL
        place = place_of(offset, given_headers)
        if self.cancelled.get(key, -1) <= place:
            self.waiting[offset] = (due, key, place)

    def cut(self, end: int) -> None:
        """The log loses its end, as when an out-of-date replica leads; what was moved stays moved."""
        gone = {offset for offset in range(end) if offset not in self.waiting}
        del self.log.records[end:], self.log.epochs[end:]
        self.epoch += 1
        self.waiting, self.cancelled = {}, {}
        for offset, record in enumerate(self.log.records):
            self._expect(offset, record)
        # A record that a lost cancellation concerned waits again; what was moved does not.
        moved = self.progress.has_moved
        self.waiting = {
            offset: entry for offset, entry in self.waiting.items() if offset not in gone or not moved(entry[0], offset)
        }
        self.progress = self.progress.cut_at(end)

    def move(self, records_max: int) -> None:
        """All that is due, in transactions of so many records."""
        while (next_due := self.index.next_due()) is not None and next_due <= self.now_ms:
            point = (self.progress.due_ms, self.progress.offset)
            found = self.index.pop(self.now_ms, *point, records_max=records_max, bytes_max=1 << 20, log_start=0)
            due = sorted((entry[0], offset) for offset, entry in self.waiting.items() if entry[0] <= self.now_ms)
            got = [each[:2] for each in found]
            late = [each for each in due if each <= point]
            assert got == due[: len(got)], "what is due first comes first, nothing twice and nothing early"
            assert len(got) >= min(len(due), max(records_max, len(late)))
            for _, offset in got:
                timestamp, key, value, given_headers = self.log.records[offset]
                assert found[got.index((_, offset))][2:6] == (timestamp, key, value, given_headers)
                del self.waiting[offset]
            if got:
                oldest = self.index.oldest()
                assert oldest is None or oldest <= min(self.waiting, default=1 << 60)
                assert oldest is not None or not self.waiting
                low = self.index.read_from(self.position if oldest is None else min(oldest, self.position))
                point = max(point, got[-1])
                self.progress = Progress(max(low, self.progress.low), *point, self.position, self.progress.delays)
        assert not [entry for entry in self.waiting.values() if entry[0] <= self.now_ms], "nothing is forgotten"

    def files(self) -> list[Path]:
        directory = Path(self.log.directory) / "delays"
        return sorted(each for each in directory.glob("*") if each.name != NAME) if directory.is_dir() else []

    async def step(self, step: Any, data: st.DataObject) -> None:
        if isinstance(step, list):
            for record in step:
                self.append(record)
            self.scan()
        elif isinstance(step, tuple):
            self.append_unread(*step)
        elif isinstance(step, int):
            self.now_ms += step
            self.move(data.draw(st.integers(1, 4)))
            await self.buckets.remove_spent(self.index, self.progress)
        elif step == "flush":
            await self.buckets.flush(self.index, self.progress, self.position)
        elif step == "merge":
            for _ in range(3):
                await self.buckets.settle(self.index, self.progress, self.position)
                await asyncio.sleep(0)
            await self.buckets.remove_spent(self.index, self.progress)
        elif step == "cut":
            self.cut(data.draw(st.integers(0, len(self.log.records))))
            for number in range(data.draw(st.integers(0, 8))):
                self.append(at(40 * number))
            await self.start()
        elif step in ("lose", "damage") and (files := self.files()):
            victim = data.draw(st.sampled_from(files))
            await self.buckets.close()
            if step == "lose":
                victim.unlink()
            else:
                content = bytearray(victim.read_bytes())
                content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
                victim.write_bytes(content)
            await self.start()
        else:
            await self.start()


async def deliver(directory: Path, given_steps: list[Any], data: st.DataObject) -> None:
    delivery = Delivery(directory)
    await delivery.start()
    for step in given_steps:
        await delivery.step(step, data)
    await delivery.start()
    delivery.now_ms += 1_000
    delivery.move(5)
    assert not delivery.waiting
    await delivery.buckets.close()


@pytest.fixture(autouse=True)
def merges_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_buckets, "FAN_IN", 3)
    monkeypatch.setattr(delay_buckets, "SMALL_BYTES", 300)


@settings(max_examples=150, deadline=None)
@given(steps, st.data())
def test_each_record_is_moved_once_when_it_is_due_whatever_is_lost(given_steps: list[Any], data: st.DataObject) -> None:
    directory = Path(tempfile.mkdtemp())
    try:
        asyncio.run(deliver(directory, given_steps, data))
    finally:
        shutil.rmtree(directory)


class Draws:
    """Draws the same always."""

    def draw(self, strategy: Any) -> Any:
        return 1


def at(ms: int, key: bytes | None = None) -> Record:
    return 0, key, b"v", [("ottla-deliver-at", str(ms).encode())]


CANCEL: Record = (0, b"k", None, [("ottla-cancel", b"")])
FOLLOWING: Record = (0, b"k", b"v", [("ottla-deliver-at", b"300"), ("ottla-scheduled", b"0")])


def test_files_of_a_log_that_was_cut_and_grew_again_are_not_read(tmp_path: Path) -> None:
    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        await delivery.step([at(100), at(200), at(300)], cast("Any", Draws()))
        await delivery.step("flush", cast("Any", Draws()))
        delivery.cut(1)
        for ms in (150, 250, 350):
            delivery.append(at(ms))
        await delivery.start()
        delivery.now_ms = 400
        delivery.move(2)

    asyncio.run(run())


def test_a_file_that_is_lost_has_the_log_read_from_there(tmp_path: Path) -> None:
    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        for ms in (100, 200, 300):
            await delivery.step([at(ms)], cast("Any", Draws()))
            await delivery.step("flush", cast("Any", Draws()))
        delivery.files()[1].unlink()
        await delivery.start()
        assert len(delivery.files()) == 1
        delivery.now_ms = 400
        delivery.move(2)

    asyncio.run(run())


def test_a_cancellation_outlives_a_merge_without_the_run_that_it_concerns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_buckets, "FAN_IN", 2)

    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        large: Record = (0, b"other", b"x" * 1_000, [("ottla-deliver-at", b"800")])
        cancel: Record = (0, b"k", None, [("ottla-cancel", b"")])
        for step in ([at(500, b"k"), large], "flush", [at(600)], "flush", [at(700), cancel], "flush", "merge"):
            await delivery.step(step, cast("Any", Draws()))
        assert len(delivery.files()) == 2, "the large one was left as it is"
        await delivery.start()
        delivery.now_ms = 900
        delivery.move(2)

    asyncio.run(run())


def test_runs_are_merged_of_which_one_is_spent_and_its_file_with_cancellations_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_buckets, "FAN_IN", 3)

    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        cancel: Record = (0, b"k", None, [("ottla-cancel", b"")])
        for step in ([at(10), cancel], "flush", 25, "merge", [at(500)], "flush", [at(600)], "flush", "merge"):
            await delivery.step(step, cast("Any", Draws()))
        assert len(delivery.files()) == 1, "they are one run"
        delivery.now_ms = 700
        delivery.move(5)
        assert not delivery.waiting
        await delivery.buckets.close()

    asyncio.run(run())


def test_less_that_was_delivered_has_all_of_it_read_from_the_log_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_buckets, "FAN_IN", 2)

    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        for step in ([at(10), at(20), at(500)], "flush", [at(30)], "flush", 25, "merge", "merge"):
            await delivery.step(step, cast("Any", Draws()))
        delivery.progress = Progress().with_default_delay(DEFAULT_MS)
        delivery.waiting = {offset: (at_ms, None, offset) for offset, at_ms in enumerate((10, 20, 500, 30))}
        await delivery.start()
        delivery.now_ms = 600
        delivery.move(5)
        assert not delivery.waiting

    asyncio.run(run())


def test_a_damaged_block_is_told_when_it_is_read_and_read_from_the_log_then(tmp_path: Path) -> None:
    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        for number in range(2_000):
            delivery.append((0, None, b"x" * 500, [("ottla-deliver-at", b"%d" % (100 + number % 700))]))
        delivery.scan()
        await delivery.buckets.flush(delivery.index, delivery.progress, delivery.position)
        (file,) = delivery.files()
        content = bytearray(file.read_bytes())
        content[600_000] ^= 1
        file.write_bytes(content)
        delivery.now_ms = 900
        with pytest.raises(OSError, match="checksum of a block"):
            delivery.move(100)
        failed = delivery.index.failed_run
        assert failed == 0
        await delivery.buckets.drop_from(failed, delivery.progress)
        await delivery.start()
        assert delivery.files() == []
        delivery.waiting = {
            offset: (100 + offset % 700, None, offset)
            for offset in range(2_000)
            if not delivery.progress.has_moved(100 + offset % 700, offset)
        }
        assert 0 < len(delivery.waiting) < 2_000
        delivery.move(100)
        assert not delivery.waiting

    asyncio.run(run())


def test_a_full_disk_leaves_everything_as_it_is(tmp_path: Path) -> None:
    async def run() -> None:
        delivery = Delivery(tmp_path / "not there")
        await delivery.start()
        delivery.append(at(100))
        delivery.scan()
        with pytest.raises(FileNotFoundError):
            await delivery.buckets.flush(delivery.index, delivery.progress, delivery.position)
        assert not (tmp_path / "not there").exists(), "the directory of a deleted log is not made anew"
        delivery.now_ms = 200
        delivery.move(1)
        assert not delivery.waiting

    asyncio.run(run())


def test_a_file_that_cannot_be_written_is_told_by_the_caller_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class WithTasks:
        tasks = OwnedTasks()
        rng = SystemRng()

    async def run() -> None:
        log = FakeLog(tmp_path)
        buckets = DelayBuckets(cast("Log", log), cast("Any", WithTasks), OsDisk(), lambda: None)
        index, position = await buckets.load(Progress(), 0)
        (tmp_path / "delays").write_bytes(b"no directory")
        with pytest.raises(OSError, match="delays"):
            await buckets.flush(index, Progress(), position)
        await asyncio.sleep(0)
        await WithTasks.tasks.close()

    asyncio.run(run())
    assert not caplog.records


def test_a_run_has_the_epoch_of_what_was_read_also_when_the_log_is_cut_while_it_is_written(tmp_path: Path) -> None:
    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        delivery.append(at(100))
        delivery.scan()
        in_thread = Tasks.in_thread

        class Cutting(Tasks):
            async def in_thread(self, function: Any, *args: Any, **kwargs: Any) -> Any:
                delivery.log.epochs[0] = 7
                return await in_thread(self, function, *args, **kwargs)

        class WithCuts(Environment):
            tasks = Cutting()

        buckets = DelayBuckets(cast("Log", delivery.log), cast("Any", WithCuts), OsDisk(), lambda: None)
        await buckets.load(delivery.progress, 0)
        delivery.log.epochs[0] = 0
        await buckets.flush(delivery.index, delivery.progress, delivery.position)
        assert delivery.log.epochs == [7]
        written = manifest_of((tmp_path / "delays" / NAME).read_bytes())
        assert written is not None
        assert [run.epoch for run in written.runs] == [0]

    asyncio.run(run())


def test_a_cancelled_schedule_does_not_come_back_by_what_was_written_without_knowing(tmp_path: Path) -> None:
    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        cancel: Record = (0, b"k", None, [("ottla-cancel", b"")])
        following: Record = (0, b"k", b"v", [("ottla-deliver-at", b"300"), ("ottla-scheduled", b"0")])
        for record in (at(0, b"k"), cancel, following):
            delivery.append(record)
        assert not delivery.waiting
        delivery.scan()
        delivery.now_ms = 400
        delivery.move(1)
        await delivery.buckets.flush(delivery.index, delivery.progress, delivery.position)
        await delivery.start()
        delivery.move(1)

    asyncio.run(run())


@pytest.mark.parametrize(
    "given_steps",
    [
        [[at(10, b"k")], 20, (b"k", [at(900)], 300), [at(25)], 30],
        [[at(10, b"k"), at(500)], (b"k", [], 300), "flush", [at(900)], "flush", "merge", 50],
        [[at(10, b"k")], 20, [CANCEL], "flush", [at(900), FOLLOWING, at(25)], 30],
        [[at(10, b"k"), CANCEL], "flush", [at(900)], "flush", [FOLLOWING], "merge", 50],
    ],
    ids=["in the log", "in a run", "before the log", "in a merge"],
)
def test_a_cancelled_schedule_stays_cancelled_where_the_log_is_read_from_behind_the_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_steps: list[Any]
) -> None:
    monkeypatch.setattr(delay_buckets, "FAN_IN", 2)

    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        for step in (*given_steps, "start", 950):
            await delivery.step(step, cast("Any", Draws()))
        assert not delivery.waiting

    asyncio.run(run())


def test_a_file_stays_as_long_as_a_schedule_behind_it_may_be_read_again_that_it_cancels(tmp_path: Path) -> None:
    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        for step in ([at(10, b"k")], 20, [CANCEL], "flush", [at(900), FOLLOWING, at(25)], 30):
            await delivery.step(step, cast("Any", Draws()))
        assert len(delivery.index) == 1, "nothing of the file waits"
        assert len(delivery.files()) == 1
        for step in ([at(901)], 900):
            await delivery.step(step, cast("Any", Draws()))
        assert delivery.files() == []

    asyncio.run(run())


def test_cancelled_records_are_left_out_of_a_merge_and_their_cancellations_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        for record in (at(500, b"a"), at(600, b"b"), at(700, b"a")):
            delivery.append(record)
            delivery.scan()
            await delivery.buckets.flush(delivery.index, delivery.progress, delivery.position)
        delivery.append((0, b"a", None, [("ottla-cancel", b"")]))
        delivery.scan()
        await delivery.buckets.flush(delivery.index, delivery.progress, delivery.position)
        assert delivery.index.cancel_count == 1
        monkeypatch.setattr(delay_buckets, "FAN_IN", 2)
        await delivery.step("merge", cast("Any", Draws()))
        assert (len(delivery.index), delivery.index.cancel_count, len(delivery.files())) == (1, 0, 1)
        await delivery.start()
        assert (len(delivery.index), delivery.index.cancel_count) == (1, 0)

    asyncio.run(run())


def test_runs_of_one_size_are_merged_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_buckets, "FAN_IN", 4)
    small, large = 1 << 20, 100 << 20
    assert [runs_to_merge([small] * count) for count in (0, 3, 4, 5)] == [0, 0, 4, 5]
    assert runs_to_merge([large, large, small, small, small, small]) == 4
    assert runs_to_merge([large, large, large, small]) == 4
    assert runs_to_merge([large << 10, large, large, small]) == 0, (
        "or the large one is written for the sake of the others"
    )
    assert runs_to_merge([large << 10, large, large, large, large]) == 4


def test_what_was_moved_does_not_come_back_by_a_merge_of_a_run_that_also_has_what_was_not_read_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        delivery.append(at(500))
        delivery.scan()
        delivery.now_ms = 500
        delivery.move(1)
        moved = delivery.progress
        delivery.append(at(400))
        delivery.append(at(600))
        delivery.progress = Progress().with_default_delay(DEFAULT_MS)
        delivery.index, delivery.position = await delivery.buckets.load(delivery.progress, 0)
        delivery.scan()
        await delivery.buckets.flush(delivery.index, delivery.progress, delivery.position)
        delivery.append(at(700))
        delivery.scan()
        await delivery.buckets.flush(delivery.index, delivery.progress, delivery.position)
        delivery.progress = moved._replace(low=0)
        await delivery.start()
        monkeypatch.setattr(delay_buckets, "FAN_IN", 2)
        await delivery.step("merge", cast("Any", Draws()))
        assert len(delivery.files()) == 1
        delivery.now_ms = 1_000
        delivery.move(1)

    asyncio.run(run())


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "damaged"])
def test_a_run_that_cannot_be_merged_is_read_from_the_log_again(
    is_lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_buckets, "FAN_IN", 2)

    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        for number in range(2):
            for due in range(500, 504):
                delivery.append((0, b"k", bytes(100_000), [("ottla-deliver-at", b"%d" % (due + number))]))
            delivery.scan()
            await delivery.buckets.flush(delivery.index, delivery.progress, delivery.position)
        victim = delivery.files()[0]
        if is_lost:
            victim.unlink()
        else:
            content = bytearray(victim.read_bytes())
            content[250_000] ^= 1
            victim.write_bytes(content)
        with pytest.raises(LostRunError):
            await delivery.step("merge", cast("Any", Draws()))
        await delivery.start()
        delivery.now_ms = 600
        delivery.move(3)
        assert delivery.index.next_due() is None

    asyncio.run(run())


def test_a_damaged_manifest_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def damage() -> None:
        (manifest,) = tmp_path.rglob("manifest")
        manifest.write_bytes(b"damaged")

    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        for step in ([at(10)], "flush"):
            await delivery.step(step, cast("Any", Draws()))
        damage()
        for _ in range(2):
            await delivery.start()
            assert delivery.files() == []

    asyncio.run(run())
    assert caplog.text.count("manifest is damaged") == 1


def test_a_damaged_manifest_is_none() -> None:
    content = manifest_bytes(Manifest((1, 2)))
    assert manifest_of(content) == Manifest((1, 2))
    for position in range(len(content)):
        assert manifest_of(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]) is None
    assert manifest_of(b"") is None


def test_a_cancellation_outlives_the_records_of_its_run(tmp_path: Path) -> None:
    async def run(steps_before: list[Any]) -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        for step in ([at(500, b"k"), at(600)], "flush", *steps_before):
            await delivery.step(step, cast("Any", Draws()))
        await delivery.buckets.remove_spent(delivery.index, delivery.progress)
        await delivery.start()
        delivery.now_ms = 700
        delivery.move(2)
        await delivery.buckets.remove_spent(delivery.index, delivery.progress)
        assert delivery.files() == [], "nothing waits that it may concern"

    asyncio.run(run([[at(10), CANCEL], "flush", 20]))
    shutil.rmtree(tmp_path / "delays")
    asyncio.run(run([[CANCEL], "flush"]))


def test_a_merge_takes_the_cancellations_of_runs_of_which_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        large: Record = (0, b"other", b"x" * 1_000, [("ottla-deliver-at", b"800")])
        for step in ([at(500, b"k"), large], "flush", [at(10), CANCEL], "flush", [at(700)], "flush", 20):
            await delivery.step(step, cast("Any", Draws()))
        monkeypatch.setattr(delay_buckets, "FAN_IN", 2)
        await delivery.step("merge", cast("Any", Draws()))
        assert len(delivery.files()) == 2, "the large one was left as it is"
        await delivery.start()
        delivery.now_ms = 900
        delivery.move(2)

    asyncio.run(run())


def test_cancellations_behind_the_last_run_have_nothing_merged_for_their_sake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_buckets, "CANCELS_MAX", 2)

    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        await delivery.step([at(500), at(600)], cast("Any", Draws()))
        await delivery.step("flush", cast("Any", Draws()))
        before = delivery.files()
        await delivery.step([(0, b"%d" % number, None, CANCEL[3]) for number in range(5)], cast("Any", Draws()))
        await delivery.step("merge", cast("Any", Draws()))
        assert delivery.files() == before
        assert await delivery.buckets.has_many_unwritten(delivery.index)
        await delivery.step("flush", cast("Any", Draws()))
        await delivery.step("merge", cast("Any", Draws()))
        assert (delivery.index.cancel_count, len(delivery.files())) == (0, 1)
        assert not await delivery.buckets.has_many_unwritten(delivery.index)

    asyncio.run(run())


def test_files_of_records_that_were_deleted_are_gone_after_the_next_start(tmp_path: Path) -> None:
    async def run() -> None:
        delivery = Delivery(tmp_path)
        await delivery.start()
        for step in ([at(500), at(600)], "flush", [at(700), at(800)], "flush"):
            await delivery.step(step, cast("Any", Draws()))
        before = delivery.files()
        # As a leader does where DeleteRecords has moved the log start.
        index, position = await delivery._new_buckets().load(delivery.progress, 2)
        assert (len(index), position, delivery.files()) == (2, 4, before[1:])
        index, position = await delivery._new_buckets().load(delivery.progress, 4)
        assert (len(index), position, delivery.files()) == (0, 4, [])

    asyncio.run(run())
