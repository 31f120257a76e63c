"""Building and decoding batches, against aiokafka's C codec and kafka-python's pure one."""

from collections.abc import Sequence

import pytest
from aiokafka.record._crecords.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from ottla.native import assign_offsets, build_batch, decode_newest, decode_records, validate_batches
from tests.unit.native.independent_codec import (
    CODECS,
    GZIP,
    HEADER_BYTES,
    LZ4,
    NONE,
    SNAPPY,
    XERIAL,
    ZSTD,
    Record,
    aiokafka_batch,
    pack,
    read_by,
    recompressed,
    records,
    unpack,
    with_header,
    with_payload,
)

LIMIT = 1 << 24


def rows(items: Sequence[Record], base_offset: int = 0) -> list[tuple[int, *Record]]:
    return [(base_offset + index, *item) for index, item in enumerate(items)]


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
@given(items=records, base_offset=st.integers(min_value=0, max_value=2**62))
def test_what_is_built_other_clients_read(codec: int, items: list[Record], base_offset: int) -> None:
    batch = bytes(build_batch(items, codec=codec, base_offset=base_offset))
    plain = recompressed(batch, NONE)
    assert read_by(AiokafkaBatch, plain) == rows(items, base_offset)
    assert read_by(KafkaPythonBatch, plain) == rows(items, base_offset)


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
@given(items=records)
def test_what_another_client_writes_is_decoded(codec: int, items: list[Record]) -> None:
    batch = aiokafka_batch(items, codec, base_offset=77)
    assert decode_records(batch, max_decompressed_bytes=LIMIT) == rows(items, 77)
    assert [info.record_count for info in validate_batches(batch)] == [len(items)]


@pytest.mark.slow
@given(items=records)
def test_a_built_batch_is_byte_for_byte_that_of_aiokafka(items: list[Record]) -> None:
    theirs = with_header(aiokafka_batch(items), leader_epoch=-1)
    assert build_batch(items) == theirs


@pytest.mark.parametrize("batch_class", [AiokafkaBatch, KafkaPythonBatch])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_codecs_that_other_clients_have_at_hand_are_read_by_them_directly(batch_class: type, codec: int) -> None:
    items: list[Record] = [(i, b"k", b"v" * i, [("h", None)]) for i in range(300)]
    assert read_by(batch_class, build_batch(items, codec=codec)) == rows(items)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 1000, 32 * 1024, 64 * 1024, 64 * 1024 + 1, 1_000_000])
