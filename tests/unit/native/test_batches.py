"""Runs of batches: what a broker checks, walks and writes without opening them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.native import assign_offsets, assign_producer, build_batch, validate_batches, walk_batches
from ottla.native.errors import (
    BatchTooLargeError,
    CorruptRecordError,
    InvalidRecordError,
    KernelError,
    TruncatedError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from tests.unit.native.independent_codec import CODECS, HEADER, aiokafka_batch, with_header

ONE = build_batch([(1000, b"k", b"v", [])])
THREE = build_batch([(1000 + i, b"k", b"value", [("h", b"x")]) for i in range(3)], codec=4)


def test_the_info_says_what_the_header_says() -> None:
    batch = aiokafka_batch(
        [(5, None, b"a", []), (9, None, b"b", []), (7, None, b"c", [])],
        codec=1,
        base_offset=40,
        is_transactional=1,
        producer_id=77,
        producer_epoch=3,
        base_sequence=11,
    )
    (info,) = validate_batches(batch)
    fields = HEADER.unpack_from(batch)
    assert (info.position, info.size) == (0, len(batch))
    assert (info.base_offset, info.last_offset, info.last_offset_delta, info.record_count) == (40, 42, 2, 3)
    assert (info.leader_epoch, info.crc, info.attributes, info.codec) == (fields[2], fields[4], 0x11, 1)
    assert (info.base_timestamp, info.max_timestamp, info.log_append_time) == (5, 9, False)
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.last_sequence) == (77, 3, 11, 13)
    assert (info.is_transactional, info.is_control, info.has_delete_horizon) == (True, False, False)
    assert "base_offset=40" in repr(info)


def test_an_info_cannot_be_changed() -> None:
    (info,) = validate_batches(ONE)
    with pytest.raises(AttributeError):
        info.base_offset = 3  # type: ignore[misc]


def test_sequence_numbers_go_on_from_zero_after_the_largest() -> None:
    batch = build_batch([(0, None, b"", [])] * 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert validate_batches(batch)[0].last_sequence == 0


@given(st.lists(st.integers(min_value=1, max_value=5), max_size=6))
def test_every_batch_of_a_run_is_found(counts: list[int]) -> None:
    run = b"".join(build_batch([(1, None, b"v", [])] * count, codec=count % 5) for count in counts)
    infos = validate_batches(run)
    assert [info.record_count for info in infos] == counts
    assert sum(info.size for info in infos) == len(run)
    assert [info.position for info in infos] == [sum(i.size for i in infos[:at]) for at in range(len(infos))]
    walked, consumed, reason = walk_batches(run, check_crc=True)
    assert ([info.position for info in walked], consumed, reason) == ([i.position for i in infos], len(run), None)


def failure_of(run: bytes | bytearray, **rules: int) -> KernelError:
    with pytest.raises(KernelError) as caught:
        validate_batches(run, **rules)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"magic": 1}, UnsupportedMagicError),
        ({"magic": 0}, UnsupportedMagicError),
        ({"magic": 3}, UnsupportedMagicError),
        ({"length": -1}, CorruptRecordError),
        ({"length": 0}, CorruptRecordError),
        ({"length": 48}, CorruptRecordError),
        ({"length": 2**31 - 1}, TruncatedError),
        ({"attributes": 5}, UnsupportedCodecError),
        ({"attributes": 7}, UnsupportedCodecError),
        ({"crc": 1}, CorruptRecordError),
        ({"count": 0}, InvalidRecordError),
        ({"count": -1}, InvalidRecordError),
        ({"count": 2}, InvalidRecordError),
        ({"count": 2**31 - 1}, InvalidRecordError),
        ({"last_offset_delta": 1}, InvalidRecordError),
        ({"last_offset_delta": -1}, InvalidRecordError),
        ({"last_offset_delta": -(2**31), "count": -(2**31)}, InvalidRecordError),
        ({"producer_id": 5, "base_sequence": -1}, InvalidRecordError),
        ({"attributes": 0x20}, InvalidRecordError),
    ],
)
def test_a_bad_batch_is_refused_with_its_place(changes: dict[str, int], error: type[KernelError]) -> None:
    bad = with_header(bytes(ONE), base_offset=1234, **changes)
    failure = failure_of(THREE + bad)
    assert type(failure) is error
    assert (failure.position, failure.batch_index, failure.base_offset) == (len(THREE), 1, 1234)
    assert f"batch 1 at byte {len(THREE)}, base offset 1234" in str(failure)


def test_a_batch_larger_than_allowed_is_refused_before_its_bytes_are_looked_at() -> None:
    assert type(failure_of(ONE, max_batch_bytes=len(ONE) - 1)) is BatchTooLargeError
    assert type(failure_of(with_header(bytes(ONE), crc=0), max_batch_bytes=len(ONE) - 1)) is BatchTooLargeError
    assert len(validate_batches(ONE, max_batch_bytes=len(ONE))) == 1


def test_control_batches_are_for_coordinators_only() -> None:
    control = build_batch([(0, b"\0\0\0\1", b"", [])], producer_id=1, is_control=True, is_transactional=True)
    assert type(failure_of(control)) is InvalidRecordError
    assert validate_batches(control, allow_control=True)[0].is_control


@pytest.mark.parametrize("length", range(1, len(ONE)))
def test_a_part_of_a_batch_is_refused_by_validation_and_left_by_a_walk(length: int) -> None:
    assert type(failure_of(THREE + ONE[:length])) is TruncatedError
    infos, consumed, reason = walk_batches(THREE + ONE[:length], check_crc=True)
    assert (len(infos), consumed, reason) == (1, len(THREE), None)


def test_a_walk_stops_at_the_first_bad_byte_and_says_why() -> None:
    broken = bytearray(ONE)
    broken[-1] ^= 1
    infos, consumed, reason = walk_batches(THREE + broken + ONE, check_crc=True)
    assert (len(infos), consumed) == (1, len(THREE))
    assert isinstance(reason, CorruptRecordError)
    assert reason.position == len(THREE)
    assert "CRC" in str(reason)
    assert walk_batches(THREE + broken + ONE, check_crc=False)[1:] == (len(THREE) + 2 * len(ONE), None)


def test_zeros_after_the_last_batch_of_a_preallocated_file_stop_a_walk() -> None:
    infos, consumed, reason = walk_batches(ONE + bytes(4096), check_crc=True)
    assert (len(infos), consumed, type(reason)) == (1, len(ONE), CorruptRecordError)


@pytest.mark.parametrize(("count", "delta"), [(1, 0), (1, 9), (0, 9), (10, 9)])
def test_a_walk_takes_the_gaps_that_compaction_leaves(count: int, delta: int) -> None:
    batch = with_header(bytes(ONE), count=count, last_offset_delta=delta, base_offset=100)
    ((info,), _, reason) = walk_batches(batch, check_crc=True)
    assert (info.last_offset, info.record_count, reason) == (100 + delta, count, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 3, "last_offset_delta": 1},
        {"count": -1},
        {"count": 0, "last_offset_delta": -1},
        {"base_offset": -1},
        {"base_offset": 2**63 - 1, "last_offset_delta": 5},
    ],
)
def test_a_walk_refuses_counts_and_offsets_that_cannot_be(changes: dict[str, int]) -> None:
    infos, consumed, reason = walk_batches(with_header(bytes(ONE), **changes), check_crc=True)
    assert (infos, consumed, type(reason)) == ([], 0, CorruptRecordError)


def test_offsets_are_assigned_in_place_and_the_crc_still_holds() -> None:
    run = bytearray(THREE + ONE + THREE)
    assert assign_offsets(run, 500, 9) == 507
    infos = validate_batches(run)
    assert [(i.base_offset, i.last_offset, i.leader_epoch) for i in infos] == [
        (500, 502, 9),
        (503, 503, 9),
        (504, 506, 9),
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_changes_the_header_and_the_crc(codec: int) -> None:
    run = bytearray(build_batch([(1, None, b"v" * 100, [])] * 1000, codec=codec) + ONE)
    assert assign_offsets(memoryview(run), 0, 1, log_append_time_ms=123456) == 1001
    for info in validate_batches(run):
        assert info.log_append_time
        assert info.max_timestamp == 123456
    assert validate_batches(run)[0].codec == codec


def test_offsets_are_not_assigned_to_a_run_that_is_not_whole() -> None:
    for bad in (
        THREE + ONE[:-1],
        THREE + with_header(bytes(ONE), last_offset_delta=-1),
        THREE + with_header(bytes(ONE), magic=1),
    ):
        run = bytearray(bad)
        with pytest.raises(KernelError):
            assign_offsets(run, 500, 9)
        assert run == bad


def test_offsets_do_not_run_over() -> None:
    with pytest.raises(CorruptRecordError):
        assign_offsets(bytearray(THREE), 2**63 - 3, 0)


def test_bytes_that_cannot_be_changed_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="writable"):
        assign_offsets(bytes(ONE), 0, 0)
    with pytest.raises(BufferError):
        validate_batches(memoryview(ONE)[::2])


def test_a_producer_that_learns_its_numbers_later_can_write_them_in() -> None:
    run = bytearray(THREE + ONE)
    assert assign_producer(run, 42, 7, 2**31 - 2, is_transactional=True) == 2
    infos = validate_batches(run)
    assert [(i.producer_id, i.producer_epoch, i.base_sequence) for i in infos] == [(42, 7, 2**31 - 2), (42, 7, 1)]
    assert all(i.is_transactional for i in infos)
    assert assign_producer(run, 42, 7, 0) == 4


def test_positions_in_a_large_run_are_right_without_the_gil() -> None:
    batch = build_batch([(1, None, b"v" * 1000, [])] * 100)
    infos = validate_batches(bytes(batch) * 5)
    assert [info.position for info in infos] == [len(batch) * at for at in range(5)]
    broken = bytearray(bytes(batch) * 5)
    broken[len(batch) * 3 + 16] = 1
    assert failure_of(broken).batch_index == 3
