"""Transactions in a log: who may write, what markers do, what is stable, and which transactions were aborted."""

import asyncio
import logging
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import walk_batches
from ottla.storage.append_origin import AppendOrigin
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.producer_snapshot import decode_snapshot
from ottla.storage.transaction_index import AbortedTransaction, CorruptTransactionIndexError, TransactionIndex
from tests.unit.storage.data_directory import NOW_MS, OpenDirectory, bytes_of, copy_as_after_a_kill, files_of, opened
from tests.unit.storage.transactional_log import (
    ABORT,
    COMMIT,
    Model,
    append,
    committed,
    data,
    marker,
    read_committed,
)
from tests.unit.storage.watched_disk import SyncedFiles, WatchedDisk

A, B = 100, 200
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)


def refused(directory: OpenDirectory, log: Log, records: bytearray, **options: object) -> ErrorCode:
    end_offset = log.log_end_offset
    with pytest.raises(ApiError) as raised:
        append(directory, log, records, **options)  # type: ignore[arg-type]
    assert log.log_end_offset == end_offset
    return raised.value.code


def aborted_in(path: Path) -> list[AbortedTransaction]:
    """What the index files of the directory say."""
    return [each for file in files_of(path / "orders-0", ".txnindex") for each in TransactionIndex(file.read_bytes())]


