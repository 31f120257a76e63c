"""The index and the bucket files of a delay topic with very many records, against a sorted list: each is moved once, in
the order in which it is due, none early and none left behind, over merges and new leaders; in little memory.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.queues.delay import Progress, progress_of
from ottla.runtime.disk import OsDisk
from ottla.runtime.rng import SystemRng
from ottla.server import delay_buckets
from ottla.server.delay_buckets import DelayBuckets
from ottla.simulation.replacing import replaced

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.storage.log import Log

BATCH_RECORDS: Final = 500
TRANSACTION_RECORDS: Final = 4_096
SPANS_MS: Final = (0, 50, 5_000, 600_000, 86_400_000, 3_650 * 86_400_000)
"""How long records wait: of each kind, about as many."""

CANCELLED_SHARE: Final = 0.01


class FakeLog:
    """Batches, each with its first offset."""

    topic_partition = TopicPartition("later", 0)

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        self.batches: list[tuple[int, bytes]] = []
        self.log_end_offset = 0

    def append(self, records: list[Any]) -> None:
        self.batches.append((self.log_end_offset, bytes(build_batch(records, base_offset=self.log_end_offset))))
        self.log_end_offset += len(records)

    def epoch_of_offset(self, offset: int) -> int:
        return 0 if 0 <= offset < self.log_end_offset else -1


class Environment:
    """Threads and tasks that run at once."""

    rng = SystemRng()

    class Tasks:
        async def in_thread(self, function: Any, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        def spawn(self, coroutine: Any, name: str) -> asyncio.Task[Any]:
            return asyncio.get_running_loop().create_task(coroutine, name=name)

    tasks = Tasks()


class ManyRecords:
    """A partition of a delay topic whose leader moves what is due, and what waits in it as a sorted list."""

    def __init__(self, directory: Path, rng: Random, *, keys: int, value: bytes, gathered_bytes: int) -> None:
        self.log = FakeLog(directory)
        self.rng = rng
        self.keys = keys
        self.value = value
        self.gathered_bytes = gathered_bytes
        self.now_ms = 1_700_000_000_000
        self.progress = Progress().with_default_delay(0)
        self.listed: list[tuple[int, int]] = []
        self.waiting: dict[int, bytes] = {}
        """By offset, the key of what waits; of what is in the list and not here is cancelled."""
        self.of_key: dict[bytes, list[int]] = {}
        self.buckets = self._new_buckets()
        self.position = self.moved = 0
        self.most_bytes = 0

    def _new_buckets(self) -> DelayBuckets:
        return DelayBuckets(cast("Log", self.log), cast("Any", Environment), OsDisk(), lambda: None)

    async def start(self) -> None:
        """As a new leader, which knows what is committed and what is in the files."""
        await self.buckets.close()
        self.buckets = self._new_buckets()
        self.progress = progress_of(self.progress.low, self.progress.metadata)
        self.index, self.position = await self.buckets.load(self.progress, self.progress.low)
        await self._scan()

    async def _scan(self) -> None:
        first = bisect_right(self.log.batches, self.position, key=lambda each: each[0]) - 1
        for offset, batch in self.log.batches[max(first, 0) :]:
            end = offset + int.from_bytes(batch[23:27]) + 1
            if end <= self.position:
                continue
            self.index.add(batch, self.position, [], 1 << 24)
            self.position = end
            if self.index.gathered_bytes >= self.gathered_bytes:
                self.index.settle(self.position)
                if self.index.live_bytes >= self.gathered_bytes // 2:
                    await self.buckets.flush(self.index, self.progress, self.position)
            await self._settle()
            self.most_bytes = max(self.most_bytes, self.index.bytes)

    async def _settle(self) -> None:
        await self.buckets.settle(self.index, self.progress, self.position)
        await asyncio.sleep(0)

    async def append(self, count: int) -> None:
        rng, offset = self.rng, self.log.log_end_offset
        records: list[Any] = []
        for _ in range(count):
            key = b"%d" % rng.randrange(self.keys)
            if rng.random() < CANCELLED_SHARE:
                records.append((self.now_ms, key, None, [("ottla-cancel", b"")]))
                for each in self.of_key.pop(key, ()):
                    self.waiting.pop(each, None)
            else:
                delay_ms = int(SPANS_MS[rng.randrange(len(SPANS_MS))] * rng.random())
                written_ms = self.now_ms - rng.randrange(1_000)
                records.append((written_ms, key, self.value, [("ottla-delay", b"%d" % delay_ms)]))
                self.listed.append((written_ms + delay_ms, offset))
                self.waiting[offset] = key
                self.of_key.setdefault(key, []).append(offset)
            offset += 1
        for at in range(0, count, BATCH_RECORDS):
            self.log.append(records[at : at + BATCH_RECORDS])
        self.listed.sort()
        await self._scan()

    async def move(self, ms: int) -> None:
        """Let time pass, and move all that is due."""
        self.now_ms += ms
        end = bisect_right(self.listed, self.now_ms, key=lambda each: each[0])
        expected = [each for each in self.listed[:end] if each[1] in self.waiting]
        del self.listed[:end]
        at = 0
        while (next_due := self.index.next_due()) is not None and next_due <= self.now_ms:
            point = (self.progress.due_ms, self.progress.offset)
            found = self.index.pop(
                self.now_ms, *point, records_max=TRANSACTION_RECORDS, bytes_max=16 << 20, log_start=0
            )
            got = [each[:2] for each in found]
            assert got == expected[at : at + len(got)], "in order, none early, none twice and none left out"
            assert all(each[3] == self.waiting.pop(each[1]) for each in found)
            at += len(got)
            self.moved += len(got)
            last = max(point, got[-1]) if got else point
            oldest = self.index.oldest()
            low = self.position if oldest is None else min(oldest, self.position)
            self.progress = Progress(max(low, self.progress.low), *last, self.position, self.progress.delays)
        assert at == len(expected), "nothing that is due is left behind"
        await self.buckets.remove_spent(self.index, self.progress)
        await self._settle()

    def some_ms(self) -> int:
        """A second or so, or until something that waits is due, by chance."""
        if self.listed and self.rng.random() < 0.3:
            return max(0, self.listed[self.rng.randrange(len(self.listed))][0] - self.now_ms) // 4
        return self.rng.randrange(2_000)


async def run(directory: Path, rng: Random, count: int, rounds: int, gathered_bytes: int) -> ManyRecords:
    many = ManyRecords(directory, rng, keys=max(1, count // 5), value=b"x" * 40, gathered_bytes=gathered_bytes)
    await many.start()
    for _ in range(rounds):
        await many.append(count // rounds)
        await many.move(many.some_ms())
        if rng.random() < 0.2:
            await many.start()
    await many.start()
    await many.move(SPANS_MS[-1])
    assert not many.waiting
    await many.buckets.close()
    return many


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from([20, 1_000, 8_000]), st.sampled_from([1, 5, 12]))
def test_many_records_are_moved_as_in_a_sorted_list(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, rounds: int
) -> None:
    with ExitStack() as stack:
        for name, value in (("FAN_IN", 3), ("SMALL_BYTES", 100_000)):
            stack.enter_context(replaced("ottla.server.delay_buckets", name, value))
        asyncio.run(run(tmp_path_factory.mktemp("log"), Random(seed), count, rounds, 50_000))


@pytest.mark.long
def test_a_million_records_are_moved_as_in_a_sorted_list_in_64_mb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_buckets, "FAN_IN", 4)
    many = asyncio.run(run(tmp_path, Random(29), 1_000_000, 40, 4 << 20))
    assert many.moved > 900_000
    assert many.most_bytes < 64 << 20