def test_values_around_the_block_sizes_of_the_codecs(codec: int, size: int) -> None:
    value = bytes(index * index // 7 % 256 for index in range(size))
    items: list[Record] = [(0, None, value, []), (0, value[:10], None, [])]
    batch = bytes(build_batch(items, codec=codec))
    assert unpack(codec, batch[HEADER_BYTES:]) == bytes(build_batch(items))[HEADER_BYTES:]
    assert decode_records(batch, max_decompressed_bytes=LIMIT) == rows(items)
    assert decode_records(recompressed(batch, codec), max_decompressed_bytes=LIMIT) == rows(items)


def test_snappy_is_framed_as_the_java_client_does_and_bare_snappy_is_read_too() -> None:
    items: list[Record] = [(0, None, b"snappy" * 50, [])]
    batch = bytes(build_batch(items, codec=SNAPPY))
    assert batch[HEADER_BYTES:].startswith(XERIAL)
    plain = bytes(build_batch(items))[HEADER_BYTES:]
    bare = pack(SNAPPY, plain)[len(XERIAL) + 4 :]
    assert decode_records(with_payload(batch, bare), max_decompressed_bytes=LIMIT) == rows(items)


def test_lz4_frames_have_independent_64_kb_blocks_and_a_right_header_checksum() -> None:
    frame = bytes(build_batch([(0, None, b"x", [])], codec=LZ4))[HEADER_BYTES:]
    assert frame[:7] == bytes.fromhex("04224d18" + "60" + "40" + "82")
    assert frame[-4:] == bytes(4)


def test_linked_lz4_blocks_are_read_though_never_written() -> None:
    items: list[Record] = [(0, None, b"".join(b"line %d of many\n" % (i % 997) for i in range(20_000)), [])]
    plain = bytes(build_batch(items))[HEADER_BYTES:]
    frame = pack(LZ4, plain)
    assert not frame[4] & 0x20, "the other library links blocks"
    batch = with_payload(build_batch(items, codec=LZ4), frame)
    assert decode_records(batch, max_decompressed_bytes=LIMIT) == rows(items)


def test_gzip_members_that_follow_each_other_are_one_payload() -> None:
    items: list[Record] = [(0, None, b"abc" * 100, []), (1, None, b"def" * 100, [])]
    plain = bytes(build_batch(items))[HEADER_BYTES:]
    payload = pack(GZIP, plain[:50]) + pack(GZIP, plain[50:])
    assert decode_records(with_payload(build_batch(items, codec=GZIP), payload), max_decompressed_bytes=LIMIT) == rows(
        items
    )


@pytest.mark.parametrize(("codec", "levels"), [(GZIP, (1, 9)), (LZ4, (1, 17)), (ZSTD, (-5, 1, 22))])
def test_levels_change_the_effort_and_not_the_content(codec: int, levels: tuple[int, ...]) -> None:
    items: list[Record] = [(i, b"key %d" % i, b"some value %d" % (i * i), []) for i in range(200)]
    for level in levels:
        batch = build_batch(items, codec=codec, level=level)
        assert decode_records(recompressed(bytes(batch), NONE), max_decompressed_bytes=LIMIT) == rows(items)


@pytest.mark.parametrize(("codec", "level"), [(GZIP, 0), (GZIP, 10), (LZ4, 18), (ZSTD, 23), (5, None), (-1, None)])
def test_a_codec_or_level_that_does_not_exist_is_a_value_error(codec: int, level: int | None) -> None:
    with pytest.raises(ValueError, match="compression"):
        build_batch([(0, None, b"", [])], codec=codec, level=level)


def test_only_records_from_the_start_offset_on_come() -> None:
    run = b"".join(build_batch([(0, None, b"%d" % i, [])] * 3, base_offset=3 * i, codec=i % 5) for i in range(6))
    for start in range(20):
        decoded = decode_records(run, max_decompressed_bytes=LIMIT, start_offset=start)
        assert [record[0] for record in decoded] == list(range(start, 18))


def test_a_part_of_a_batch_at_the_end_of_a_fetch_is_left_out() -> None:
    batch = build_batch([(0, None, b"whole", [])])
    for length in range(len(batch)):
        assert len(decode_records(batch + batch[:length], max_decompressed_bytes=LIMIT)) == 1


def test_control_batches_come_only_when_wanted() -> None:
    run = build_batch([(0, b"\0\0\0\1", b"x", [])], is_control=True) + build_batch([(0, b"k", b"v", [])], base_offset=1)
    assert [r[0] for r in decode_records(run, max_decompressed_bytes=LIMIT)] == [1]
    assert [r[0] for r in decode_records(run, max_decompressed_bytes=LIMIT, include_control=True)] == [0, 1]


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = build_batch([(5, None, b"a", []), (9, None, b"b", [])])
    assign_offsets(batch, 0, 0, log_append_time_ms=1234)
    assert [record[1] for record in decode_records(batch, max_decompressed_bytes=LIMIT)] == [1234, 1234]
    assert [record[1] for record in read_by(AiokafkaBatch, batch)] == [1234, 1234]


def test_records_keep_the_offsets_they_are_given() -> None:
    items: list[Record] = [(0, b"a", b"1", []), (0, b"b", b"2", []), (0, b"c", b"3", [])]
    batch = build_batch(items, base_offset=100, offsets=[100, 105, 2_000])
    assert [record[0] for record in decode_records(batch, max_decompressed_bytes=LIMIT)] == [100, 105, 2_000]
    assert [record[0] for record in read_by(AiokafkaBatch, batch)] == [100, 105, 2_000]


@pytest.mark.parametrize("offsets", [[99, 100], [100, 100], [101, 100], [100], [100, 101, 102], [100, 100 + 2**31]])
def test_offsets_that_no_batch_can_hold_are_a_value_error(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offset"):
        build_batch([(0, None, b"", [])] * 2, base_offset=100, offsets=offsets)


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    empty = with_payload(build_batch([(0, None, b"", [])] * 3, codec=ZSTD), b"", count=0)
    assert decode_records(empty, max_decompressed_bytes=0) == []


def test_a_header_key_that_is_not_utf_8_does_not_stop_the_reader() -> None:
    batch = build_batch([(0, None, b"", [("key", b"v")])])
    broken = with_payload(batch, bytes(batch[HEADER_BYTES:]).replace(b"key", b"k\xffy"))
    assert decode_records(broken, max_decompressed_bytes=0)[0][4] == [("k\ufffdy", b"v")]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ([], ValueError),
        ([(0, None, b"")], TypeError),
        ([[0, None, b"", []]], TypeError),
        ([(0, "text", b"", [])], TypeError),
        ([(0, None, b"", None)], TypeError),
        ([(0, None, b"", [("only a key",)])], ValueError),
        ([(0, None, b"", [(b"bytes", b"")])], TypeError),
        ([("now", None, b"", [])], TypeError),
        ([(2**63, None, b"", [])], OverflowError),
        ([(-(2**62) - 1, None, b"", []), (2**62, None, b"", [])], ValueError),
    ],
)
def test_what_is_no_record_is_the_callers_mistake(bad: list[object], error: type[Exception]) -> None:
    with pytest.raises(error):
        build_batch(bad)  # type: ignore[arg-type]


