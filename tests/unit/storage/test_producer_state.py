"""Idempotent producers: what is new, what was sent before, what is out of order, and what a restart remembers."""

import asyncio
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native import BatchInfo, crc32c, validate_batches
from ottla.records.batch import next_sequence
from ottla.storage.append_origin import AppendOrigin
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig, TimestampType
from ottla.storage.producer_room import ProducerRoom
from ottla.storage.producer_snapshot import CorruptSnapshotError, decode_snapshot, encode_snapshot
from ottla.storage.producer_state import ProducerBatch, ProducerState
from ottla.storage.producer_state_manager import ProducerStateManager
from tests.unit.storage.data_directory import (
    NOW_MS,
    OpenDirectory,
    batch,
    copy_as_after_a_kill,
    files_of,
    opened,
)
from tests.unit.storage.watched_disk import SyncedFiles

PRODUCER = 4711
LAST = (1 << 31) - 1


class Sent:
    """A batch as another producer would have sent it."""

    def __init__(self, info: BatchInfo, producer_id: int) -> None:
        self._info = info
        self.producer_id = producer_id

    def __getattr__(self, name: str) -> object:
        return getattr(self._info, name)


def send(
    directory: OpenDirectory, log: Log, sequence: int, *, count: int = 1, epoch: int = 0, producer: int = PRODUCER
):
    return directory.append(log, batch(count, producer_id=producer, epoch=epoch, sequence=sequence))


def refused(directory: OpenDirectory, log: Log, sequence: int, *, count: int = 1, epoch: int = 0) -> ErrorCode:
    end_offset = log.log_end_offset
    with pytest.raises(ApiError) as raised:
        send(directory, log, sequence, count=count, epoch=epoch)
    assert log.log_end_offset == end_offset
    return raised.value.code


