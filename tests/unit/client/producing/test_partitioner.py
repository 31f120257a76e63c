"""Records go where other clients would send them."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as other_murmur2

from ottla.client.producing.partitioner import DefaultPartitioner, partition_for_key
from ottla.runtime.rng import SeededRng


@given(st.binary(max_size=64), st.integers(1, 1_000))
def test_a_key_goes_to_the_partition_other_clients_choose(key, partitions):
    theirs = (other_murmur2(key) & 0x7FFFFFFF) % partitions
    assert partition_for_key(key, partitions) == theirs
    assert DefaultPartitioner(SeededRng(0), 100).partition("t", key, partitions, 10) == theirs


def test_records_without_a_key_stay_until_a_batch_is_full():
    partitioner = DefaultPartitioner(SeededRng(1), switch_bytes=100)
    chosen = [partitioner.partition("t", None, 50, 10) for _ in range(100)]
    runs = [set(chosen[start : start + 10]) for start in range(0, 100, 10)]
    assert all(len(run) == 1 for run in runs)
    assert len(set(chosen)) > 5


def test_over_time_every_partition_gets_its_share():
    partitioner = DefaultPartitioner(SeededRng(2), switch_bytes=10)
    counted = Counter(partitioner.partition("t", None, 4, 10) for _ in range(8_000))
    assert all(1_800 < count < 2_200 for count in counted.values())


def test_a_topic_that_now_has_fewer_partitions_is_not_sent_beyond_them():
    partitioner = DefaultPartitioner(SeededRng(3), switch_bytes=10_000)
    assert all(partitioner.partition("t", None, 100, 1) < 100 for _ in range(5))
    assert all(partitioner.partition("t", None, 1, 1) == 0 for _ in range(5))


def test_topics_stick_on_their_own():
    partitioner = DefaultPartitioner(SeededRng(4), switch_bytes=1_000)
    first = [partitioner.partition("a", None, 1_000, 10) for _ in range(3)]
    other = partitioner.partition("b", None, 1_000, 10)
    assert len({*first, partitioner.partition("a", None, 1_000, 10)}) == 1
    assert other != first[0]
