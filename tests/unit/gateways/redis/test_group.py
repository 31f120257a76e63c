"""What a group has pending is found by consumer, and what XREADGROUP claims no further than it is asked for."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.redis.group import Group
from ottla.gateways.redis.group_commands import _idle


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from((b"a", b"b", None)), st.integers(0, 9))))
def test_what_consumers_have_is_what_is_pending(changes: list[tuple[int, bytes | None, int]]) -> None:
    group = Group(b"g", 0, 0)
    for kind, name, entry_id in changes:
        if kind == 0:
            group.release(entry_id)
        elif kind == 1 and name is not None:
            group.remove_consumer(name)
        else:
            group.assign(entry_id, None if name is None else group.add_consumer(name, 0), 0, 1)
        owners = {at: each.consumer for at, each in group.pending.items()}
        for consumer in group.consumers.values():
            held = sorted(at for at, owner in owners.items() if owner is consumer)
            assert [at for at, _ in group.held_from(consumer, 0, 9)] == held
            assert consumer.pending_count == len(held)
        assert group.unowned_count == list(owners.values()).count(None)
        assert [at for at, _ in group.pending_from(0, 9)] == sorted(owners)


def test_entries_that_are_not_claimed_are_not_looked_at() -> None:
    group = Group(b"g", 0, 0)
    consumer = group.add_consumer(b"a", 0)
    for entry_id, delivered_ms in ((1, 30), (2, 20), (3, 10), (4, 95)):
        group.assign(entry_id, consumer, delivered_ms, 1)
    group.assign(5, None, 0, 7)
    stream: Any = Mock()
    stream.get.side_effect = lambda entry_id: None if entry_id == 3 else [b"f", b"v"]
    session: Any = Mock(now_ms=100)
    idle = _idle(session, stream, group, 10)
    assert next(idle) == (5, [b"f", b"v"], 100, 7)
    assert next(idle) == (2, [b"f", b"v"], 80, 1)
    assert [each.args[0] for each in stream.get.call_args_list] == [5, 3, 2]
    assert list(idle) == [(1, [b"f", b"v"], 70, 1)]
