"""What is left of a log after kill -9, torn writes and bad bytes, compared to what must be left."""

import asyncio
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native import decode_records
from ottla.storage.log_config import LogConfig
from ottla.storage.offset_checkpoint import format_checkpoint
from tests.unit.storage.data_directory import (
    NOW_MS,
    ORDERS,
    batch,
    batches_in,
    bytes_of,
    copy_as_after_a_kill,
    files_of,
    kafkas_indexes,
    opened,
)

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=300)


async def written_and_killed(path: Path, count: int = 30, **options: bool) -> Path:
    """A directory in which `count` batches of two records were flushed when its broker was killed."""
    async with opened(path / "data") as directory:
        log = await directory.log(CONFIG)
        batches = [batch(2, value=b"x" * 60, timestamp=NOW_MS + number) for number in range(count)]
        await directory.append_all(log, batches, **options)
        return copy_as_after_a_kill(path / "data")


async def read_all(path: Path) -> tuple[list[int], list[str]]:
    """The offsets in the log of a directory, which also must take more, and what recovery said."""
    async with opened(path) as directory:
        log = await directory.log(CONFIG)
        offsets = []
        if log.log_end_offset > log.log_start_offset:
            data = bytes_of(log.read(log.log_start_offset, 1 << 30, max_offset=log.log_end_offset))
            offsets = [offset for offset, *_ in decode_records(data, max_decompressed_bytes=1 << 20)]
        assert log.written_end_offset == log.flushed_end_offset == log.log_end_offset
        for offset in offsets:
            found = bytes_of(log.read(offset, 1, max_offset=log.log_end_offset))
            assert batches_in(found)[0][1] <= offset <= batches_in(found)[0][2]
        info = directory.append(log, batch(1))
        assert info.first_offset == (offsets[-1] + 1 if offsets else 0)
        await log.flush()
        return offsets, [str(cut) for cut in directory.report.cuts]


def newest(path: Path, suffix: str = ".log") -> Path:
    return files_of(path / str(ORDERS), suffix)[-1]


async def test_everything_flushed_is_there_after_a_kill(tmp_path: Path):
    offsets, cuts = await read_all(await written_and_killed(tmp_path))
    assert offsets == list(range(60))
    assert cuts == []


async def test_a_torn_last_batch_is_cut_and_said(tmp_path: Path):
    path = await written_and_killed(tmp_path)
    log = newest(path)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 1)
    offsets, cuts = await read_all(path)
    assert offsets == list(range(58))
    assert cuts == ["orders-0: cut 202 bytes at offset 58: the file ends inside a batch"]


async def test_a_bad_batch_ends_the_log_and_later_segments_go(tmp_path: Path):
    path = await written_and_killed(tmp_path)
    first = files_of(path / str(ORDERS), ".log")[0]
    data = bytearray(first.read_bytes())
    position, base_offset, _ = batches_in(data)[3]
    data[position + 100] ^= 1
    first.write_bytes(data)
    offsets, cuts = await read_all(path)
    assert offsets == list(range(base_offset))
    assert len(cuts) == 1
    assert f"at offset {base_offset}" in cuts[0]
    assert "later segments" in cuts[0]
    assert len(files_of(path / str(ORDERS), ".log")) == 1


async def test_damage_to_a_closed_segment_costs_nothing_else_when_no_recovery_point_is_known(tmp_path: Path):
    path = await written_and_killed(tmp_path)
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    segments = files_of(path / str(ORDERS), ".log")
    damaged, after = segments[1], int(segments[2].stem)
    before = bytearray(damaged.read_bytes())
    (_, first, _), (position, second, _) = batches_in(bytes(before))[:2]
    before[position + 70] ^= 1
    damaged.write_bytes(before)
    async with opened(path) as directory:
        (line,) = map(str, directory.report.damaged)
        assert f"{damaged} is damaged at byte {position}, offset {second}: the CRC is" in line
        assert line in list(directory.report.lines())
        assert directory.report.cuts == ()
        log = await directory.log(CONFIG)
        assert log.log_end_offset == 60
        assert batches_in(bytes_of(log.read(first, 1, max_offset=60)))[0][1] == first
        rest = bytes_of(log.read(after, 1 << 20, max_offset=60))
        assert [base for _, base, _ in batches_in(rest)] == list(range(after, 60, 2))
        served = bytes_of(log.read(second, 1, max_offset=60))
        assert served == before[position : position + len(served)]
    assert damaged.read_bytes() == before
    assert [path.name for path in files_of(path / str(ORDERS), ".log")] == [path.name for path in segments]


