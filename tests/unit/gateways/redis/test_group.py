"""What a group has pending is found by consumer, and what XREADGROUP claims no further than it is asked for."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.redis.group import Group
from ottla.gateways.redis.group_commands import _Before, _Plan, _plan_claims
from ottla.gateways.redis.read_commands import ReadOptions, Room


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


_TIMES = st.tuples(st.sampled_from(("assign", "release", "remove")), st.sampled_from((b"a", b"b", None)))


@given(st.lists(st.tuples(_TIMES, st.integers(0, 9), st.integers(0, 30))), st.integers(0, 30), st.booleans())
def test_the_oldest_delivery_comes_first(
    changes: list[tuple[tuple[str, bytes | None], int, int]], latest_ms: int, is_large: bool
) -> None:
    group = Group(b"g", 0, 0)
    group.assign(1, None, 0, 1)
    for at, ((kind, name), entry_id, delivered_ms) in enumerate(changes):
        if is_large and at == len(changes) // 2:
            assert len(list(group.sort_by_time(1))) in (0, len(group.pending))
        if kind == "assign":
            group.assign(entry_id, None if name is None else group.add_consumer(name, 0), delivered_ms, 1)
        elif kind == "release":
            group.release(entry_id)
        elif name is not None:
            group.remove_consumer(name)
    rows = [(each.consumer is not None, each.delivered_ms, at) for at, each in group.pending.items()]
    wanted = [at for is_owned, delivered_ms, at in sorted(rows) if not is_owned or delivered_ms <= latest_ms]
    assert [at for at, _ in group.by_time(latest_ms)] == wanted


def test_a_group_that_is_gone_is_let_go_of_bit_by_bit() -> None:
    group = Group(b"g", 0, 0)
    for entry_id in range(50_000):
        group.assign(entry_id, group.add_consumer(b"a", 0), 0, 1)
    for _ in group.sort_by_time(10_000):
        pass
    sizes = [len(group.pending) for _ in group.dismantle()]
    assert sizes[:3] == [30_000, 10_000, 0]
    assert list(group.by_time(9)) == []


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from((b"a", b"b", None)), st.lists(st.integers(0, 9), max_size=5))),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_several_at_a_time_are_as_one_by_one(
    changes: list[tuple[bool, bytes | None, list[int]]], is_told: bool, is_noted: bool, is_sorted: bool
) -> None:
    def shown(group: Group) -> Any:
        owners = [(at, each.consumer and each.consumer.name, each.count) for at, each in group.pending_from(0, 9)]
        held = [(each.name, [at for at, _ in group.held_from(each, 0, 9)]) for each in group.consumers.values()]
        by_time = [at for at, _ in group.by_time(99)]
        return owners, held, group.unowned_count, group.touched, by_time

    singly, together = Group(b"g", 0, 0), Group(b"g", 0, 0)
    told: list[list[int]] = [[], []]
    for index, group in enumerate((singly, together)):
        group.on_pending = told[index].append if is_told else None
        group.touched = set() if is_noted else None
        if is_sorted:
            group.assign(50, None, 0, 1)
            group.assign(51, None, 0, 1)
            for _ in group.sort_by_time(1):
                pass
    for is_coming, name, ids in changes:
        counts = list(range(len(ids)))
        if is_coming:
            for entry_id, count in zip(ids, counts, strict=True):
                singly.assign(entry_id, None if name is None else singly.add_consumer(name, 0), 0, count)
            together.assign_all(ids, None if name is None else together.add_consumer(name, 0), 0, counts)
        else:
            for entry_id in ids:
                singly.release(entry_id)
            together.release_all(ids)
        if not ids and name is not None:
            singly.add_consumer(name, 0)
            together.add_consumer(name, 0)
        assert shown(together) == shown(singly)
    assert told[1] == told[0]


def test_entries_that_are_not_claimed_are_not_looked_at() -> None:
    group = Group(b"g", 0, 0)
    consumer = group.add_consumer(b"a", 0)
    for entry_id, delivered_ms in ((1, 30), (2, 20), (3, 10), (4, 95)):
        group.assign(entry_id, consumer, delivered_ms, 1)
    group.assign(5, None, 0, 7)
    stream: Any = Mock()
    stream.get.side_effect = lambda entry_id: None if entry_id == 3 else [b"f", b"v"]
    plan, options = _Plan(), ReadOptions()
    for _ in _plan_claims(plan, 2, Room(options), stream, group, 100, 10, _Before(group)):
        pass
    assert plan.claimed == [(5, [b"f", b"v"], 100, 7), (2, [b"f", b"v"], 80, 1)]
    assert [each.args[0] for each in stream.get.call_args_list] == [5, 3, 2]
