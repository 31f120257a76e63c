"""Nodes of both kinds that take turns are read from the log in a few goes, from either end."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from ottla.gateways.redis.adopted_records import Run
from ottla.gateways.redis.stream import NodeLimits, NodeMissingError, Stream
from ottla.gateways.redis.stream_id import ID_MAX
from ottla.gateways.redis.stream_log import READ_BYTES, StreamLog


@pytest.mark.parametrize("is_reverse", [False, True])
@pytest.mark.parametrize("kinds", [1, 2])
def test_nodes_that_take_turns_are_read_together(kinds: int, *, is_reverse: bool) -> None:
    stream = Stream(NodeLimits(), lambda _: None)
    for number in range(1, 201):
        if number % kinds:
            stream.adopt(Run(number, 1, number), 100, begins=True)
        else:
            stream.load_entry(number, number, begins=True)
            stream.nodes[-1].size = 100
    log = StreamLog(stream, "s", Mock(), Mock())
    reads = 0
    while (index := first_missing(stream, is_reverse=is_reverse)) is not None:
        reads += 1
        found = log._neighbours(index, READ_BYTES)
        assert stream.nodes[index] in found
        assert [node.first_id for node in found] == sorted(node.first_id for node in found)
        for node in found:
            node.entries = {node.first_id: [b"f", b"v"]}
    assert reads <= 4


def first_missing(stream: Stream, *, is_reverse: bool) -> int | None:
    """The node that a command lacks which goes through all entries."""
    try:
        assert len(list(stream.reverse_range(0, ID_MAX) if is_reverse else stream.range(0, ID_MAX))) == 200
    except NodeMissingError as missing:
        return missing.index
    return None
