"""A stream and its journal: what is read again is what was, and entries that are only in the log are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.redis import stream_index
from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.deletion import delete
from ottla.gateways.redis.listpack import element_bytes, entry_bytes, node_bytes
from ottla.gateways.redis.stream import NodeLimits, NodeMissingError, Stream
from ottla.gateways.redis.stream_id import id_bytes
from ottla.gateways.redis.stream_records import Assigned, Began, Ended, GroupSet, Snapshot
from ottla.gateways.redis.stream_snapshot import Prepared, SnapshotReader, write
from ottla.gateways.redis.trimming import Options, trim


def stream() -> Stream:
    return Stream(NodeLimits(bytes_max=4096, entries_max=5), lambda _: None)


def read_again(
    journal: Sequence[records.Journaled], before: Stream | None = None, start: int = 0, *, is_partial: bool = False
) -> Stream:
    """The stream of a log, or what the rest of one makes of it."""
    made = before or stream()
    snapshots = SnapshotReader(made)
    for offset, record in enumerate(journal, start):
        assert isinstance(record, tuple)
        _, _, value, headers = record
        header = records.kind_of(headers)
        assert header is not None
        entry_id = records.entry_id_of(header)
        if entry_id is None:
            mark = records.decode_mark(value)
            if isinstance(mark, Snapshot):
                snapshots.begin(mark)
            elif snapshots.is_reading:
                snapshots.take(mark)
                if snapshots.is_whole:
                    list(snapshots.slices())
            else:
                try:
                    made.apply_mark(mark)
                except KeyError:
                    assert is_partial, "groups that are not known before the snapshot"
        else:
            snapshots.give_up()
            made.load_entry(entry_id, offset, begins=header[:1] == records.NODE)
    return made


def told(each: Stream) -> tuple[object, ...]:
    nodes = [(node.first_id, node.last_id, node.count, node.deleted) for node in each.nodes]
    groups = [
        (
            group.name,
            group.last_id,
            group.entries_read,
            [(at, row.count) for at, row in group.pending_from(0, 1 << 128)],
        )
        for group in each.groups.values()
    ]
    return each.length, each.last_id, each.max_deleted_id, each.entries_added, nodes, groups, each.key


def written(live: Stream) -> None:
    """Have all entries be in the log, where the journal has them."""
    live.unwritten.clear()
    starts = {}
    for offset, record in enumerate(live.journal):
        assert isinstance(record, tuple)
        header = records.kind_of(record[3])
        if header is not None and header[:1] == records.NODE:
            starts[records.entry_id_of(header)] = offset
    for node in live.nodes:
        node.offset = starts[node.first_id]
        node.written_id = node.last_id


CHANGES = st.lists(st.tuples(st.sampled_from(("add", "add", "add", "delete", "trim")), st.integers(0, 30)), max_size=40)


def change(live: Stream, changes: list[tuple[str, int]]) -> None:
    for kind, number in changes:
        if kind == "add":
            live.append(live.last_id + 1 + number % 3, [b"f", b"v"], 0)
            live.mark(0, Assigned(b"g", b"c", 0, 0, [id_bytes(live.last_id)], [1]))
        elif kind == "delete" and live.get(number) is not None:
            delete(live, [number], 0)
        elif kind == "trim":
            trim(live, Options(length_max=number, is_approximate=bool(number % 2)), 0)


def begun() -> Stream:
    live = stream()
    live.mark(0, Began(0, b"s"))
    live.mark(0, GroupSet(b"g", id_bytes(0), 0))
    return live


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 3)),
            st.tuples(st.just("delete"), st.integers(0, 40)),
            st.tuples(st.just("trim"), st.integers(0, 30)),
            st.tuples(st.just("keep"), st.just(0)),
        ),
        max_size=60,
    )
)
def test_the_journal_read_again_gives_the_same_stream(changes: list[tuple[str, int]]) -> None:
    live = stream()
    live.mark(0, Began(0, b"s"))
    live.mark(0, GroupSet(b"g", id_bytes(0), 0))
    for kind, number in changes:
        if kind == "add":
            live.append(live.last_id + 1 + number, [b"f", b"v" * number], 0)
            live.mark(0, Assigned(b"g", b"c", 0, 0, [id_bytes(live.last_id)], [1]))
        elif kind == "delete" and live.get(number) is not None:
            delete(live, [number], 0)
        elif kind == "trim":
            trim(live, Options(length_max=number, is_approximate=bool(number % 2)), 0)
        elif kind == "keep":
            written(live)
            write(live, Prepared(live, 0), 0, 0, cleans=True)
    assert told(read_again(live.journal)) == told(live)


@given(CHANGES, CHANGES, st.integers(0, 200))
def test_what_lies_before_a_snapshot_is_not_needed_but_for_the_entries_it_has(
    before: list[tuple[str, int]], after: list[tuple[str, int]], cleaned_to: int
) -> None:
    live = begun()
    change(live, before)
    written(live)
    at = len(live.journal)
    write(live, Prepared(live, 0), 0, 0, cleans=True)
    nodes = {node.first_id: node for node in live.nodes}
    there = {entry_id for index in range(len(nodes)) for entry_id in live.entries_at(index)}
    change(live, after)
    log = [
        record
        for offset, record in enumerate(live.journal)
        if offset >= min(at, cleaned_to) or (records.entry_id_of(records.kind_of(record[3]) or b"") or 0) in there
    ]
    assert told(read_again(log, is_partial=True)) == told(live)


def test_a_snapshot_that_was_not_written_as_a_whole_counts_for_nothing() -> None:
    live = begun()
    change(live, [("add", 0)] * 12)
    written(live)
    at = len(live.journal)
    write(live, Prepared(live, 0), 0, 0, cleans=True)
    assert len(live.journal) > at + 2
    del live.journal[-1]
    change(live, [("add", 0), ("delete", 2)])
    assert told(read_again(live.journal)) == told(live)


def test_entries_that_are_only_in_the_log_are_asked_for_before_anything_changes() -> None:
    live = stream()
    for number in range(1, 13):
        live.append(number, [b"f", b"v"], 0)
    live.nodes[0].entries = None
    before = told(live)
    with pytest.raises(NodeMissingError) as missing:
        trim(live, Options(length_max=10), 0)
    assert missing.value.index == 0
    assert told(live) == before
    assert trim(live, Options(length_max=7), 0) == 5, "a whole node goes unseen"


def test_sizes_are_those_of_listpacks() -> None:
    assert [element_bytes(each) for each in (b"", b"0", b"127", b"128", b"-1", b"00", b"x" * 63, b"x" * 64)] == [
        2,
        2,
        2,
        3,
        3,
        4,
        65,
        67,
    ]
    assert node_bytes([b"f"]) + entry_bytes([b"f", b"1"], (0, 0), same_names=True) == 28


@given(st.lists(CHANGES, min_size=1, max_size=4), CHANGES, st.integers(0, 3))
def test_the_index_and_the_rest_of_the_log_give_the_same_stream(
    rounds: list[list[tuple[str, int]]], rest: list[tuple[str, int]], torn: int
) -> None:
    live, data = begun(), b""
    for changes in rounds:
        change(live, changes)
        written(live)
        data += stream_index.part_of(live, len(live.journal), 0, list(live.changed), 0)
        live.changed.clear()
        live.gone.clear()
    change(live, rest)
    found = stream_index.read_parts(data + bytes(torn))
    assert found is not None
    part, nodes, is_whole = found
    assert is_whole is not bool(torn)
    again = stream()
    list(stream_index.restore(again, part, nodes))
    read_again(live.journal[part.end_offset :], again, part.end_offset)
    assert told(again) == told(live)


@given(CHANGES, CHANGES)
def test_a_log_may_begin_at_the_first_entry_once_a_snapshot_follows(
    changes: list[tuple[str, int]], rest: list[tuple[str, int]]
) -> None:
    live = begun()
    change(live, changes)
    written(live)
    start = live.nodes[0].offset if live.nodes else len(live.journal)
    write(live, Prepared(live, 0), 0, 0, cleans=True)
    change(live, rest)
    again = read_again(live.journal[start:], None, start, is_partial=True)
    assert told(again) == told(live)


def test_an_index_that_is_no_index_says_nothing() -> None:
    live = begun()
    change(live, [("add", 1)] * 12)
    written(live)
    data = stream_index.part_of(live, 9, 3, list(live.changed), 0)
    assert stream_index.read_parts(b"") is None
    for at in range(len(data)):
        broken = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
        assert stream_index.read_parts(broken) is None


def test_a_stream_that_is_deleted_and_made_again_with_the_same_ids_is_in_the_index() -> None:
    live = begun()
    live.append(1, [b"f", b"v"], 0)
    written(live)
    live.mark(0, Ended())
    live.mark(0, Began(0, b"s"))
    live.append(1, [b"f", b"v"], 0)
    written(live)
    found = stream_index.read_parts(stream_index.part_of(live, len(live.journal), 0, list(live.changed), 0))
    assert found is not None
    again = stream()
    list(stream_index.restore(again, *found[:2]))
    assert told(again) == told(live)
    assert again.length == 1