async def test_a_batch_that_claims_more_than_there_is_is_an_error_to_whoever_reads_it(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(CONFIG)
        await directory.append_all(log, [batch(2, value=b"x" * 60) for _ in range(30)])
    damaged = files_of(tmp_path / str(ORDERS), ".log")[0]
    content = bytearray(damaged.read_bytes())
    position, base_offset, _ = batches_in(bytes(content))[1]
    content[position + 8] ^= 0x10
    damaged.write_bytes(content)
    async with opened(tmp_path) as directory:
        log = await directory.log(CONFIG)
        assert len(bytes_of(log.read(0, 1, max_offset=60))) == position
        with pytest.raises(ApiError, match="claims 2684") as raised:
            log.read(base_offset, 1 << 20, max_offset=60)
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


async def test_a_lost_segment_tail_takes_what_comes_after_the_gap_with_it(tmp_path: Path):
    path = await written_and_killed(tmp_path)
    set_recovery_point(path, 4)
    first = files_of(path / str(ORDERS), ".log")[0]
    position, base_offset, _ = batches_in(first.read_bytes())[-1]
    with first.open("r+b") as file:
        file.truncate(position)
    offsets, cuts = await read_all(path)
    assert offsets == list(range(base_offset))
    assert "the next segment begins at offset" in cuts[0]


async def test_bytes_below_the_recovery_point_are_not_read_again(tmp_path: Path):
    path = await written_and_killed(tmp_path, count=100)
    set_recovery_point(path, 200)
    async with opened(path) as directory:
        assert directory.report.scanned_bytes < 1000
        assert (await directory.log(CONFIG)).log_end_offset == 200


async def test_a_log_that_is_shorter_than_its_recovery_point_is_told(tmp_path: Path):
    path = await written_and_killed(tmp_path)
    set_recovery_point(path, 60)
    position, base_offset, _ = batches_in(newest(path).read_bytes())[-1]
    with newest(path).open("r+b") as file:
        file.truncate(position)
    offsets, cuts = await read_all(path)
    assert offsets == list(range(base_offset))
    assert "although it was on disk up to offset 60" in cuts[0]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "torn", "garbage"])
async def test_indexes_are_made_again(tmp_path: Path, suffix: str, damage: str):
    path = await written_and_killed(tmp_path)
    set_recovery_point(path, 60)
    for file in files_of(path / str(ORDERS), suffix):
        if damage == "missing":
            file.unlink()
        else:
            intact = file.read_bytes()
            file.write_bytes({"empty": b"", "torn": intact[:-1], "garbage": b"\x7f" * len(intact)}[damage])
    async with opened(path) as directory:
        log = await directory.log(CONFIG)
        for offset in range(60):
            found = bytes_of(log.read(offset, 1, max_offset=60))
            assert batches_in(found)[0][2] >= offset
        assert await log.offset_for_timestamp(NOW_MS + 17) == (NOW_MS + 17, 34, 0)
    if (suffix, damage) == (".index", "empty"):
        return  # what a small segment has: it makes look-ups longer, not wrong
    interval = LogConfig().index_interval_bytes
    for file in files_of(path / str(ORDERS), ".log")[:-1]:
        expected = kafkas_indexes(file.read_bytes(), int(file.stem), interval)
        assert file.with_suffix(suffix).read_bytes() == expected[suffix == ".timeindex"]


