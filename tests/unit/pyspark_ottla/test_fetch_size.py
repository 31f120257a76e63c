"""How much to ask for at once."""

from pyspark_ottla.fetch_size import FIRST_BYTES, SLACK_BYTES, FetchSize

LIMIT = 16 * 1024 * 1024


def test_the_first_answer_is_small_and_later_ones_are_what_is_left():
    size = FetchSize(LIMIT)
    assert size.next_bytes(1_000_000) == FIRST_BYTES
    size.learn(offsets=100, size_bytes=10_000)
    assert size.next_bytes(offsets_left=5_000) == 500_000 + SLACK_BYTES


def test_no_answer_is_larger_than_the_limit():
    size = FetchSize(1000)
    assert size.next_bytes(10) == 1000
    size.learn(1, 900)
    assert size.next_bytes(10) == 1000