async def test_each_of_the_last_five_batches_is_recognised_with_its_first_offsets(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        first = [send(directory, log, sequence, count=3) for sequence in range(0, 21, 3)]
        again = [send(directory, log, sequence, count=3) for sequence in range(6, 21, 3)]
        assert [info.duplicate for info in again] == [True] * 5
        assert [(info.first_offset, info.last_offset) for info in again] == [
            (info.first_offset, info.last_offset) for info in first[2:]
        ]
        assert log.log_end_offset == 21


async def test_a_batch_sent_again_long_after_is_out_of_order_as_in_kafka(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        for sequence in range(7):
            send(directory, log, sequence)
        assert refused(directory, log, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_gap_is_out_of_order(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        send(directory, log, 0)
        assert refused(directory, log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert refused(directory, log, 0, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert not send(directory, log, 1).duplicate


async def test_sequence_numbers_go_on_from_zero_after_the_last(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        send(directory, log, LAST - 1, count=1)
        send(directory, log, LAST, count=3)
        assert send(directory, log, LAST, count=3).duplicate
        assert refused(directory, log, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(directory, log, 2).first_offset == 4


async def test_a_new_epoch_begins_at_zero_and_fences_off_the_old_one(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        send(directory, log, 0, count=10, epoch=3)
        assert refused(directory, log, 10, epoch=4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(directory, log, 0, epoch=4).first_offset == 10
        assert refused(directory, log, 10, epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert refused(directory, log, 0, count=10, epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_producer_nobody_remembers_may_go_on_anywhere(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        assert send(directory, log, 123, epoch=7).first_offset == 0
        assert send(directory, log, 124, epoch=7).first_offset == 1


def test_a_producer_known_by_its_epoch_alone_begins_at_zero():
    producers = ProducerStateManager([ProducerState(PRODUCER, 3)])
    producers.validate(validate_batches(batch(producer_id=PRODUCER, epoch=3, sequence=0)))
    with pytest.raises(ApiError):
        producers.validate(validate_batches(batch(producer_id=PRODUCER, epoch=3, sequence=5)))


async def test_what_is_queued_counts_before_it_is_written(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        send(directory, log, 0)
        assert log.written_end_offset == 0
        assert send(directory, log, 0).duplicate


async def test_those_not_heard_of_for_longest_are_forgotten_when_there_is_no_room_for_another(tmp_path: Path):
    async with opened(tmp_path, producers_max=16) as directory:
        log, other = await directory.log(), await directory.log(topic_partition=TopicPartition("other", 0))
        send(directory, other, 0, producer=1)
        for producer in range(100, 115):
            directory.clock.advance(1)
            send(directory, log, 0, producer=producer)
        directory.clock.advance(1)
        send(directory, log, 1, producer=100)
        assert (len(log.producers), len(other.producers)) == (15, 1)
        send(directory, log, 0, producer=200)
        assert {101, 102}.isdisjoint(state.producer_id for state in log.producers)
        assert (len(log.producers), len(other.producers)) == (14, 1)
        assert send(directory, log, 1, producer=100).duplicate
        assert send(directory, log, 77, producer=101).first_offset == 17


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=200))
def test_all_logs_together_remember_no_more_than_there_is_room_for(sent):
    room = ProducerRoom(10)
    logs = [ProducerStateManager() for _ in range(3)]
    for log in logs:
        log.move_to(room)
    (info,) = validate_batches(batch())
    for now_ms, (index, producer_id) in enumerate(sent):
        logs[index].update(Sent(info, producer_id), 0, 0, now_ms)
        assert producer_id in {state.producer_id for state in logs[index]}
        assert room.taken == sum(map(len, logs)) <= room.limit + len(logs)
    for log in logs:
        log.leave()
    assert room.taken == 0


async def test_a_log_that_is_loaded_or_deleted_takes_or_leaves_its_room(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        for producer in range(10):
            directory.clock.advance(1)
            send(directory, log, 0, producer=producer)
    async with opened(tmp_path, producers_max=4) as directory:
        log, other = await directory.log(), await directory.log(topic_partition=TopicPartition("other", 0))
        assert len(log.producers) == 4
        send(directory, other, 0, producer=50)
        await directory.manager.delete_log(log.topic_partition)
        for producer in (51, 52, 53):
            send(directory, other, 0, producer=producer)
        assert len(other.producers) == 4


async def test_producers_do_not_mix(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        send(directory, log, 0, producer=1)
        send(directory, log, 0, producer=2)
        assert send(directory, log, 1, producer=1).first_offset == 2
        directory.append(log, batch(5))
        assert send(directory, log, 1, producer=2).first_offset == 8


async def test_a_coordinators_records_are_not_checked(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log()
        directory.append(log, batch(producer_id=PRODUCER, epoch=0, sequence=0))
        directory.append(log, batch(producer_id=PRODUCER, epoch=0, sequence=0), origin=AppendOrigin.COORDINATOR)
        assert log.log_end_offset == 2


async def test_the_duplicate_of_a_stamped_batch_has_the_time_of_the_first_append(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
        send(directory, log, 0)
        directory.clock.advance(1000)
        assert send(directory, log, 0).log_append_time_ms == NOW_MS


async def test_a_producer_is_forgotten_when_it_is_silent_for_long_whatever_its_timestamps_say(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(LogConfig(producer_id_expiration_ms=1000))
        directory.append(log, batch(timestamp=5, producer_id=PRODUCER, epoch=0, sequence=0))
        directory.clock.advance(999)
        await directory.manager.apply_retention()
        assert len(log.producers) == 1
        directory.clock.advance(1)
        await directory.manager.apply_retention()
        assert len(log.producers) == 0


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("segment_bytes", [1 << 20, 600])
async def test_the_last_five_batches_are_remembered_over_a_restart(tmp_path: Path, killed: bool, segment_bytes: int):
    config = LogConfig(segment_bytes=segment_bytes)
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log(config)
        for sequence in range(0, 40, 2):
            send(directory, log, sequence, count=2)
            send(directory, log, sequence, count=2, producer=99)
        await log.flush()
        if killed:
            path = copy_as_after_a_kill(path)
    async with opened(path) as directory:
        log = await directory.log(config)
        for sequence in range(30, 40, 2):
            assert send(directory, log, sequence, count=2).first_offset == sequence * 2
        assert refused(directory, log, 28, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert refused(directory, log, 41) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(directory, log, 40).first_offset == 80


@pytest.mark.parametrize("segment_bytes", [1 << 20, 600])
@pytest.mark.parametrize("segments_go", [False, True])
async def test_deleting_a_producers_records_does_not_forget_it_over_a_kill(
    tmp_path: Path, segments_go: bool, segment_bytes: int
):
    config = LogConfig(segment_bytes=segment_bytes, file_delete_delay_ms=0)
    path = tmp_path / "data"
    async with opened(path) as directory:
        log = await directory.log(config)
        for sequence in range(0, 40, 2):
            send(directory, log, sequence, count=2)
        await log.flush()
        log.delete_records_before(-1)
        await directory.manager.checkpoint_log_starts()
        if segments_go:
            assert await directory.manager.apply_retention()
            await directory.pass_time(0)
        path = copy_as_after_a_kill(path)
    async with opened(path) as directory:
        log = await directory.log(config)
        assert log.log_start_offset == log.log_end_offset == 40
        for sequence in range(30, 40, 2):
            again = send(directory, log, sequence, count=2)
            assert (again.first_offset, again.duplicate) == (sequence, True)
        assert send(directory, log, 40).first_offset == 40


async def test_what_is_left_of_producers_is_on_disk_before_their_records_go(tmp_path: Path):
    disk = SyncedFiles()
    async with opened(tmp_path, disk=disk) as directory:
        log = await directory.log(LogConfig(segment_bytes=600))
        for sequence in range(20):
            send(directory, log, sequence)
        await log.flush()
        log.delete_records_before(-1)
        assert await directory.manager.apply_retention()
        assert Path(log.snapshots.path(20)) in disk.synced


async def test_a_broken_snapshot_is_made_up_for_from_the_log(tmp_path: Path):
    config = LogConfig(segment_bytes=600)
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        for sequence in range(30):
            send(directory, log, sequence)
    snapshots = files_of(tmp_path / "orders-0", ".snapshot")
    snapshots[-1].write_bytes(snapshots[-1].read_bytes()[:-1])
    snapshots[-2].write_bytes(b"")
    async with opened(tmp_path) as directory:
        log = await directory.log(config)
        assert [send(directory, log, sequence).first_offset for sequence in range(25, 30)] == list(range(25, 30))
        assert snapshots[-2].exists() is False


async def test_a_snapshot_ahead_of_a_cut_log_is_not_used(tmp_path: Path):
    async with opened(tmp_path / "data") as directory:
        log = await directory.log()
        for sequence in range(3):
            send(directory, log, sequence)
        await log.flush()
        log.take_snapshot()
        await log.flush()
        path = copy_as_after_a_kill(tmp_path / "data")
    file = files_of(path / "orders-0", ".log")[0]
    file.write_bytes(file.read_bytes()[:-1])
    async with opened(path) as directory:
        log = await directory.log()
        assert log.log_end_offset == 2
        assert not send(directory, log, 2).duplicate


def test_the_snapshot_is_kafkas_format_with_the_last_batch_last():
    state = ProducerState(PRODUCER, 7)
    for number in range(3):
        state.add(7, ProducerBatch(number * 5, number * 5 + 4, number * 10, number * 10 + 4, 1000 + number))
    data = encode_snapshot([state])
    version, crc, count = struct.unpack_from(">hIi", data)
    assert (version, count, len(data)) == (1, 3, 10 + 3 * 46)
    assert crc == crc32c(data[6:])
    assert struct.unpack(">qhiqiqiq", data[-46:]) == (PRODUCER, 7, 14, 24, 4, 1002, -1, -1)


states = st.builds(
    lambda producer_id, epoch, batches: (producer_id, epoch, batches),
    st.integers(0, 1 << 62),
    st.integers(0, 32767),
    st.lists(st.tuples(st.integers(0, LAST), st.integers(0, 1000), st.integers(0, 1 << 50), st.integers(-1, 1 << 50))),
)


@pytest.mark.slow
@given(st.lists(states, max_size=5, unique_by=lambda state: state[0]))
def test_a_snapshot_gives_back_what_was_put_in(given_states: list[tuple[int, int, list[tuple[int, int, int, int]]]]):
    producers = []
    for producer_id, epoch, batches in given_states:
        state = ProducerState(producer_id, epoch)
        for first_sequence, delta, first_offset, timestamp in batches:
            last_sequence = (first_sequence + delta) & LAST
            state.add(
                epoch, ProducerBatch(first_sequence, last_sequence, first_offset, first_offset + delta, timestamp)
            )
        producers.append(state)
    found = decode_snapshot(encode_snapshot(producers))
    assert [(s.producer_id, s.producer_epoch, s.batches, s.last_timestamp) for s in found] == [
        (s.producer_id, s.producer_epoch, s.batches, s.last_timestamp) for s in producers
    ]


@given(st.binary(max_size=120), st.integers(0, 120))
def test_a_snapshot_that_is_not_whole_is_refused(data: bytes, cut: int):
    state = ProducerState(1, 0)
    state.add(0, ProducerBatch(0, 0, 0, 0, 0))
    whole = encode_snapshot([state])
    for broken in (data, whole[: min(cut, len(whole) - 1)], whole + b"\0", whole[:20] + b"\xff" + whole[21:]):
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(broken)


def test_sequence_arithmetic_at_the_wrap():
    assert (next_sequence(5, 1), next_sequence(LAST, 1)) == (6, 0)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["next", "again", "gap", "bump", "kill"]), st.integers(1, 7)), max_size=25))
def test_nothing_is_lost_or_doubled_whatever_a_producer_does(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
):
    """A producer that sends on, again, with gaps, in new epochs, over kills; against a list of what it sent."""
    path = tmp_path_factory.mktemp("producer") / "0"

    async def run() -> None:
        nonlocal path
        sent: list[tuple[int, int, int]] = []  # first offset, sequence, count of this epoch
        epoch = sequence = expected_end = 0
        remaining = list(steps)
        generation = 0
        while True:
            async with opened(path) as directory:
                log = await directory.log(LogConfig(segment_bytes=500))
                assert log.log_end_offset == expected_end
                while remaining:
                    step, count = remaining.pop(0)
                    if step == "bump":
                        epoch, sequence, sent = epoch + 1, 0, []
                    elif step == "gap" and sent:
                        assert refused(directory, log, sequence + 1, count=count, epoch=epoch)
                    elif step == "again" and sent:
                        offset, first, size = sent[-min(count, 5, len(sent))]
                        info = send(directory, log, first, count=size, epoch=epoch)
                        assert (info.duplicate, info.first_offset) == (True, offset)
                    elif step == "kill":
                        break
                    else:
                        info = send(directory, log, sequence, count=count, epoch=epoch)
                        assert (info.duplicate, info.first_offset) == (False, expected_end)
                        sent.append((expected_end, sequence, count))
                        sequence += count
                        expected_end += count
                else:
                    return
                await log.flush()
                generation += 1
                path = copy_as_after_a_kill(path, str(generation))

    asyncio.run(run())
