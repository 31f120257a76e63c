"""A micro-batch takes no more than it may, and the partitions advance in step."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.admission import limit_rows

sizes = st.lists(st.integers(0, 100_000), min_size=1, max_size=10)


def logs(counts):
    start = {TopicPartition("t", number): 100 for number in range(len(counts))}
    return start, {each: 100 + count for each, count in zip(start, counts, strict=True)}


def taken(start, end):
    return [end[each] - start[each] for each in start]


@given(sizes, st.integers(1, 50_000))
def test_it_takes_exactly_the_limit_or_all_there_is(counts, limit):
    start, end = logs(counts)
    rows = taken(start, limit_rows(start, end, limit))
    assert sum(rows) == min(limit, sum(counts))
    assert all(0 <= row <= count for row, count in zip(rows, counts, strict=True))


@given(sizes, st.integers(1, 50_000))
def test_no_partition_waits_while_there_is_a_row_for_each(counts, limit):
    start, end = logs(counts)
    rows = taken(start, limit_rows(start, end, limit))
    if limit >= sum(1 for count in counts if count):
        assert all(row > 0 for row, count in zip(rows, counts, strict=True) if count)


@given(sizes, st.integers(1, 50_000))
def test_each_gets_in_proportion_to_what_it_has(counts, limit):
    start, end = logs(counts)
    rows = taken(start, limit_rows(start, end, limit))
    if limit < sum(counts):
        for row, count in zip(rows, counts, strict=True):
            # One row for each goes before, and the last row of a share is dealt out by remainder.
            assert abs(row - count * limit / sum(counts)) <= len(counts) + 1


@given(st.integers(1, 5), st.integers(6, 30))
def test_with_fewer_rows_than_partitions_the_largest_go_first(limit, partitions):
    start, end = logs([1] * partitions + [1000] * limit)
    assert taken(start, limit_rows(start, end, limit))[partitions:] == [1] * limit


@given(sizes, st.integers(1_000, 50_000))
def test_everything_is_read_in_as_few_batches_as_the_limit_allows(counts, limit):
    position, end = logs(counts)
    batches = 0
    while position != end:
        position, batches = limit_rows(position, end, limit), batches + 1
    assert batches == -(-sum(counts) // limit)


def test_a_plan_made_twice_is_the_same():
    start, end = logs([7, 7, 7])
    assert limit_rows(start, end, 10) == limit_rows(dict(reversed(start.items())), dict(reversed(end.items())), 10)
