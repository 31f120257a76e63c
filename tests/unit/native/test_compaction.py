"""Compaction against a dict, and what it keeps for producers, transactions and tombstones."""

import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.native import Compaction, DirtyKeys, build_batch, decode_records, walk_batches
from ottla.native.errors import CorruptRecordError, DecompressionLimitError
from ottla.records.control import ControlRecordType, EndTransactionMarker
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.segment_indexer import SegmentIndexer
from ottla.storage.time_index import TimeIndex
from tests.unit.native.independent_codec import CODECS

pytestmark = pytest.mark.slow

LIMIT = 1 << 24
SECRET = bytes(range(16))
NOW_MS = 1_000_000
RETENTION_MS = 500

Row = tuple[bytes | None, bytes | None]
Decoded = list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]


class Written:
    """A log in memory, written batch by batch."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.end_offset = 0
        self.ends: list[int] = []

    def write(self, rows: list[Row], *, codec: int = 0, **producer: Any) -> int:
        """One batch of records with the timestamps 100, 101, ...; returns its first offset."""
        records = [(100 + index, key, value, [("h", b"v")]) for index, (key, value) in enumerate(rows)]
        self.data += build_batch(records, codec=codec, base_offset=self.end_offset, **producer)
        return self._wrote(len(rows))

    def mark(self, kind: ControlRecordType, producer_id: int, epoch: int = 0) -> int:
        """The end of a transaction."""
        marker = bytearray(
            EndTransactionMarker(kind, 0).to_batch(producer_id=producer_id, producer_epoch=epoch, timestamp_ms=1)
        )
        marker[:8] = self.end_offset.to_bytes(8, "big")
        self.data += marker
        return self._wrote(1)

    def _wrote(self, count: int) -> int:
        first = self.end_offset
        self.end_offset += count
        self.ends.append(self.end_offset)
        return first


def dirty_keys(
    log: Written, *, start: int = 0, memory_bytes: int = 1 << 20, aborted: list[tuple[int, int]] | None = None
) -> DirtyKeys:
    """The first pass over all of a log."""
    keys = DirtyKeys(
        start_offset=start,
        keys_max=log.end_offset,
        memory_bytes=memory_bytes,
        secret=SECRET,
        aborted=aborted or [],
        max_decompressed_bytes=LIMIT,
    )
    keys.add(log.data)
    return keys


def compaction(
    log: Written,
    keys: DirtyKeys | None = None,
    *,
    now_ms: int = NOW_MS,
    aborted: list[tuple[int, int]] | None = None,
    last_batches: dict[int, tuple[int | None, int]] | None = None,
    end_offset: int = -1,
) -> Compaction:
    """The second pass, not begun."""
    return Compaction(
        keys or dirty_keys(log, aborted=aborted),
        now_ms=now_ms,
        delete_retention_ms=RETENTION_MS,
        end_offset=end_offset,
        last_batches=last_batches or {},
        aborted=aborted or [],
        max_decompressed_bytes=LIMIT,
    )


def compacted(log: Written, **options: object) -> bytes:
    consumed, data = compaction(log, **options).clean(log.data)  # type: ignore[arg-type]
    assert consumed == len(log.data)
    return data


def rows(data: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    decoded = decode_records(data, max_decompressed_bytes=LIMIT)
    return [(offset, key, value) for offset, _, key, value, _ in decoded]


def all_rows(data: bytes | bytearray) -> Decoded:
    return decode_records(data, max_decompressed_bytes=LIMIT, include_control=True)


small_keys = st.sampled_from([b"", b"a", b"b", b"cc", b"d" * 40])
values = st.none() | st.binary(max_size=20)
written_batches = st.lists(
    st.tuples(st.sampled_from(CODECS), st.lists(st.tuples(small_keys, values), min_size=1, max_size=8)), max_size=12
)


@given(batches=written_batches, data=st.data())
def test_a_reader_of_the_whole_log_ends_with_the_same_keys_and_values(
    batches: list[tuple[int, list[Row]]], data: st.DataObject
) -> None:
    log = Written()
    for codec, content in batches:
        log.write(content, codec=codec)
    start = data.draw(st.integers(0, max(0, log.end_offset - 1)))
    before, after = rows(bytes(log.data)), rows(compacted(log, keys=dirty_keys(log, start=start)))

    assert {key: value for _, key, value in after} == {key: value for _, key, value in before}
    newest = {key: offset for offset, key, _ in before if offset >= start}
    assert after == [row for row in before if row[0] >= newest.get(row[1], -1)]


@given(batches=written_batches)
def test_batches_keep_offsets_sequences_timestamps_and_headers(batches: list[tuple[int, list[Row]]]) -> None:
    log = Written()
    for codec, content in batches:
        log.write(content, codec=codec, producer_id=7, producer_epoch=1, base_sequence=log.end_offset)
    data = compacted(log)
    before = {info.base_offset: info for info in walk_batches(bytes(log.data), check_crc=True)[0]}
    infos, consumed, reason = walk_batches(data, check_crc=True)
    assert (consumed, reason) == (len(data), None)
    for info in infos:
        old = before[info.base_offset]
        assert (info.last_offset, info.base_sequence, info.last_sequence, info.producer_epoch, info.codec) == (
            old.last_offset,
            old.base_sequence,
            old.last_sequence,
            old.producer_epoch,
            old.codec,
        )
    left = {row[0]: row for row in all_rows(log.data)}
    kept = all_rows(data)
    assert kept == [left[row[0]] for row in kept]
    assert all(
        info.max_timestamp == max(row[1] for row in kept if info.base_offset <= row[0] <= info.last_offset)
        for info in infos
    )


@given(batches=written_batches, cuts=st.lists(st.integers(0, 5000), max_size=5))
def test_it_does_not_matter_how_the_log_is_cut_into_buffers(
    batches: list[tuple[int, list[Row]]], cuts: list[int]
) -> None:
    log = Written()
    for codec, content in batches:
        log.write(content, codec=codec)
    keys = DirtyKeys(
        start_offset=0,
        keys_max=log.end_offset,
        memory_bytes=1 << 20,
        secret=SECRET,
        aborted=[],
        max_decompressed_bytes=LIMIT,
    )
    ends = sorted(min(cut, len(log.data)) for cut in [*cuts, len(log.data)])
    position = 0
    for end in ends:
        consumed, is_full = keys.add(log.data[position:end])
        assert not is_full
        position += consumed
    assert position == len(log.data)
    second, cleaned, position = compaction(log, keys), b"", 0
    for end in ends:
        consumed, part = second.clean(log.data[position:end])
        position, cleaned = position + consumed, cleaned + part
    assert cleaned == compacted(log)
    assert second.records_read == log.end_offset
    assert second.records_kept == len(all_rows(cleaned))


@given(batches=written_batches, interval=st.integers(0, 300))
def test_the_indexes_of_a_segment_are_those_that_writing_it_batch_by_batch_makes(
    batches: list[tuple[int, list[Row]]], interval: int
) -> None:
    log = Written()
    for codec, content in batches:
        log.write(content, codec=codec)
    second = compaction(log)
    second.begin_segment(0, interval)
    parts = []
    position = 0
    while position < len(log.data):
        consumed, part = second.clean(log.data[position : position + 1000])
        position += consumed
        parts.append(part)
    offsets, times, largest = second.end_segment()
    indexer = SegmentIndexer(OffsetIndex(0, growing=True), TimeIndex(0, growing=True))
    for info in walk_batches(b"".join(parts), check_crc=True)[0]:
        indexer.add(info.position, info.size, info.last_offset, info.max_timestamp, interval)
    indexer.complete()
    assert (offsets, times) == (indexer.offset_index.to_bytes(), indexer.time_index.to_bytes())
    assert largest == indexer.max_timestamp


def test_records_without_a_key_go_and_those_beyond_the_table_stay() -> None:
    log = Written()
    log.write([(None, b"0"), (b"a", b"1")])
    log.write([(b"a", b"2")])
    keys = dirty_keys(log)
    log.write([(b"a", b"3"), (None, b"4")])
    assert rows(compacted(log, keys=keys)) == [(2, b"a", b"2"), (3, b"a", b"3"), (4, None, b"4")]


def test_a_full_table_ends_the_pass_where_it_says() -> None:
    log = Written()
    for number in range(100):
        log.write([(b"%d" % number, b"old"), (b"%d" % number, b"new")])
    keys = DirtyKeys(
        start_offset=0,
        keys_max=200,
        memory_bytes=24 * 16,
        secret=SECRET,
        aborted=[],
        max_decompressed_bytes=LIMIT,
    )
    consumed, is_full = keys.add(log.data)
    assert is_full
    assert (len(keys), keys.memory_bytes, keys.latest_offset) == (12, 24 * 16, 23)
    batches = walk_batches(bytes(log.data), check_crc=False)[0]
    assert consumed == batches[12].position
    kept = rows(compacted(log, keys=keys))
    assert [offset for offset, _, _ in kept] == [*range(1, 24, 2), *range(24, 200)]


def test_a_tombstone_goes_when_its_time_is_over_and_not_before() -> None:
    log = Written()
    log.write([(b"a", b"1"), (b"b", b"1")])
    log.write([(b"a", None), (b"b", b"2")])
    first = compacted(log)
    assert rows(first) == [(2, b"a", None), (3, b"b", b"2")]
    (info,) = walk_batches(first, check_crc=True)[0]
    assert (info.has_delete_horizon, info.base_timestamp) == (True, NOW_MS + RETENTION_MS)
    assert [row[1] for row in all_rows(first)] == [100, 101], "the records keep their timestamps"

    log.data = bytearray(first)
    keys = dirty_keys(log, start=4)
    assert compacted(log, keys=keys, now_ms=NOW_MS + RETENTION_MS - 1) == first
    assert rows(compacted(log, keys=keys, now_ms=NOW_MS + RETENTION_MS)) == [(3, b"b", b"2")]


def test_the_last_batch_of_a_live_producer_stays_without_its_records() -> None:
    log = Written()
    log.write([(b"a", b"1")], producer_id=5, producer_epoch=3, base_sequence=0)
    log.write([(b"a", b"2")], producer_id=5, producer_epoch=3, base_sequence=1)
    log.write([(b"a", b"3")])
    data = compacted(log, last_batches={5: (1, 3)})
    infos = walk_batches(data, check_crc=True)[0]
    assert [(info.base_offset, info.record_count, info.producer_id, info.last_sequence) for info in infos] == [
        (1, 0, 5, 1),
        (2, 1, -1, -1),
    ]
    assert rows(data) == [(2, b"a", b"3")]


def test_the_last_batch_of_the_pass_stays_so_that_the_log_does_not_end_before_it() -> None:
    log = Written()
    log.write([(b"a", b"1")])
    log.write([(b"b", b"1"), (None, b"no key")])
    log.write([(b"b", b"2")])
    keys = dirty_keys(log)
    data = compacted(log, keys=keys, end_offset=3)
    assert [(info.last_offset, info.record_count) for info in walk_batches(data, check_crc=True)[0]] == [
        (0, 1),
        (2, 0),
        (3, 1),
    ]


def test_aborted_records_go_and_neither_replace_others_nor_leave_their_marker_for_good() -> None:
    log = Written()
    log.write([(b"a", b"1")])
    log.write([(b"a", b"aborted")], producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.mark(ControlRecordType.ABORT, 9)
    aborted = [(9, 1)]
    first = compaction(log, aborted=aborted)
    _, data = first.clean(log.data)
    assert [row[0] for row in all_rows(data)] == [0, 2], "the marker stays while its transaction was there"
    assert first.aborted_kept == [0]

    log.data = bytearray(data)
    second = compaction(log, dirty_keys(log, start=3, aborted=aborted), aborted=aborted)
    _, data = second.clean(log.data)
    assert [row[0] for row in all_rows(data)] == [0, 2], "and until its horizon, which begins now"
    assert second.aborted_kept == []

    log.data = bytearray(data)
    keys = dirty_keys(log, start=3)
    assert [row[0] for row in all_rows(compacted(log, keys=keys, now_ms=NOW_MS + RETENTION_MS))] == [0]


def test_committed_records_are_like_any_others_and_their_marker_stays_until_they_are_gone() -> None:
    log = Written()
    log.write([(b"a", b"1")], producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.mark(ControlRecordType.COMMIT, 9)
    data = compacted(log)
    assert data == bytes(log.data)
    log.write([(b"a", b"2")])
    data = compacted(log)
    assert [row[0] for row in all_rows(data)] == [1, 2]
    log.data = bytearray(data)
    keys = dirty_keys(log, start=3)
    data = compacted(log, keys=keys)
    marker = walk_batches(data, check_crc=True)[0][0]
    assert (marker.is_control, marker.has_delete_horizon) == (True, True)
    log.data = bytearray(data)
    assert [row[0] for row in all_rows(compacted(log, keys=keys, now_ms=NOW_MS + RETENTION_MS))] == [2]


def test_damage_is_said_and_so_is_a_bomb() -> None:
    log = Written()
    log.write([(b"a", bytes(100_000))], codec=4)
    small = DirtyKeys(
        start_offset=0, keys_max=1, memory_bytes=100, secret=SECRET, aborted=[], max_decompressed_bytes=1000
    )
    with pytest.raises(DecompressionLimitError):
        small.add(log.data)
    log.data[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        dirty_keys(log)
    with pytest.raises(ValueError, match="16 bytes"):
        DirtyKeys(start_offset=0, keys_max=1, memory_bytes=1, secret=b"short", aborted=[], max_decompressed_bytes=1)


def test_a_large_table_is_made_without_touching_its_memory() -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    before = resident_bytes()
    keys = DirtyKeys(
        start_offset=0,
        keys_max=1 << 40,
        memory_bytes=256 << 20,
        secret=SECRET,
        aborted=[],
        max_decompressed_bytes=LIMIT,
    )
    assert keys.memory_bytes > 255 << 20
    assert resident_bytes() - before < 64 << 20