async def test_a_clean_stop_that_was_not_clean_is_noticed(tmp_path: Path):
    async with opened(tmp_path / "data") as directory:
        log = await directory.log(CONFIG)
        await directory.append_all(log, [batch(2) for _ in range(10)])
    with newest(tmp_path / "data").open("ab") as file:
        file.write(b"not a batch" * 10)
    offsets, cuts = await read_all(tmp_path / "data")
    assert offsets == list(range(20))
    assert len(cuts) == 1


async def test_leader_epochs_are_found_again_from_the_batches(tmp_path: Path):
    async with opened(tmp_path / "data") as directory:
        log = await directory.log(CONFIG)
        for epoch in (0, 3, 4):
            directory.append(log, batch(5), epoch=epoch)
        await log.flush()
        path = copy_as_after_a_kill(tmp_path / "data")
    assert not (path / "orders-0" / "leader-epoch-checkpoint").exists()
    async with opened(path) as directory:
        log = await directory.log(CONFIG)
        assert log.leader_epochs.entries == ((0, 0), (3, 5), (4, 10))


async def test_recovered_logs_need_no_recovery_after_a_clean_stop(tmp_path: Path):
    path = await written_and_killed(tmp_path)
    async with opened(path) as directory:
        assert not directory.report.was_clean
        assert list(directory.report.lines())
    async with opened(path) as directory:
        assert directory.report.was_clean
        assert directory.report.scanned_bytes == 0
        assert list(directory.report.lines()) == []


async def test_a_log_of_compacted_segments_keeps_its_gaps_when_no_recovery_point_is_known(tmp_path: Path):
    path = await written_and_killed(tmp_path)
    first, second, *_ = files_of(path / str(ORDERS), ".log")
    position, base_offset, last_offset = batches_in(first.read_bytes())[-1]
    with first.open("r+b") as file:
        file.truncate(position)
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    offsets, cuts = await read_all(path)
    assert offsets == [offset for offset in range(60) if not base_offset <= offset <= last_offset]
    assert cuts == []
    assert int(second.stem) == last_offset + 1


def set_recovery_point(path: Path, offset: int) -> None:
    (path / "recovery-point-offset-checkpoint").write_bytes(format_checkpoint([(*ORDERS, offset)]))


# What the CRC covers, and the length: all but the base offset and the leader epoch.
_PROTECTED = [*range(8, 12), *range(16, 61)]


@dataclass(frozen=True)
class Damage:
    """`flip` a bit of a byte of the batch chosen by `where` of all batches, or cut the file there."""

    where: float
    byte: int
    flip: bool
    recovery_point: float


damages = st.builds(
    Damage,
    where=st.floats(0, 0.999),
    byte=st.sampled_from(_PROTECTED) | st.integers(61, 150),
    flip=st.booleans(),
    recovery_point=st.floats(0, 1),
)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(written_and_killed(tmp_path_factory.mktemp("killed"), count=60))


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(damage=damages, lost_indexes=st.sampled_from(["", ".index", ".timeindex"]))
def test_whatever_happens_to_the_tail_the_log_is_the_longest_good_prefix(
    killed: Path, tmp_path_factory: pytest.TempPathFactory, damage: Damage, lost_indexes: str
):
    path = tmp_path_factory.mktemp("damaged") / "data"
    shutil.copytree(killed, path)
    everything = [
        (file, *found) for file in files_of(path / str(ORDERS), ".log") for found in batches_in(file.read_bytes())
    ]
    file, position, base_offset, _ = everything[int(damage.where * len(everything))]
    # The recovery point is a promise: nothing below it is damaged.
    flushed = [0, *(offset for _, _, offset, _ in everything if offset <= base_offset)]
    set_recovery_point(path, flushed[int(damage.recovery_point * (len(flushed) - 1))])
    data = bytearray(file.read_bytes())
    if damage.flip:
        data[position + damage.byte] ^= 1 << (damage.byte % 8)
    else:
        del data[position + damage.byte :]
    file.write_bytes(data)
    if lost_indexes:
        newest(path, lost_indexes).unlink()
    offsets, cuts = asyncio.run(read_all(path))
    assert offsets == list(range(base_offset))
    assert len(cuts) == 1
    remaining = b"".join(file.read_bytes() for file in files_of(path / str(ORDERS), ".log"))
    original = b"".join(file.read_bytes() for file in files_of(killed / str(ORDERS), ".log"))
    good_bytes = next(start for start, offset, _ in batches_in(original) if offset == base_offset)
    assert remaining[:good_bytes] == original[:good_bytes]


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(garbage=st.binary(min_size=1, max_size=300), zeros=st.integers(0, 5000))
def test_garbage_after_the_last_batch_never_becomes_a_record(
    killed: Path, tmp_path_factory: pytest.TempPathFactory, garbage: bytes, zeros: int
):
    path = tmp_path_factory.mktemp("garbage") / "data"
    shutil.copytree(killed, path)
    with newest(path).open("ab") as file:
        file.write(bytes(zeros) + garbage)
    offsets, cuts = asyncio.run(read_all(path))
    assert offsets == list(range(120))
    assert len(cuts) == 1


