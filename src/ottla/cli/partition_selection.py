"""Which partitions a command is about: `events` is all of a topic, `events:0,4-6` some of it."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.client.admin.admin import Admin
from ottla.client.errors import TopicNotFoundError
from ottla.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster

PARTITIONS_MAX = 1_000_000
"""More partition numbers than any topic has: `0-2147483647` is a slip, and would only fill memory."""

_NUMBERS = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?", re.ASCII)


class Selection(NamedTuple):
    """A topic and the numbers of its partitions; None for all it has."""

    topic: str
    partitions: tuple[int, ...] | None


def parse_selection(text: str) -> Selection:
    """Read `TOPIC` or `TOPIC:PARTITIONS`. Raises click.BadParameter, which is a usage error.

    >>> parse_selection("events:0,4-6")
    Selection(topic='events', partitions=(0, 4, 5, 6))
    """
    topic, colon, numbers = text.partition(":")
    if not topic or (colon and not numbers):
        raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION, such as events:0,4-6")
    return Selection(topic, parse_numbers(numbers) if colon else None)


def parse_numbers(text: str) -> tuple[int, ...]:
    """Partition numbers out of `0,4-6`, each once. Raises click.BadParameter."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match is not None else (0, -1)
        if first > last or last - first >= PARTITIONS_MAX:
            raise click.BadParameter(f"{text!r} is not a list of partitions such as 0,4-6")
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)


async def partitions_of(cluster: "Cluster", selections: Iterable[Selection]) -> "list[TopicPartition]":
    """The partitions, in order, each once. Raises TopicNotFoundError for a topic or partition that is not there."""
    selections = list(selections)
    names = dict.fromkeys(each.topic for each in selections)
    topics = {each.name: each for each in await Admin(cluster).describe_topics(names)}
    chosen: set[TopicPartition] = set()
    for topic, numbers in selections:
        there = {each.partition for each in topics[topic].partitions}
        missing = set(numbers or ()) - there
        if missing:
            raise TopicNotFoundError(topic, min(missing))
        chosen.update(TopicPartition(topic, number) for number in (there if numbers is None else numbers))
    return sorted(chosen)
