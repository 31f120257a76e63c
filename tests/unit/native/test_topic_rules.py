"""What a topic asks of a producer's batch: each record is looked at, and kept in the topic's codec."""

import random
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.native import BatchInfo, TopicRules, build_batch, decode_records
from ottla.native.errors import (
    BatchTooLargeError,
    DecompressionLimitError,
    InvalidRecordError,
    InvalidTimestampError,
    KernelError,
    TruncatedError,
)
from tests.unit.native.independent_codec import (
    CODECS,
    FIELDS,
    GZIP,
    HEADER,
    HEADER_BYTES,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Record,
    aiokafka_batch,
    pack,
    recompressed,
    records,
    unpack,
    with_header,
    with_payload,
)

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
FOREVER_MS = 2**63 - 1
EACH_CODEC = pytest.mark.parametrize("codec", CODECS)


def rules(
    *,
    max_batch_bytes: int = 1 << 20,
    timestamp_limits_ms: tuple[int, int] | None = (FOREVER_MS, HOUR_MS),
    keys_required: bool = False,
    stream_records_refused: bool = False,
    codec: int | None = None,
    level: int | None = None,
    opens_compressed: bool = False,
    max_decompressed_bytes: int = 1 << 20,
) -> TopicRules:
    """The rules of a topic, those of the defaults but for what is said."""
    return TopicRules(
        max_batch_bytes=max_batch_bytes,
        timestamp_limits_ms=timestamp_limits_ms,
        keys_required=keys_required,
        stream_records_refused=stream_records_refused,
        codec=codec,
        level=level,
        opens_compressed=opens_compressed,
        max_decompressed_bytes=max_decompressed_bytes,
    )


def decided(topic: TopicRules, batch: bytes | bytearray) -> tuple[bytes, BatchInfo]:
    """The batch that is kept, and its header, whether or not it has to be opened for that."""
    data = bytearray(batch)
    checked = topic.check(data, NOW_MS)
    if checked is not None:
        return bytes(data), checked[0]
    rewritten, (info,) = topic.open(data, NOW_MS)
    return bytes(data if rewritten is None else rewritten), info


def refused(topic: TopicRules, batch: bytes | bytearray) -> KernelError:
    with pytest.raises(KernelError) as caught:
        decided(topic, batch)
    return caught.value


def keyed(keys: Sequence[bytes | None], codec: int = NONE, **options: Any) -> bytes:
    """A batch of records with these keys."""
    return bytes(build_batch([(NOW_MS, key, b"v", []) for key in keys], codec=codec, **options))


def timed(times: Sequence[int], codec: int = NONE) -> bytes:
    """A batch of records with these timestamps."""
    return bytes(build_batch([(time, b"k", b"v", []) for time in times], codec=codec))


def fields_of(batch: bytes) -> dict[str, int]:
    return dict(zip(FIELDS, HEADER.unpack_from(batch), strict=True))


@EACH_CODEC
def test_records_without_a_key_are_named_where_a_key_is_asked_for(codec: int) -> None:
    topic = rules(keys_required=True, opens_compressed=True)
    error = refused(topic, keyed([b"a", None, b"", None], codec))
    assert type(error) is InvalidRecordError
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert all("key" in what for _, what in error.record_errors)
    assert "2 of 4 records" in str(error)


@EACH_CODEC
def test_records_without_a_key_are_taken_where_none_is_asked_for(codec: int) -> None:
    batch = keyed([None, b"a"], codec)
    assert decided(rules(opens_compressed=True), batch)[0] == batch


@EACH_CODEC
def test_only_the_broker_writes_records_that_say_they_are_a_streams_own(codec: int) -> None:
    headers: list[list[tuple[str, bytes | None]]] = [
        [],
        [("trace", b"1"), ("redis", b"M")],
        [("redis", None)],
        [("redi", b"M")],
    ]
    batch = build_batch([(NOW_MS, None, b"v", each) for each in headers], codec=codec)
    error = refused(rules(stream_records_refused=True, opens_compressed=True), batch)
    assert type(error) is InvalidRecordError
    assert [index for index, _ in error.record_errors] == [1, 2]
    assert decided(rules(opens_compressed=True), batch)[0] == batch


@EACH_CODEC
def test_every_timestamp_counts_not_only_the_first_and_the_largest(codec: int) -> None:
    topic = rules(timestamp_limits_ms=(HOUR_MS, HOUR_MS), opens_compressed=True)
    error = refused(topic, timed([NOW_MS, NOW_MS - HOUR_MS - 1, NOW_MS - HOUR_MS, NOW_MS + HOUR_MS], codec))
    assert type(error) is InvalidTimestampError
    assert [index for index, _ in error.record_errors] == [1]
    assert str(NOW_MS - HOUR_MS - 1) in error.record_errors[0][1]


