"""Ranges are dealt out to tasks: all of each, none twice, about the same to every task."""

import pickle
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.offset_range import RECORDS_WORTH_A_TASK, OffsetRange, pack, ranges_between, split, task_count

ranges = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 100_000)), min_size=1, max_size=12).map(
    lambda bounds: [
        OffsetRange(TopicPartition("t", number), start, start + count) for number, (start, count) in enumerate(bounds)
    ]
)


@given(ranges, st.integers(1, 9))
def test_the_tasks_together_read_every_offset_once(some, tasks):
    read = sorted(piece for task in pack(some, tasks) for piece in task.ranges)
    for whole in some:
        pieces = [piece for piece in read if piece.topic_partition == whole.topic_partition]
        assert pieces[0].start == whole.start
        assert pieces[-1].end == whole.end
        assert all(piece.start < piece.end for piece in pieces)
        assert all(before.end == after.start for before, after in pairwise(pieces))


@given(ranges, st.integers(1, 9))
def test_no_task_is_empty_and_none_has_twice_its_share(some, tasks):
    packed = pack(some, tasks)
    assert 1 <= len(packed) <= tasks
    loads = [sum(piece.count for piece in task.ranges) for task in packed]
    share = sum(each.count for each in some) / tasks
    assert min(loads) > 0
    assert max(loads) <= 2 * share + 1


def test_one_large_partition_is_read_by_all_tasks_and_many_small_ones_share_a_task():
    large = OffsetRange(TopicPartition("t", 0), 0, 1000)
    assert [[(piece.start, piece.end) for piece in task.ranges] for task in pack([large], 2)] == [
        [(0, 500)],
        [(500, 1000)],
    ]
    small = [OffsetRange(TopicPartition("t", number), 0, 10) for number in range(32)]
    assert [len(task.ranges) for task in pack(small, 2)] == [16, 16]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(1, 6), st.integers(1, 300))
def test_no_task_has_more_offsets_than_it_may_and_together_they_have_all(counts, tasks, task_max):
    some = [OffsetRange(TopicPartition("t", number), 0, count) for number, count in enumerate(counts)]
    packed = pack(some, tasks, task_max)
    assert max(sum(piece.count for piece in task.ranges) for task in packed) <= task_max
    assert sum(piece.count for task in packed for piece in task.ranges) == sum(counts)


def test_a_split_is_as_coarse_as_the_limit_allows():
    assert [piece.count for piece in split(OffsetRange(TopicPartition("t", 0), 5, 16), 4)] == [3, 4, 4]


def test_a_few_records_are_not_worth_more_than_one_task():
    few = [OffsetRange(TopicPartition("t", number), 0, 5) for number in range(8)]
    many = [OffsetRange(TopicPartition("t", 0), 0, RECORDS_WORTH_A_TASK * 3)]
    assert task_count(few, tasks_max=8) == 1
    assert task_count(many, tasks_max=8) == 3
    assert task_count(many, tasks_max=2) == 2
    assert task_count(few, tasks_max=8, tasks_min=4) == 4


def test_nothing_between_two_positions_is_no_range():
    p0, p1, p2 = (TopicPartition("t", number) for number in range(3))
    assert ranges_between({p0: 5, p1: 5}, {p0: 5, p1: 7, p2: 9}) == [OffsetRange(p1, 5, 7)]


def test_a_task_survives_the_way_to_an_executor():
    [task] = pack([OffsetRange(TopicPartition("t", 0), 1, 5)], 1)
    assert pickle.loads(pickle.dumps(task)).ranges == task.ranges
