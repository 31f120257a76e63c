"""The nodes of a stream: a list, most of which are no objects."""

from __future__ import annotations

import gc
from unittest.mock import patch
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import decode

from ottla.gateways.redis import node_list
from ottla.gateways.redis.node import Node
from ottla.gateways.redis.node_list import NodeList
from ottla.gateways.redis.stream_id import id_bytes
from ottla.gateways.redis.stream_rows import Row, encoded, node_of


def node(first_id: int, last_id: int = 0) -> Node:
    """One that is on disk, and only there."""
    made = Node(first_id, first_id % 1000)
    made.last_id = made.written_id = last_id or first_id
    made.count, made.size, made.entries = 1 + first_id % 7, 40, None
    return made


def told(nodes: NodeList | list[Node]) -> list[tuple[object, ...]]:
    return [
        (each.first_id, each.last_id, each.count, each.deleted, each.offset, each.size, each.floor) for each in nodes
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from(("add", "add", "settle", "pop", "some", "first", "remove")), st.integers(0, 99)),
        max_size=60,
    )
)
def test_it_is_as_a_list_of_nodes(steps: list[tuple[str, int]]) -> None:
    with patch.object(node_list, "_BLOCK", 2), patch.object(node_list, "_SINGLY_MAX", 1):
        _do(steps)


def _do(steps: list[tuple[str, int]]) -> None:
    nodes, plain, last_id = NodeList(set()), [], 0
    for kind, number in steps:
        at = number % len(plain) if plain else 0
        if kind == "add":
            last_id += 1 + (number << 62)
            nodes.append(node(last_id, last_id + 3))
            plain.append(node(last_id, last_id + 3))
            last_id += 3
        elif kind == "settle":
            nodes.settle_all(list(nodes))
        elif plain and kind == "pop":
            nodes.remove_all([nodes[at]])
            del plain[at]
        elif plain and kind == "some":
            going = [index for index in range(len(plain)) if (number * 7 + index) % 3]
            nodes.remove_all([nodes[index] for index in going])
            plain = [each for index, each in enumerate(plain) if index not in going]
        elif plain and kind == "first":
            nodes.drop_first(at)
            del plain[:at]
        elif plain:
            for each in (nodes.take(at), plain[at]):
                each.remove(each.first_id)
        assert told(nodes) == told(plain)
        assert told(nodes[1:-1]) == told(plain[1:-1])
        for wanted in (number, last_id, *(each.first_id + 1 for each in plain)):
            assert nodes.end_of(wanted) == sum(each.first_id <= wanted for each in plain)
        assert [nodes.entries_from(each) for each in range(len(plain) + 1)] == [
            sum(each.count for each in plain[begin:]) for begin in range(len(plain) + 1)
        ]
        for most in (number, 9 * number):
            index, total = nodes.whole_within(most)
            assert total == sum(each.count for each in plain[:index]) <= most
            assert index + 2 > len(plain) or total + sum(each.count for each in plain[index : index + 2]) > most
            assert nodes.whole_within(most, at)[0] <= at
        assert nodes.size_bytes(9) == sum(each.size or 9 for each in plain)


def test_a_node_is_one_object_for_as_long_as_somebody_has_it_and_none_when_nobody_does() -> None:
    nodes = NodeList(set())
    for first_id in (5, 10, 15):
        nodes.append(node(first_id))
    nodes.settle_all(list(nodes))
    held = nodes[1]
    assert nodes[1] is held
    seen = ref(held)
    del held
    gc.collect()
    assert seen() is None
    assert nodes[1].last_id == 10
    assert nodes.live == [nodes[2]], "the last one grows"


@pytest.mark.parametrize("what", ["entries", "removed", "unwritten", "changed", "grows"])
def test_a_node_stays_for_which_there_is_more_to_say(what: str) -> None:
    changed: set[Node] = set()
    nodes, one = NodeList(changed), node(5)
    nodes.append(one)
    nodes.append(node(10))
    if what == "entries":
        one.entries = {5: [b"f", b"v"]}
    elif what == "removed":
        one.removed = {6}
    elif what == "unwritten":
        one.written_id = 3
    elif what == "changed":
        changed.add(one)
    else:
        one.grows = True
    nodes.settle(one)
    assert nodes.live[0] is one


def test_a_node_whose_entries_are_let_go_of_is_settled() -> None:
    nodes, one = NodeList(set()), node(5)
    nodes.append(one)
    nodes.append(node(10))
    one.entries = {5: [b"f", b"v"]}
    one.forget_entries()
    assert one not in nodes.live


def row(first_id: int, count: int = 1, *removed: int) -> Row:
    ids = tuple(map(id_bytes, removed))
    return id_bytes(first_id), id_bytes(first_id + 2), count, len(removed), 40, 7, bytes(16), ids, b""


@given(
    st.lists(st.tuples(st.dictionaries(st.integers(0, 30), st.integers(1, 5)), st.sets(st.integers(0, 30))), max_size=5)
)
def test_rows_that_come_later_stand_for_earlier_ones(parts: list[tuple[dict[int, int], set[int]]]) -> None:
    nodes, known = NodeList(set()), {}
    for found, gone in parts:
        for number in gone:
            nodes.discard(number << 63)
            known.pop(number << 63, None)
        rows = [row(number << 63, count, *((1,) if count == 5 else ())) for number, count in sorted(found.items())]
        nodes.merge_rows(rows, node_of)
        known |= {number << 63: count for number, count in found.items()}
    nodes.compact()
    assert nodes.entries_from(0) == sum(known.values())
    nodes.serve(set())
    assert nodes.entries_from(0) == sum(known.values())
    assert [(each.first_id, each.count, each.removed) for each in nodes] == [
        (first_id, count, {1} if count == 5 else None) for first_id, count in sorted(known.items())
    ]
    again = NodeList(set())
    again.merge_rows([decode(each, type=Row) for each in nodes.encoded_rows(encoded)], node_of)
    assert told(again) == told(nodes)
