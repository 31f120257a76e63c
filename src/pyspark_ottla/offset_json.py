"""Offsets as JSON in the form of Spark's Kafka source: `{"events": {"0": 23, "1": 42}}`."""

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.options import OptionError

Offsets = dict[TopicPartition, int]
"""For each partition the offset of the next record to read; as an end, the first offset that is not read any more."""


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Topics and partitions in order, so that equal offsets give equal text.

    >>> offsets_to_json({TopicPartition("b", 0): 1, TopicPartition("a", 10): 3, TopicPartition("a", 9): 2})
    {'a': {'9': 2, '10': 3}, 'b': {'0': 1}}
    """
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def offsets_from_json(nested: Mapping[str, Any], *, option: str, minimum: int = 0) -> Offsets:
    """The reverse; `minimum` is the smallest number allowed. Raises OptionError, which names `option`, for others."""
    offsets: Offsets = {}
    for topic, partitions in nested.items():
        if not isinstance(partitions, Mapping):
            raise OptionError(_malformed(option, topic))
        for partition, offset in partitions.items():
            if not (isinstance(partition, str) and partition.isdecimal() and type(offset) is int and offset >= minimum):
                raise OptionError(_malformed(option, topic))
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def joined(partitions: Iterable[TopicPartition]) -> str:
    """The names of partitions, for a message; only the first few of many."""
    names = [str(each) for each in sorted(partitions)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _malformed(option: str, topic: str) -> str:
    return f'option {option}: write a number for each partition of {topic!r}, as in {{"{topic}": {{"0": 23, "1": 42}}}}'
