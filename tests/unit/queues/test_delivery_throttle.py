"""Records that fail again and again are delivered in parts; the numbers are those of Kafka 4.3."""

import pytest

from ottla.queues.delivery_throttle import BATCHES_MAX, WHOLE, AcquiredBatches, Portion, portion

TOGETHER = AcquiredBatches([(0, 499), (500, 999)])


@pytest.mark.parametrize(
    ("deliveries_max", "given_back", "part"),
    [
        (5, [(0, 499, 2)], WHOLE),
        (5, [(0, 499, 3)], Portion(499, 250)),
        (5, [(0, 249, 4), (250, 499, 3)], Portion(0, 1)),
        (5, [(250, 499, 3)], Portion(499, 250)),
        (10, [(0, 499, 4), (500, 999, 1)], WHOLE),
        (10, [(0, 499, 5)], Portion(499, 250)),
        (10, [(0, 499, 8)], Portion(499, 31)),
        (10, [(100, 499, 9)], Portion(100, 1)),
        (2, [(0, 499, 1)], WHOLE),
        (3, [(0, 499, 1)], WHOLE),
        (3, [(0, 499, 2)], Portion(0, 1)),
        (0, [(0, 499, 900)], WHOLE),
    ],
)
def test_the_part_gets_smaller_with_each_delivery(
    deliveries_max: int, given_back: list[tuple[int, int, int]], part: Portion
) -> None:
    assert portion(given_back, TOGETHER, deliveries_max) == part


def test_what_comes_before_a_part_is_delivered_without_it() -> None:
    assert portion([(0, 499, 1), (500, 999, 3)], TOGETHER, 5) == Portion(499, None)
    assert portion([(0, 9, 1), (10, 10, 4), (11, 499, 1)], TOGETHER, 5) == Portion(9, None)
    assert portion([(0, 9, 3), (10, 10, 4), (11, 499, 1)], TOGETHER, 5) == Portion(9, 250)


def test_records_of_an_unknown_batch_are_one_by_themselves() -> None:
    assert portion([(2000, 2009, 3), (2010, 2999, 1)], TOGETHER, 5) == Portion(2009, 5)


def test_a_fetch_for_few_records_gets_no_more_than_it_asks_for_when_it_says_so() -> None:
    assert Portion(499, 250).limits(10, exact=True) == (10, True)
    assert Portion(499, 250).limits(10, exact=False) == (250, True)
    assert WHOLE.limits(10, exact=False) == (10, False)


def test_batches_are_forgotten_when_they_are_done_and_when_there_are_too_many() -> None:
    batches = AcquiredBatches([(0, 4), (5, 9)])
    batches.add(8, 14)
    assert batches.around(12, 12) == (10, 14), "what is in a batch stays in it"
    batches.forget_below(7)
    assert batches.around(3, 3) == (3, 3)
    assert batches.around(6, 6) == (5, 9)
    for first in range(20, 20 + 2 * BATCHES_MAX):
        batches.add(first, first)
    batches.forget_below(7)
    assert batches.around(6, 6) == (6, 6)
    assert batches.around(30, 40) == (30, 40)
    assert batches.around(19 + 2 * BATCHES_MAX, 1 << 40) == (19 + 2 * BATCHES_MAX,) * 2
