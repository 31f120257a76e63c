"""The end of a micro-batch: limits on its rows and bytes."""

from collections.abc import Mapping

from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.offset_json import Offsets
from pyspark_ottla.offset_range import OffsetRange, ranges_between


def limit_rows(start: Offsets, end: Offsets, rows_max: int) -> Offsets:
    """The end of a micro-batch of at most `rows_max` offsets after `start`, all partitions together.

    Each partition gets a share in proportion to its records, so that all advance together and become empty together.
    Every partition with records gets at least one row, if there is one for each, so that a large partition does not
    starve a small one.

    >>> big, small = TopicPartition("events", 0), TopicPartition("events", 1)
    >>> sorted(limit_rows({big: 0, small: 0}, {big: 1_000_000, small: 3}, 1000).values())
    [1, 999]
    """
    waiting = ranges_between(start, end)
    if sum(each.count for each in waiting) <= rows_max:
        return end
    first = dict.fromkeys(waiting, 1 if rows_max >= len(waiting) else 0)
    rest = _in_proportion({each: each.count - first[each] for each in waiting}, rows_max - sum(first.values()))
    limited = {each.topic_partition: each.start + first[each] + rest[each] for each in waiting}
    return end | limited


def limit_bytes(start: Offsets, end: Offsets, bytes_max: int, offset_bytes: Mapping[TopicPartition, float]) -> Offsets:
    """The end of a micro-batch of about `bytes_max` after `start`, all partitions together, and of at least one offset.

    `offset_bytes` has the bytes per offset of each partition. A partition without an entry uses the average of the
    others.

    >>> big, small = TopicPartition("events", 0), TopicPartition("events", 1)
    >>> limit_bytes({big: 0, small: 0}, {big: 900, small: 100}, 50_000, {big: 100.0, small: 100.0})[big]
    450
    """
    waiting = ranges_between(start, end)
    if not waiting or not offset_bytes:
        return end
    average = sum(offset_bytes.values()) / len(offset_bytes)
    size = sum(each.count * offset_bytes.get(each.topic_partition, average) for each in waiting)
    if size <= bytes_max:
        return end
    return limit_rows(start, end, max(int(sum(each.count for each in waiting) * bytes_max / size), 1))


def _in_proportion(weights: Mapping[OffsetRange, int], total: int) -> dict[OffsetRange, int]:
    """`total` dealt out by weight in whole numbers, none above its weight (largest remainder method).

    Needs `total` <= the sum of the weights. Equal remainders go to the partition that comes first, so that a plan that
    is made twice comes out the same.
    """
    whole = sum(weights.values())
    if whole == 0:
        return dict.fromkeys(weights, 0)
    shares = {each: weight * total // whole for each, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda each: (-(weights[each] * total % whole), each))
    for each in by_remainder[: total - sum(shares.values())]:
        shares[each] += 1
    return shares