async def test_a_producer_with_an_open_transaction_may_write_nothing_else(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        append(directory, log, data(A, b"1", sequence=0), origin=AppendOrigin.CLIENT)
        outside = data(A, b"2", sequence=1, transactional=False)
        assert refused(directory, log, outside, origin=AppendOrigin.CLIENT) is ErrorCode.INVALID_TXN_STATE
        assert refused(directory, log, data(A, b"2", transactional=False)) is ErrorCode.INVALID_TXN_STATE
        append(directory, log, marker(A, COMMIT))
        assert append(directory, log, outside, origin=AppendOrigin.CLIENT).first_offset == 2


async def test_sequence_numbers_go_on_over_transactions_of_one_epoch(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        append(directory, log, data(A, b"1", sequence=0), origin=AppendOrigin.CLIENT)
        append(directory, log, marker(A, COMMIT))
        assert append(directory, log, data(A, b"1", sequence=0), origin=AppendOrigin.CLIENT).duplicate
        too_far = data(A, b"2", sequence=2)
        assert refused(directory, log, too_far, origin=AppendOrigin.CLIENT) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert not append(directory, log, data(A, b"2", sequence=1), origin=AppendOrigin.CLIENT).duplicate


async def test_after_a_marker_of_the_next_epoch_numbers_begin_anew_and_the_epoch_before_is_fenced_off(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        append(directory, log, data(A, b"1", sequence=0), origin=AppendOrigin.CLIENT)
        append(directory, log, marker(A, COMMIT, epoch=1), transaction_version=2)
        late = data(A, b"1", sequence=0)
        assert refused(directory, log, late, origin=AppendOrigin.CLIENT) is ErrorCode.INVALID_PRODUCER_EPOCH
        too_far = data(A, b"2", epoch=1, sequence=1)
        assert refused(directory, log, too_far, origin=AppendOrigin.CLIENT) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        append(directory, log, data(A, b"2", epoch=1, sequence=0), origin=AppendOrigin.CLIENT)
        state = log.producers.find(A)
        assert state is not None
        assert (state.producer_epoch, state.current_txn_first_offset, state.coordinator_epoch) == (1, 2, 0)


@pytest.mark.parametrize(
    ("version", "epoch", "is_open", "error"),
    [
        (1, 4, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 5, True, None),
        (1, 5, False, None),
        (1, 6, True, None),
        (2, 4, False, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, False, None),
        (2, 6, True, None),
    ],
)
async def test_which_epochs_a_marker_may_have(
    tmp_path: Path, version: int, epoch: int, is_open: bool, error: ErrorCode | None
):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        append(directory, log, data(A, b"1", epoch=5))
        if not is_open:
            append(directory, log, marker(A, COMMIT, epoch=5))
        records = marker(A, ABORT, epoch=epoch)
        if error is None:
            append(directory, log, records, transaction_version=version)
            assert not log.producers.has_open_transaction(A, epoch)
        else:
            assert refused(directory, log, records, transaction_version=version) is error
            assert log.producers.has_open_transaction(A, 5) is is_open


async def test_a_coordinator_that_is_out_of_office_ends_nothing(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        append(directory, log, data(A, b"1"))
        append(directory, log, marker(A, COMMIT, coordinator_epoch=7))
        append(directory, log, data(A, b"2"))
        assert refused(directory, log, marker(A, ABORT, coordinator_epoch=6)) is (
            ErrorCode.TRANSACTION_COORDINATOR_FENCED
        )
        assert log.producers.has_open_transaction(A, 0)
        append(directory, log, marker(A, ABORT, coordinator_epoch=7))


async def test_a_marker_of_a_producer_that_wrote_nothing_is_taken_and_fences(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        append(directory, log, marker(A, ABORT, epoch=3))
        assert log.stable_end_offset == 0
        await committed(log)
        assert log.stable_end_offset == 1
        assert refused(directory, log, data(A, b"1", epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert aborted_in(tmp_path) == []


async def test_nobody_with_an_open_transaction_is_forgotten(tmp_path: Path):
    async with opened(tmp_path, producers_max=4) as directory:
        log = await directory.log(LogConfig(producer_id_expiration_ms=1))
        append(directory, log, data(A, b"1"))
        for producer_id in range(20):
            directory.clock.advance(1)
            append(directory, log, data(producer_id, b"1", transactional=False))
        log.producers.expire(directory.clock.now_ms() + 1_000, 1)
        assert [state.producer_id for state in log.producers] == [A]
        for producer_id in range(20):
            append(directory, log, data(producer_id, b"1"))
        assert len(log.producers) == 21


async def test_a_run_of_a_coordinator_is_judged_batch_by_batch(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        append(directory, log, data(A, b"1") + marker(A, COMMIT, epoch=1) + data(A, b"2", epoch=1))
        assert log.producers.has_open_transaction(A, 1)
        assert log.stable_end_offset == 0
        backwards = marker(B, COMMIT, epoch=1) + data(B, b"late", epoch=0)
        append(directory, log, data(B, b"1"))
        assert refused(directory, log, backwards) is ErrorCode.INVALID_PRODUCER_EPOCH
        await committed(log)
        assert log.stable_end_offset == 2


async def test_the_index_has_kafkas_format(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        append(directory, log, data(A, b"1"))
        append(directory, log, data(B, b"1"))
        append(directory, log, marker(A, ABORT))
        append(directory, log, marker(B, ABORT))
        await committed(log)
        (file,) = files_of(tmp_path / "orders-0", ".txnindex")
        entries = struct.pack(">hqqqq", 0, A, 0, 2, 1) + struct.pack(">hqqqq", 0, B, 1, 3, 4)
        assert file.read_bytes() == entries


async def test_each_segment_has_the_transactions_that_end_in_it(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        for number in range(20):
            append(directory, log, data(A, b"x" * 50))
            append(directory, log, data(B, b"y" * 50, transactional=False))
            append(directory, log, marker(A, ABORT if number % 2 else COMMIT))
        await committed(log)
        bases = [segment.base_offset for segment in log.segments]
        for file in files_of(tmp_path / "orders-0", ".txnindex"):
            base = int(file.stem)
            end = min((each for each in bases if each > base), default=log.log_end_offset)
            TransactionIndex(file.read_bytes()).require_sound(base, end)
        assert [each.first_offset for each in aborted_in(tmp_path)] == list(range(3, 60, 6))
        assert {value for _, value in read_committed(log)} == {b"x" * 50, b"y" * 50}
        assert len(list(read_committed(log))) == 30


async def test_a_read_is_told_only_of_transactions_that_may_be_in_it(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(index_interval_bytes=1))
        for _ in range(100):
            append(directory, log, data(A, b"x" * 100))
            append(directory, log, marker(A, ABORT))
        await committed(log)
        result = log.read(100, 1_000, max_offset=200)
        found = log.aborted_in(result, 100, 200)
        assert (A, 100) in found
        assert len(found) < 10


async def test_markers_are_found_by_their_time_like_records(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        append(directory, log, data(A, b"1", timestamp_ms=1_000))
        append(directory, log, marker(A, COMMIT, timestamp_ms=5_000))
        append(directory, log, data(A, b"2", timestamp_ms=3_000))
        await committed(log)
        assert await log.offset_for_timestamp(2_000) == (5_000, 1, 0)
        assert await log.max_timestamp_offset() == (5_000, 1, 0)


async def test_every_index_that_a_read_needs_is_read_before_it_however_long_a_transaction_was_open(tmp_path: Path):
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log(SMALL)
        append(directory, log, data(A, b"old"))
        for _ in range(20):
            append(directory, log, data(B, b"x" * 100))
            append(directory, log, marker(B, ABORT))
        append(directory, log, marker(A, ABORT))
        for _ in range(20):
            append(directory, log, data(B, b"y" * 100))
            append(directory, log, marker(B, ABORT))
        await committed(log)
    disk = WatchedDisk()
    async with opened(path, disk=disk) as directory:
        log = await directory.log(SMALL)
        assert len(files_of(path / "orders-0", ".txnindex")) > 10

        def read_indexes() -> int:
            return sum(count for name, count in disk.bytes_read.items() if name.endswith(".txnindex"))

        disk.bytes_read.clear()
        look_up = log.look_up_aborted(0, 500)
        assert look_up is not None
        assert read_indexes() == 0
        look_up()
        read = read_indexes()
        found = log.aborted_in(log.read(0, 500, max_offset=log.log_end_offset), 0, log.log_end_offset)
        assert (A, 0) in found
        assert read_indexes() == read > 0
        assert read < sum(file.stat().st_size for file in files_of(path / "orders-0", ".txnindex"))
        assert log.look_up_aborted(0, 500) is None
        assert log.look_up_aborted(0, 1 << 20) is not None


@pytest.mark.parametrize("clean", [True, False])
async def test_an_open_transaction_is_still_open_after_a_start(tmp_path: Path, clean: bool):
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log(SMALL)
        append(directory, log, data(B, b"1"))
        append(directory, log, marker(B, ABORT, coordinator_epoch=3))
        append(directory, log, data(A, b"1", epoch=2))
        for _ in range(20):
            append(directory, log, data(B, b"y" * 50, transactional=False))
        await committed(log)
        killed = copy_as_after_a_kill(path)
    async with opened(path if clean else killed) as directory:
        log = await directory.log(SMALL)
        await committed(log)
        assert log.stable_end_offset == 2
        assert log.producers.has_open_transaction(A, 2)
        state = log.producers.find(B)
        assert state is not None
        assert state.coordinator_epoch == 3
        append(directory, log, marker(A, ABORT, epoch=2))
        await committed(log)
        assert log.stable_end_offset == log.log_end_offset
        assert b"1" not in {value for _, value in read_committed(log)}


async def test_a_snapshot_has_the_open_transaction_in_kafkas_fields(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        append(directory, log, marker(A, COMMIT, epoch=1, coordinator_epoch=9))
        append(directory, log, data(A, b"1", epoch=1))
        append(directory, log, data(A, b"2", epoch=1))
        await committed(log)
    (file,) = [each for each in files_of(tmp_path / "orders-0", ".snapshot") if int(each.stem) == 3]
    entries = list(struct.iter_unpack(">qhiqiqiq", file.read_bytes()[10:]))
    assert entries[-1] == (A, 1, -1, 2, 0, NOW_MS, 9, 1)
    (state,) = decode_snapshot(file.read_bytes())
    assert [(each.first_offset, each.last_offset, each.last_sequence) for each in state.batches] == [
        (1, 1, -1),
        (2, 2, -1),
    ]


def write_aborted(directory: OpenDirectory, log: Log, count: int = 20) -> None:
    for _ in range(count):
        append(directory, log, data(A, b"x" * 50))
        append(directory, log, marker(A, ABORT))


@pytest.mark.parametrize("damage", ["torn", "garbage", "beyond"])
@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize("clean", [True, False])
async def test_a_damaged_index_is_made_again(
    tmp_path: Path, damage: str, which: int, clean: bool, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log(SMALL)
        write_aborted(directory, log)
        await committed(log)
        killed = copy_as_after_a_kill(path)
    path = path if clean else killed
    expected = aborted_in(path)
    assert len(expected) == 20
    file = files_of(path / "orders-0", ".txnindex")[which]
    content = file.read_bytes()
    if damage == "torn":
        file.write_bytes(content[:-1])
    elif damage == "garbage":
        file.write_bytes(b"\xff" * len(content))
    else:
        file.write_bytes(content + AbortedTransaction(B, 1000, 1001, 1002).encode())
    with caplog.at_level(logging.WARNING):
        async with opened(path) as directory:
            log = await directory.log(SMALL)
            assert list(read_committed(log)) == []
            append(directory, log, data(B, b"seen", transactional=False))
            await committed(log)
            assert [value for _, value in read_committed(log)] == [b"seen"]
    assert aborted_in(path) == expected
    if clean:
        assert "rebuilding " in caplog.text


async def test_an_index_that_a_crash_lost_is_made_again(tmp_path: Path):
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log(SMALL)
        append(directory, log, data(B, b"open for long"))
        write_aborted(directory, log, 5)
        await directory.manager.checkpoint_recovery_points()
        write_aborted(directory, log, 15)
        append(directory, log, marker(B, ABORT))
        await committed(log)
        path = copy_as_after_a_kill(path)
    expected = aborted_in(path)
    *_, lost = files_of(path / "orders-0", ".txnindex")
    lost.unlink()
    async with opened(path) as directory:
        log = await directory.log(SMALL)
        assert list(read_committed(log)) == []
    assert aborted_in(path) == expected
    assert len(expected) == 21


async def test_the_recovery_point_waits_until_the_index_is_on_disk(tmp_path: Path):
    disk = SyncedFiles()
    async with opened(tmp_path, disk=disk) as directory:
        log = await directory.log()
        write_aborted(directory, log, 1)
        await committed(log)
        await directory.manager.checkpoint_recovery_points()
        (index,) = files_of(tmp_path / "orders-0", ".txnindex")
        assert index in disk.synced
        disk.synced.clear()
        await directory.manager.checkpoint_recovery_points()
        assert index not in disk.synced


async def test_entries_of_markers_that_were_cut_go_with_them(tmp_path: Path):
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log()
        write_aborted(directory, log, 3)
        await committed(log)
        path = copy_as_after_a_kill(path)
    file = files_of(path / "orders-0", ".log")[0]
    batches, _, _ = walk_batches(file.read_bytes(), check_crc=True)
    with file.open("r+b") as opened_file:
        opened_file.truncate(batches[-1].position + 1)
    async with opened(path) as directory:
        log = await directory.log()
        await committed(log)
        assert (log.log_end_offset, log.stable_end_offset) == (5, 4)
        append(directory, log, marker(A, COMMIT))
        await committed(log)
        assert [offset for offset, _ in read_committed(log)] == [4]
    assert [each.last_offset for each in aborted_in(path)] == [1, 3]


async def test_truncation_opens_again_what_a_cut_marker_had_ended(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        append(directory, log, data(B, b"open"))
        write_aborted(directory, log, 10)
        append(directory, log, marker(B, ABORT))
        await committed(log)
        await directory.manager.truncate_log(log, 20)
        assert log.producers.unstable.first_offset == 0
        assert log.producers.has_open_transaction(A, 0)
        await committed(log)
        assert [each.last_offset for each in aborted_in(tmp_path)] == list(range(2, 20, 2))
        append(directory, log, marker(A, COMMIT))
        append(directory, log, marker(B, COMMIT))
        await committed(log)
        assert [offset for offset, _ in read_committed(log)] == [0, 19]


async def test_what_is_before_the_log_start_holds_nobody_back_longer_than_it_is_open(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(SMALL)
        append(directory, log, data(A, b"1"))
        append(directory, log, marker(A, ABORT))
        await log.flush()
        assert log.stable_end_offset == 0
        log.delete_records_before(2)
        assert log.stable_end_offset == 2


async def test_deleted_segments_take_their_index_along(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(replace(SMALL, file_delete_delay_ms=0))
        write_aborted(directory, log)
        await committed(log)
        before = len(files_of(tmp_path / "orders-0", ".txnindex"))
        log.delete_records_before(log.segments[3].base_offset)
        assert await directory.manager.apply_retention() == 3
        await directory.pass_time(1)
        after = files_of(tmp_path / "orders-0", ".txnindex")
        assert (len(after), before) == (before - 3, before)
        assert int(after[0].stem) == log.segments[0].base_offset
        assert list(read_committed(log)) == []


def test_an_index_that_cannot_be_right_is_refused():
    good = [AbortedTransaction(A, 10, 12, 11), AbortedTransaction(B, 11, 13, 14)]
    TransactionIndex(b"".join(each.encode() for each in good)).require_sound(5, 14)
    for base, end, entries in (
        (13, 20, good),
        (5, 13, good),
        (5, 20, good[::-1]),
        (5, 20, [AbortedTransaction(A, 12, 12, 13)]),
        (5, 20, [AbortedTransaction(A, -1, 12, 13)]),
    ):
        with pytest.raises(CorruptTransactionIndexError):
            TransactionIndex(b"".join(each.encode() for each in entries)).require_sound(base, end)
    with pytest.raises(CorruptTransactionIndexError, match="version"):
        TransactionIndex(b"\0\1" + good[0].encode()[2:]).require_sound(0, 100)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("end"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("kill"), st.just(0), st.booleans()),
        st.tuples(st.just("truncate"), st.integers(0, 10), st.just(False)),
        st.tuples(st.just("compact"), st.just(0), st.just(False)),
    ),
    max_size=40,
)


class Life:
    """A log that lives through steps, and the model of it."""

    config = replace(
        SMALL,
        cleanup_policy=frozenset({"compact"}),
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=0,
        file_delete_delay_ms=0,
    )

    def __init__(self, path: Path, steps: list[tuple[str, int, bool]]) -> None:
        self.path = path
        self.steps = steps
        self.model = Model()
        self.compacted_to = 0
        self.generations = 0

    async def run(self) -> None:
        while self.steps:
            async with opened(self.path) as directory:
                log = await directory.log(self.config)
                await self.check(log)
                while self.steps:
                    step, number, flag = self.steps.pop(0)
                    if step == "kill":
                        if flag:
                            await directory.manager.checkpoint_recovery_points()
                        break
                    await self.take(directory, log, step, number, flag)
                await self.check(log)
                self.generations += 1
                self.path = copy_as_after_a_kill(self.path, str(self.generations))

    async def take(self, directory: OpenDirectory, log: Log, step: str, number: int, flag: bool) -> None:
        model, producer_id = self.model, 100 + number
        if step == "write":
            transactional = flag or producer_id in model.open
            value = b"%05d" % model.end_offset + b"." * 60
            append(directory, log, data(producer_id, value, transactional=transactional, key=value[:5]))
            model.write(producer_id, value, transactional=transactional)
            return
        if step == "end":
            append(directory, log, marker(producer_id, COMMIT if flag else ABORT))
            model.finish(producer_id, commit=flag)
        elif step == "truncate":
            await committed(log)
            offset = max(model.end_offset - number, self.compacted_to)
            await directory.manager.truncate_log(log, offset)
            model.truncate(offset)
        else:
            await committed(log)
            if await directory.manager.cleaner.run_once() is not None:
                self.compacted_to = model.end_offset  # what is committed is never cut
        await self.check(log)

    async def check(self, log: Log) -> None:
        await committed(log)
        assert log.log_end_offset == self.model.end_offset
        assert log.stable_end_offset == self.model.last_stable_offset
        # Every value has its own key: compaction drops nothing but what was aborted.
        assert list(read_committed(log)) == self.model.visible


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(steps)
def test_readers_of_committed_records_find_what_a_naive_model_says(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, bool]]
):
    """Producers that begin, commit and abort over kills, cuts and compaction; against a list of what they did."""
    asyncio.run(Life(tmp_path_factory.mktemp("transactions") / "0", list(steps)).run())


async def test_what_was_read_is_what_is_in_the_file(tmp_path: Path):
    """The reader of the tests gets the log itself: without it the others would say little."""
    async with opened(tmp_path) as directory:
        log = await directory.log()
        append(directory, log, data(A, b"1"))
        append(directory, log, marker(A, COMMIT))
        await committed(log)
        content = bytes_of(log.read(0, 1 << 20, max_offset=2))
        (first, second), _, _ = walk_batches(content, check_crc=True)
        assert (first.marker, second.marker) == (None, (1, 0))
        assert list(read_committed(log)) == [(0, b"1")]
