"""Which partitions are read: `subscribe`, `subscribePattern` or `assign`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from ottla.client.errors import TopicNotFoundError
from ottla.client.io.cluster_metadata import TopicMetadata
from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.log_client import LogReader
from pyspark_ottla.options import OptionError, Options, does_not_exist

SUBSCRIPTION_OPTIONS = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The partitions of a subscription that exist now. `topic_ids` tell a topic from a later one of the same name."""

    topic_ids: dict[str, UUID]
    partitions: tuple[TopicPartition, ...]
    missing: tuple[str, ...] = ()
    """Named topics that do not exist, and partitions, as `topic-3`."""

    def require_all(self) -> "Subscribed":
        """Returns itself. Raises OptionError if a named topic or partition does not exist."""
        if self.missing:
            raise does_not_exist(repr(self.missing[0]))
        return self


class Subscription(Protocol):
    """A rule that says which partitions are read; it is applied anew at each trigger, so new partitions are found."""

    def resolve(self, client: LogReader) -> Subscribed:
        """The partitions that exist now."""
        ...


@dataclass(frozen=True, slots=True)
class Topics:
    """All partitions of some topics."""

    names: tuple[str, ...]

    def resolve(self, client: LogReader) -> Subscribed:
        """The partitions of those of the topics that exist."""
        found, missing = _look_up(client, self.names)
        return _all_partitions(found, missing)


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """All partitions of all topics whose whole name matches a regular expression; internal topics are left out."""

    pattern: str

    def resolve(self, client: LogReader) -> Subscribed:
        """The partitions of the topics that match now."""
        matches = re.compile(self.pattern).fullmatch
        return _all_partitions(
            [topic for topic in client.topics().values() if not topic.is_internal and matches(topic.name)], ()
        )


@dataclass(frozen=True, slots=True)
class Partitions:
    """Some partitions, by number."""

    partitions: tuple[TopicPartition, ...]

    def resolve(self, client: LogReader) -> Subscribed:
        """The given partitions that exist."""
        found, missing = _look_up(client, dict.fromkeys(each.topic for each in self.partitions))
        there = {each for topic in found for each in _partitions(topic)}
        return Subscribed(
            topic_ids={topic.name: topic.topic_id for topic in found},
            partitions=tuple(each for each in self.partitions if each in there),
            missing=missing
            + tuple(str(each) for each in self.partitions if each not in there and each.topic not in missing),
        )


def subscription_of(options: Options) -> Subscription:
    """The one subscription that the options must name."""
    name = options.exactly_one(
        SUBSCRIPTION_OPTIONS,
        otherwise="nothing to read: give option subscribe (topics, separated by commas), subscribePattern or assign",
    )
    text = options.text(name) or ""
    if name == "subscribe":
        topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not topics:
            raise OptionError("option subscribe: write one or more topics, separated by commas")
        return Topics(topics)
    if name == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"option subscribePattern: {text!r} is not a regular expression: {error}") from None
        return TopicPattern(text)
    return Partitions(_assigned(options))


def _assigned(options: Options) -> tuple[TopicPartition, ...]:
    partitions = []
    for topic, numbers in (options.json_object("assign") or {}).items():
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise OptionError(f'option assign: write the partitions of {topic!r} as in {{"{topic}": [0, 1]}}')
        partitions += [TopicPartition(topic, number) for number in sorted(set(numbers))]
    if not partitions:
        raise OptionError('option assign: write topics and partitions, as in {"events": [0, 1]}')
    return tuple(partitions)


def _look_up(client: LogReader, names: Iterable[str]) -> tuple[list[TopicMetadata], tuple[str, ...]]:
    found, missing = [], []
    for name in names:
        try:
            found.append(client.metadata([name])[name])
        except TopicNotFoundError:
            missing.append(name)
    return found, tuple(missing)


def _all_partitions(topics: Iterable[TopicMetadata], missing: tuple[str, ...]) -> Subscribed:
    topics = list(topics)
    return Subscribed(
        topic_ids={topic.name: topic.topic_id for topic in topics},
        partitions=tuple(each for topic in topics for each in _partitions(topic)),
        missing=missing,
    )


def _partitions(topic: TopicMetadata) -> list[TopicPartition]:
    return [TopicPartition(topic.name, each.partition) for each in topic.partitions]
