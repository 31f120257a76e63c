"""Batches with nothing but the records that somebody was given: what is left is what it was, and readable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.native import build_batch, decode_records, pick_records, walk_batches

SIZES = st.lists(st.tuples(st.integers(1, 12), st.sampled_from([0, 0, 4])), min_size=1, max_size=5)


def log_of(sizes: list[tuple[int, int]]) -> tuple[bytes, list[int]]:
    """Batches of so many records with each codec, and where each of them ends."""
    data, at, ends = b"", 0, []
    for size, codec in sizes:
        records = [(1_000 + at + each, b"k%d" % each, b"v" * (at + each), [("h", b"x")]) for each in range(size)]
        data += build_batch(records, base_offset=at, codec=codec, producer_id=7, producer_epoch=1, base_sequence=at)
        at += size
        ends.append(len(data))
    return data, ends


@given(SIZES, st.data())
def test_what_is_wanted_is_there_as_it_was_and_batches_keep_their_place(
    sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    log, ends = log_of(sizes)
    infos, _, _ = walk_batches(log, check_crc=True)
    offsets = range(infos[-1].last_offset + 1)
    wanted = sorted(data.draw(st.sets(st.sampled_from(offsets), min_size=1)))
    used = [info for info in infos if any(info.base_offset <= each <= info.last_offset for each in wanted)]
    parts = [(info.position, ends[infos.index(info)]) for info in used]
    picked = pick_records(log, parts, [(each, each) for each in wanted])
    everything = {record[0]: record for record in decode_records(log, max_decompressed_bytes=1 << 20)}
    found = decode_records(picked, max_decompressed_bytes=1 << 20)
    assert all(everything[record[0]] == record for record in found)
    assert {record[0] for record in found} >= set(wanted)
    after, _, malformed = walk_batches(picked, check_crc=True)
    assert malformed is None
    for info, before in zip(after, used, strict=True):
        kept = sum(before.base_offset <= each <= before.last_offset for each in wanted)
        same = (
            "base_offset",
            "last_offset",
            "base_timestamp",
            "max_timestamp",
            "producer_id",
            "base_sequence",
            "codec",
        )
        assert all(getattr(info, name) == getattr(before, name) for name in same)
        is_whole = before.codec or kept * 2 > before.record_count
        assert info.record_count == (before.record_count if is_whole else kept)


def test_a_batch_whose_bytes_are_not_what_they_were_stays_as_it_is_for_the_reader_to_see() -> None:
    log = bytearray(log_of([(9, 0)])[0])
    log[-5] ^= 1
    assert pick_records(bytes(log), [(0, len(log))], [(2, 2)]) == bytes(log)


def test_a_batch_without_a_record_at_the_offset_stays_whole() -> None:
    log = bytes(build_batch([(0, None, b"v", [])] * 3, offsets=[0, 8, 9]))
    assert pick_records(log, [(0, len(log))], [(4, 4)]) == log
    assert [
        record[0] for record in decode_records(pick_records(log, [(0, len(log))], [(8, 8)]), max_decompressed_bytes=9)
    ] == [8]


def test_parts_that_are_no_batches_give_nothing() -> None:
    assert pick_records(b"x" * 70, [(0, 70), (50, 900), (9, 3)], [(0, 9)]) == b""
