"""A stream and its journal: what is read again is what was, and entries that are only in the log are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.redis import pending_rows, stream_index
from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.deletion import delete
from ottla.gateways.redis.listpack import element_bytes, entry_bytes, node_bytes
from ottla.gateways.redis.stream import NodeLimits, NodeMissingError, Stream
from ottla.gateways.redis.stream_id import id_bytes
from ottla.gateways.redis.stream_records import (
    Assigned,
    Began,
    ConsumerDeleted,
    Ended,
    GroupDestroyed,
    GroupSet,
    Released,
    Snapshot,
)
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


GROUP_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(("assign", "assign", "free", "release", "leave", "destroy", "make", "slice", "slice")),
        st.sampled_from((b"g", b"h")),
        st.sampled_from((b"a", b"b", b"c")),
        st.integers(1, 12),
    ),
    max_size=60,
)


def change_groups(live: Stream, kind: str, group: bytes, consumer: bytes, entry_id: int) -> None:
    if kind == "make":
        live.mark(0, GroupSet(group, id_bytes(entry_id), 0))
    elif group not in live.groups:
        return
    elif kind in ("assign", "free"):
        owner = consumer if kind == "assign" else None
        live.mark(0, Assigned(group, owner, entry_id, entry_id, [id_bytes(entry_id)], [entry_id]))
    elif kind == "release":
        live.mark(0, Released(group, [id_bytes(entry_id)]))
    elif kind == "leave":
        live.mark(0, ConsumerDeleted(group, consumer))
    elif kind == "destroy":
        live.mark(0, GroupDestroyed(group))


@given(GROUP_CHANGES, GROUP_CHANGES)
def test_what_changes_while_a_snapshot_is_prepared_is_in_it(
    changes: list[tuple[str, bytes, bytes, int]], rest: list[tuple[str, bytes, bytes, int]]
) -> None:
    def held(each: Stream) -> list[object]:
        return [
            (
                group.last_id,
                {name: (one.seen_ms, one.active_ms, one.pending_count) for name, one in group.consumers.items()},
                [
                    (at, None if one.consumer is None else one.consumer.name, one.count, one.delivered_ms)
                    for at, one in group.pending_from(0, 99)
                ],
                group.unowned_count,
            )
            for _, group in sorted(each.groups.items())
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending_rows, "SLICE", 2)
        live = begun()
        live.mark(0, GroupSet(b"h", id_bytes(0), 0))
        for entry_id in range(1, 10):
            live.mark(0, Assigned(b"g", b"a", 1, 2, [id_bytes(entry_id)], [1]))
        prepared = Prepared(live, 0)
        slices = prepared.slices(0)
        for each in changes:
            if each[0] == "slice":
                next(slices, None)
            change_groups(live, *each)
        list(slices)
        for each in rest:
            change_groups(live, *each)
        write(live, prepared, 0, 0, cleans=True)
        prepared.end()
    again = read_again(live.journal[len(live.journal) - snapshot_size(live) :])
    assert held(again) == held(live)
    assert all(group.touched is None for group in live.groups.values())


def snapshot_size(live: Stream) -> int:
    """How many records at the end of the journal are the snapshot."""
    for count, record in enumerate(reversed(live.journal), 1):
        assert isinstance(record, tuple)
        if isinstance(records.decode_mark(record[2]), Snapshot):
            return count
    raise AssertionError("there is none")


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
        data = b"" if live.is_anew else data
        some = None if live.is_anew else list(live.changed)
        data += stream_index.part_of(live, len(live.journal), 0, some, Prepared(live, 0).groups())
        live.changed.clear()
        live.gone.clear()
        live.is_anew = False
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
    data = stream_index.part_of(live, 9, 3, list(live.changed), Prepared(live, 0).groups())
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
    found = stream_index.read_parts(
        stream_index.part_of(live, len(live.journal), 0, list(live.changed), Prepared(live, 0).groups())
    )
    assert found is not None
    again = stream()
    list(stream_index.restore(again, *found[:2]))
    assert told(again) == told(live)
    assert again.length == 1