@EACH_CODEC
def test_a_record_without_a_time_is_within_every_limit(codec: int) -> None:
    batch = timed([NOW_MS, -1, NOW_MS], codec)
    assert decided(rules(timestamp_limits_ms=(10, 10), opens_compressed=True), batch)[0] == batch


def test_a_wrong_time_beside_a_missing_key_is_a_wrong_time() -> None:
    batch = build_batch([(NOW_MS, None, b"", []), (NOW_MS + 2 * HOUR_MS, b"k", b"", [])])
    error = refused(rules(keys_required=True), batch)
    assert type(error) is InvalidTimestampError
    assert [index for index, _ in error.record_errors] == [0, 1]


def test_where_the_broker_sets_the_time_any_is_taken() -> None:
    batch = timed([5, NOW_MS * 2])
    assert decided(rules(timestamp_limits_ms=None), batch)[0] == batch


@pytest.mark.parametrize("limits", [None, (FOREVER_MS, HOUR_MS)])
def test_a_producer_that_speaks_for_the_broker_is_refused_record_by_record(limits: tuple[int, int] | None) -> None:
    error = refused(rules(timestamp_limits_ms=limits), with_header(timed([NOW_MS] * 3), attributes=0x08))
    assert type(error) is InvalidTimestampError
    assert [index for index, _ in error.record_errors] == [0, 1, 2]


def test_only_so_many_records_are_named() -> None:
    error = refused(rules(keys_required=True), keyed([None] * 2_000))
    assert [index for index, _ in error.record_errors] == list(range(1_000))
    assert "2000 of 2000 records" in str(error)


@pytest.mark.parametrize("wrong", [0, NOW_MS + 10 * HOUR_MS, -(2**63), 2**63 - 1])
@EACH_CODEC
def test_a_largest_timestamp_that_is_not_that_of_the_records_is_put_right(codec: int, wrong: int) -> None:
    batch = timed([NOW_MS - 5, NOW_MS, NOW_MS - 3], codec)
    kept, info = decided(rules(opens_compressed=True), with_header(batch, max_timestamp=wrong))
    assert kept == batch
    assert info.max_timestamp == NOW_MS
    assert info.crc == fields_of(batch)["crc"]


def test_where_the_broker_sets_the_time_the_largest_timestamp_is_left() -> None:
    batch = bytes(with_header(timed([NOW_MS]), max_timestamp=7))
    assert decided(rules(timestamp_limits_ms=None), batch)[0] == batch


@pytest.mark.parametrize("field", ["base_timestamp", "max_timestamp"])
def test_a_compressed_batch_is_opened_when_its_header_has_a_time_out_of_the_limits(field: str) -> None:
    batch = with_header(timed([NOW_MS], ZSTD), **{field: NOW_MS + 2 * HOUR_MS})
    assert rules().check(batch, NOW_MS) is None


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_compressed_batch_stays_closed_where_nothing_asks_for_more(codec: int) -> None:
    assert rules().check(bytearray(keyed([None], codec)), NOW_MS) is not None
    assert rules(codec=codec).check(bytearray(keyed([None], codec)), NOW_MS) is not None
    assert rules(opens_compressed=True).check(bytearray(keyed([None], codec)), NOW_MS) is None


@pytest.mark.parametrize("batch", [keyed([b"k"], base_offset=1), keyed([b"k"]) * 2, b""], ids=["offset", "two", "none"])
def test_what_is_not_one_batch_from_offset_0_is_refused(batch: bytes) -> None:
    assert type(refused(rules(), batch)) is InvalidRecordError


def test_a_batch_with_something_behind_it_is_refused() -> None:
    assert type(refused(rules(), keyed([b"k"]) + b"x")) is TruncatedError


@pytest.mark.slow
@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
@given(items=records)
def test_a_batch_is_kept_in_the_codec_of_the_topic_with_all_it_says(
    source: int, target: int, items: list[Record]
) -> None:
    batch = aiokafka_batch(items, source, is_transactional=1, producer_id=77, producer_epoch=3, base_sequence=11)
    topic = rules(codec=target, timestamp_limits_ms=None)
    kept, info = decided(topic, batch)
    before, after = fields_of(batch), fields_of(kept)
    assert after["attributes"] == info.attributes == (before["attributes"] & ~7 | target)
    assert after["crc"] == info.crc
    assert info.size == len(kept)
    for name in FIELDS:
        if name not in {"attributes", "length", "crc"}:
            assert after[name] == before[name], name
    assert unpack(target, kept[HEADER_BYTES:]) == unpack(source, batch[HEADER_BYTES:])
    assert with_header(kept) == kept, "length and checksum are right"
    decoded = decode_records(kept, max_decompressed_bytes=1 << 20)
    assert [(time, key, value, headers) for _, time, key, value, headers in decoded] == items
    if source == target:
        assert kept == batch