def test_every_kind_of_buffer_and_iterable_will_do() -> None:
    record = (1, bytearray(b"k"), memoryview(b"v"), (("h", bytearray(b"x")),))
    decoded = decode_records(memoryview(build_batch(iter([record]))), max_decompressed_bytes=0)
    assert decoded == [(0, 1, b"k", b"v", [("h", b"x")])]


def test_timestamps_at_the_limits_survive() -> None:
    items: list[Record] = [(-(2**63), None, b"", []), (-1, None, b"", [])]
    assert decode_records(build_batch(items), max_decompressed_bytes=0) == rows(items)
    assert decode_records(build_batch([(2**63 - 1, None, b"", [])]), max_decompressed_bytes=0)[0][1] == 2**63 - 1


@given(
    batches=st.lists(
        st.tuples(
            st.sampled_from(CODECS),
            st.booleans(),
            st.lists(
                st.tuples(st.none() | st.sampled_from([b"", b"a", b"b"]), st.none() | st.binary(max_size=9)), min_size=1
            ),
        ),
        max_size=8,
    ),
    start=st.integers(0, 12),
)
def test_the_newest_of_each_key_are_those_that_a_dict_would_keep(
    batches: list[tuple[int, bool, list[tuple[bytes | None, bytes | None]]]], start: int
) -> None:
    data, offset = b"", 0
    expected: dict[object, tuple[int, bytes, bytes | None]] = {}
    count = 0
    for codec, is_transactional, rows_ in batches:
        producer_id, epoch, sequence = (1, 0, 0) if is_transactional else (-1, -1, -1)
        data += build_batch(
            [(0, key, value, []) for key, value in rows_],
            codec=codec,
            base_offset=offset,
            is_transactional=is_transactional,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        for key, value in rows_:
            if key is not None and offset >= start:
                expected[offset if is_transactional else key] = (offset, key, value)
                count += 1
            offset += 1
    found = decode_newest(data, max_decompressed_bytes=LIMIT, start_offset=start)
    assert found == (sorted(expected.values()), count)
