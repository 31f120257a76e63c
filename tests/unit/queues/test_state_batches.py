"""What is stored and written later over it: as if each record had an entry of its own."""

import itertools

from hypothesis import find, given
from hypothesis import strategies as st

from ottla.queues.state_batches import StateBatch, combine

BATCHES = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, 40),
        st.integers(0, 10),
        st.sampled_from([0, 2, 4]),
        st.integers(0, 2),
    ),
    max_size=8,
)


def entries(batches: list[StateBatch] | tuple[StateBatch, ...]) -> dict[int, tuple[int, int]]:
    """The last word on each record."""
    return {
        offset: (batch.state, batch.deliveries) for batch in batches for offset in range(batch.first, batch.last + 1)
    }


@given(BATCHES, BATCHES, st.integers(0, 30))
def test_later_batches_win_record_by_record(stored: list[StateBatch], written: list[StateBatch], start: int) -> None:
    before = combine((), stored, 0)
    after = combine(before, written, start)
    expected = {**entries(stored), **entries(written)}
    assert entries(after) == {offset: each for offset, each in expected.items() if offset >= start}
    for one, other in itertools.pairwise(after):
        assert one.last < other.first
        assert one.last + 1 < other.first or one[2:] != other[2:], "neighbours that are alike are one"


def _higher_wins(stored: tuple[StateBatch, ...], written: list[StateBatch]) -> tuple[StateBatch, ...]:
    """What Kafka's combiner makes of them: more deliveries win, then the higher state."""
    known = entries(stored)
    kept = [
        StateBatch(offset, offset, state, deliveries)
        for offset, (state, deliveries) in entries(written).items()
        if offset not in known or (deliveries, state) >= (known[offset][1], known[offset][0])
    ]
    return combine(stored, kept, 0)


def test_a_merge_that_loses_what_lowers_a_state_is_found() -> None:
    stored, written = find(
        st.tuples(BATCHES, BATCHES),
        lambda drawn: (
            entries(_higher_wins(combine((), drawn[0], 0), drawn[1])) != {**entries(drawn[0]), **entries(drawn[1])}
        ),
    )
    assert entries(combine(combine((), stored, 0), written, 0)) == {**entries(stored), **entries(written)}


def test_many_batches_that_are_written_out_of_order_are_put_in_order_in_one_go() -> None:
    """As when members settle every other record of the same batches: step by step it takes hours."""
    count = 100_000
    accepted = [StateBatch(offset, offset, 2, 1) for offset in range(0, count, 2)]
    rejected = [StateBatch(offset, offset, 4, 1) for offset in range(1, count, 2)]
    together = combine((), [*accepted, *reversed(rejected)], 0)
    assert together == tuple(sorted(accepted + rejected))