@pytest.mark.parametrize(("codec", "low", "high"), [(GZIP, 1, 9), (ZSTD, -50, 19)])
def test_the_level_is_the_topics(codec: int, low: int, high: int) -> None:
    text = b" ".join(b"%d" % (number * number) for number in range(20_000))
    batch = build_batch([(NOW_MS, b"k", text, [])])
    small, large = (decided(rules(codec=codec, level=level), batch)[0] for level in (high, low))
    assert len(small) < len(large)


@EACH_CODEC
def test_a_batch_that_is_too_large_in_the_topics_codec_is_refused(codec: int) -> None:
    noise = random.Random(codec).randbytes(50_000)
    size = len(decided(rules(codec=codec), build_batch([(NOW_MS, b"k", noise, [])], codec=ZSTD, level=19))[0])
    zeros = build_batch([(NOW_MS, b"k", bytes(500_000), [])], codec=ZSTD)
    if codec == NONE:
        assert type(refused(rules(codec=codec, max_batch_bytes=500_000), zeros)) is BatchTooLargeError
    batch = build_batch([(NOW_MS, b"k", noise, [])], codec=(codec + 1) % 5)
    largest = max(size, len(batch))
    decided(rules(codec=codec, max_batch_bytes=largest), batch)
    assert type(refused(rules(codec=codec, max_batch_bytes=min(size, len(batch)) - 1), batch)) is BatchTooLargeError


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("target", [None, *CODECS])
def test_a_bomb_is_refused(codec: int, target: int | None) -> None:
    if target == codec:
        target = None
    bomb = build_batch([(NOW_MS, b"k", bytes(8 << 20), [])], codec=codec)
    topic = rules(codec=target, opens_compressed=True, max_decompressed_bytes=1 << 20)
    error = refused(topic, bomb)
    assert type(error) is DecompressionLimitError
    assert str(1 << 20) in str(error)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_looks_compressed_and_is_not_is_refused_once_it_is_opened(codec: int) -> None:
    batch = keyed([b"k"] * 50, codec)
    broken = with_payload(batch, batch[HEADER_BYTES:-4] + b"\xff\xff\xff\xff")
    assert type(refused(rules(opens_compressed=True), broken)) is InvalidRecordError
    other = with_payload(batch, pack(codec, b"\xff" * 400))
    assert type(refused(rules(opens_compressed=True), other)) is InvalidRecordError


@pytest.mark.parametrize("count", [1, 3, 5])
@pytest.mark.parametrize("codec", CODECS)
def test_a_count_that_is_not_that_of_the_records_is_refused(codec: int, count: int) -> None:
    batch = keyed([b"k"] * 4, codec)
    wrong = with_header(batch, count=count, last_offset_delta=count - 1)
    assert type(refused(rules(opens_compressed=True), wrong)) is InvalidRecordError


@pytest.mark.parametrize("codec", CODECS)
def test_offsets_that_do_not_follow_one_another_are_refused(codec: int) -> None:
    payload = bytearray(keyed([b"k"] * 2)[HEADER_BYTES:])
    second = len(payload) // 2 + 3
    assert payload[second] == 2
    payload[second] = 0
    wrong = recompressed(with_payload(keyed([b"k"] * 2), bytes(payload)), codec)
    assert type(refused(rules(opens_compressed=True), wrong)) is InvalidRecordError


def test_a_level_or_codec_that_does_not_exist_is_refused() -> None:
    for options in ({"codec": 5}, {"codec": GZIP, "level": 10}):
        with pytest.raises(ValueError, match="compression"):
            rules(**options)  # type: ignore[arg-type]


@given(at=st.integers(0, 200), byte=st.integers(0, 255), codec=st.sampled_from(CODECS))
def test_a_changed_byte_is_refused_or_makes_no_difference_to_readers(at: int, byte: int, codec: int) -> None:
    batch = bytearray(keyed([b"one", b"two", b"three"], codec))
    batch[at % len(batch)] = byte
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    sealed = with_header(bytes(batch), magic=2)
    try:
        kept, _ = decided(rules(opens_compressed=True, codec=ZSTD), sealed)
    except KernelError:
        return
    assert len(decode_records(kept, max_decompressed_bytes=1 << 20)) == 3
