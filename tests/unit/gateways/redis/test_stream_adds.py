"""Runs of XADD: what the kernel makes of them is what single commands make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.redis import reply, stream_records
from ottla.gateways.redis.command_reader import Command, CommandReader
from ottla.gateways.redis.stream import NodeLimits, NodeMissingError, Stream
from ottla.gateways.redis.stream_id import ID_MAX, id_text
from ottla.gateways.redis.stream_rows import encoded_row
from ottla.native import StreamAdds, build_stream_batch, decode_records
from tests.redis_client import encoded

TEXTS = st.one_of(
    st.binary(max_size=6),
    st.integers(-(1 << 65), 1 << 65).map(lambda value: b"%d" % value),
    st.sampled_from((b"-0", b"007", b"x" * 63, b"x" * 64, b"x" * 300, b"1\r\n")),
)
ENTRIES = st.lists(st.lists(TEXTS, min_size=2, max_size=40).map(lambda all_: all_[: len(all_) // 2 * 2]), max_size=12)


def commands_of(data: bytes) -> list[Command]:
    reader = CommandReader(bulk_bytes_max=1 << 20, command_bytes_max=1 << 20)
    reader.feed(data)
    return reader.commands()


def stream(limits: NodeLimits) -> Stream:
    return Stream(limits, lambda _: None)


def told(each: Stream) -> tuple[object, ...]:
    nodes = [
        (node.first_id, node.last_id, node.count, node.size, node.names, node.entries, node.journal_index, node.grows)
        for node in each.nodes
    ]
    return each.first_id, each.last_id, each.length, each.entries_added, each.version, nodes


@given(
    st.lists(st.tuples(st.sampled_from((1, 5, 6)), ENTRIES), max_size=4),
    st.sampled_from(((4096, 3), (200, 100), (0, 0), (60, -1))),
)
def test_a_run_of_entries_is_as_if_each_had_been_added_by_itself(
    rounds: list[tuple[int, list[list[bytes]]]], limits: tuple[int, int]
) -> None:
    single, together = stream(NodeLimits(*limits)), stream(NodeLimits(*limits))
    for now_ms, entries in rounds:
        if not entries:
            continue
        (found,) = commands_of(b"".join(encoded((b"xAdd", b"s", b"*", *each)) for each in entries))
        assert isinstance(found, StreamAdds)
        assert (found.key, len(found)) == (b"s", len(entries))
        expected = b""
        for fields in entries:
            entry_id = max(now_ms << 64, single.last_id + 1)
            single.append(entry_id, fields, now_ms)
            expected += reply.bulk(id_text(entry_id))
        assert together.append_all(found, now_ms) == expected
        assert told(together) == told(single)
    if single.journal:
        one, other = (
            decode_records(build_stream_batch(each.take_journal()), max_decompressed_bytes=0)
            for each in (single, together)
        )
        assert one == other


def test_runs_end_where_the_key_changes_and_where_other_commands_are() -> None:
    add, other = (b"XADD", b"s", b"*", b"f", b"v"), (b"XADD", b"t", b"*", b"f", b"v")
    rest = [(b"XADD", b"t", b"5-*", b"f", b"v"), (b"XADD", b"t", b"*", b"f"), (b"XLEN", b"s")]
    found = commands_of(b"".join(map(encoded, (add, add, other, *rest, add))))
    shown = [each.commands() if isinstance(each, StreamAdds) else each for each in found]
    assert shown == [[list(add)] * 2, [list(other)], *map(list, rest), [list(add)]]


def test_nothing_is_added_where_there_are_not_enough_ids_or_the_last_node_is_not_in_memory() -> None:
    each = stream(NodeLimits())
    each.append(ID_MAX - 1, [b"f", b"v"], 0)
    (found,) = commands_of(encoded((b"XADD", b"s", b"*", b"f", b"v")) * 2)
    assert isinstance(found, StreamAdds)
    before = told(each)
    assert each.append_all(found, 0) is None
    assert told(each) == before
    each.nodes[-1].entries = None
    with pytest.raises(NodeMissingError):
        each.append_all(found, 0)


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_stream_batch([])
    assert stream_records.entry(1, [b"f", b"v"], 0, begins_node=True)


def test_a_snapshot_has_what_was_added_to_its_last_node_while_it_was_prepared() -> None:
    each = stream(NodeLimits())
    each.append(1, [b"f", b"v"], 0)
    each.nodes[-1].offset, each.nodes[-1].written_id = 0, 1
    before = encoded_row(each.nodes[-1], 0)
    (found,) = commands_of(encoded((b"XADD", b"s", b"*", b"f", b"v")) * 2)
    assert isinstance(found, StreamAdds)
    each.append_all(found, 0)
    assert encoded_row(each.nodes[-1], 0) != before
