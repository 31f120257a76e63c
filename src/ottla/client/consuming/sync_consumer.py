"""The consumer for blocking code: the asyncio consumer, in an event loop thread."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

from ottla.client.arguments import partitions_of, topic_names
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions
from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.consuming.group_subscription import SubscriptionPattern
from ottla.client.io.loop_client import LoopClient
from ottla.client.options import Bootstrap, client_options
from ottla.model.topic_partition import TopicPartition


class SyncConsumer:
    """A consumer for blocking code, for one thread at a time. Heartbeats and fetches go on between two calls.

    >>> with SyncConsumer("localhost:9092", ConsumerOptions(group_id="billing")) as consumer:  # doctest: +SKIP
    ...     consumer.subscribe(["events"])
    ...     for record in consumer:
    ...         print(record.offset, record.value)

    Each method does what the method of the same name of `Consumer` does. Do not share it over a fork.
    """

    def __init__(self, bootstrap: Bootstrap, options: ConsumerOptions | None = None) -> None:
        """Reach the cluster. Raises BrokerUnreachableError at once when no address answers."""
        client = client_options(bootstrap)
        self._loop = LoopClient("consumer", lambda: Consumer(client, options))
        self._consumer = self._loop.client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def subscribe(self, topics: Iterable[str] | SubscriptionPattern) -> None:
        """Read this group's share of topics, from the next poll on."""
        given = topics if isinstance(topics, SubscriptionPattern) else topic_names(topics)
        self._loop.invoke(self._consumer.subscribe, given)

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions."""
        given = partitions_of(topic_partitions)
        self._loop.invoke(self._consumer.assign, given)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer reads now."""
        return self._loop.invoke(self._consumer.assignment)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Read this partition from an offset on."""
        self._loop.invoke(self._consumer.seek, topic_partition, offset)

    def poll(self, max_records: int = 500, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Up to `max_records` records, in order within each partition; empty when none arrives within the timeout."""
        return self._loop.call(self._consumer.poll(max_records, timeout_ms))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records one by one, for ever. With `auto_commit` a record counts as read when the next one is asked for.

        `poll` is faster for many small records: it crosses to the event loop once for all of them.
        """
        while True:
            yield from self.poll(1)

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit for the group: the next offsets to read, by default the positions of all partitions."""
        self._loop.call(self._consumer.commit(offsets))

    def committed(self, topic_partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets for these partitions; partitions without one are left out."""
        return self._loop.call(self._consumer.committed(topic_partitions))

    def close(self) -> None:
        """Commit with `auto_commit`, leave the group and end the connections. Calling it again changes nothing."""
        self._loop.close()