@pytest.mark.slow
def test_every_length_a_file_can_be_torn_to(killed: Path, tmp_path: Path):
    """The newest segment cut at each byte of its last two batches."""
    data = newest(killed).read_bytes()
    (position, base_offset, _), (_, last_base, _) = batches_in(data)[-2:]
    starts = {start: offset for start, offset, _ in batches_in(data)}
    for size in range(position, len(data), 13):
        path = tmp_path / str(size)
        shutil.copytree(killed, path)
        newest(path).write_bytes(data[:size])
        offsets, _ = asyncio.run(read_all(path))
        whole = [offset for start, offset in starts.items() if start <= size]
        assert offsets[-1] + 1 == max(whole)
        assert offsets[-1] + 1 in (base_offset, last_base)


async def test_a_batch_whose_offset_goes_back_ends_the_log(tmp_path: Path):
    path = await written_and_killed(tmp_path)
    data = bytearray(newest(path).read_bytes())
    (position, base_offset, _) = batches_in(data)[-1]
    struct.pack_into(">q", data, position, base_offset - 1)
    newest(path).write_bytes(data)
    offsets, cuts = await read_all(path)
    assert offsets == list(range(base_offset))
    assert "comes after offset" in cuts[0]


async def test_a_log_nothing_was_written_to_survives_a_kill(tmp_path: Path):
    async with opened(tmp_path / "data") as directory:
        await directory.log(CONFIG)
        path = copy_as_after_a_kill(tmp_path / "data")
    assert await read_all(path) == ([], [])
    assert await read_all(path) == ([0], [])


async def test_broken_leader_epochs_are_found_again_even_after_a_clean_stop(tmp_path: Path):
    async with opened(tmp_path) as directory:
        log = await directory.log(CONFIG)
        for epoch in (0, 3, 4):
            directory.append(log, batch(5), epoch=epoch)
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").write_text("0\n7\n")
    async with opened(tmp_path) as directory:
        log = await directory.log(CONFIG)
        assert log.leader_epochs.entries == ((0, 0), (3, 5), (4, 10))


async def test_one_damaged_log_does_not_touch_another(tmp_path: Path):
    other = TopicPartition("payments", 3)
    async with opened(tmp_path / "data") as directory:
        await directory.append_all(await directory.log(CONFIG), [batch(2) for _ in range(5)])
        await directory.append_all(await directory.log(CONFIG, other), [batch(2) for _ in range(7)])
        path = copy_as_after_a_kill(tmp_path / "data")
    newest(path).write_bytes(b"")
    async with opened(path) as directory:
        assert (await directory.log(CONFIG)).log_end_offset == 0
        assert (await directory.log(CONFIG, other)).log_end_offset == 14
