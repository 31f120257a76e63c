"""The ledger remembers exactly the offsets that are done, in as few ranges as that takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.pipelines.dead_letters import ledger
from ottla.pipelines.dead_letters.ledger import Done, LedgerError, key_of, newest_values

_RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), max_size=12)


@given(_RANGES, st.integers(0, 45))
def test_what_is_done_is_what_was_added_and_nothing_else(added: list[tuple[int, int]], start: int):
    done, model = Done(), set()
    for first, length in added:
        done.add(first, first + length)
        model.update(range(first, first + length))
    assert {offset for offset in range(60) if offset in done} == model
    assert all(one[1] < two[0] for one, two in zip(done.ranges, done.ranges[1:], strict=False))
    assert done.up_to(start) == next(offset for offset in range(start, 60) if offset not in model)
    assert Done.decode(done.encode()) == done
    done.forget_before(start)
    assert {offset for offset in range(60) if offset in done} == {offset for offset in model if offset >= start}


def test_a_record_of_another_version_or_form_is_refused():
    with pytest.raises(LedgerError, match="of version 2"):
        Done.decode(b'{"version": 2, "done": []}')
    with pytest.raises(LedgerError, match="not of the ledger"):
        Done.decode(b"[]")


def test_more_pieces_than_a_record_holds_are_refused_and_as_many_are_written(monkeypatch: pytest.MonkeyPatch):
    done = Done([(each * 10**12, each * 10**12 + 1) for each in range(ledger.PIECES_MAX)])
    assert len(done.encode()) < 1_500_000
    with pytest.raises(LedgerError, match="more than 40000 pieces"):
        done.add(5, 6)


async def test_the_newest_record_of_a_partition_counts():
    async def batches():
        for offset, (key, value) in enumerate([(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4")]):
            yield [ConsumerRecord(ledger.TOPIC, 0, offset, 0, key, value, [])]

    assert await newest_values(batches(), [b"a", b"b"]) == {b"a": b"3", b"b": b"2"}
    assert key_of("dead", "1f", 3) == b"dead/1f/3"
