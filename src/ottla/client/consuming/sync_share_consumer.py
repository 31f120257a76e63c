"""The share consumer for blocking code: the asyncio share consumer, in an event loop thread."""

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from ottla.client.arguments import topic_names
from ottla.client.consuming.share_consumer import OnAcknowledged, ShareConsumer
from ottla.client.consuming.share_options import AcknowledgeType, ShareConsumerOptions
from ottla.client.consuming.share_record import ShareRecord
from ottla.client.errors import ClientError
from ottla.client.io.loop_client import LoopClient
from ottla.client.options import Bootstrap, client_options
from ottla.model.topic_partition import TopicPartition


class SyncShareConsumer:
    """A member of a share group for blocking code, for one thread at a time. Heartbeats go on between two calls.

    >>> with SyncShareConsumer("localhost:9092", "workers") as consumer:  # doctest: +SKIP
    ...     consumer.subscribe(["jobs"])
    ...     while True:
    ...         for record in consumer.poll():
    ...             work(record.value)

    Each method does what the method of the same name of `ShareConsumer` does. `on_acknowledged` is called in the thread
    of the event loop and must not call this consumer. Do not share it over a fork.
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        share_options: ShareConsumerOptions | str,
        *,
        on_acknowledged: OnAcknowledged | None = None,
    ) -> None:
        """Reach the cluster. Raises BrokerUnreachableError at once when no address answers."""
        client = client_options(bootstrap)
        self._loop = LoopClient(
            "share consumer", lambda: ShareConsumer(client, share_options, on_acknowledged=on_acknowledged)
        )
        self._consumer = self._loop.client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics, from the next poll on; replaces an earlier subscription."""
        self._loop.invoke(self._consumer.subscribe, topic_names(topics))

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this member reads now; other members may read the same ones."""
        return self._loop.invoke(self._consumer.assignment)

    @property
    def lock_timeout_ms(self) -> int | None:
        """How long the group locks an acquired record for a member; None before the first response."""
        return self._consumer.lock_timeout_ms

    def poll(self, max_records: int | None = None, timeout_ms: int = 1_000) -> list[ShareRecord]:
        """Records that are locked for this member now; empty when none arrives within the timeout."""
        return self._loop.call(self._consumer.poll(max_records, timeout_ms))

    def __iter__(self) -> Iterator[ShareRecord]:
        """Records one by one, for ever. In implicit mode a record is accepted when the next one is asked for."""
        while True:
            yield from self.poll(1)

    def acknowledge(
        self, record: ShareRecord | tuple[str, int, int], kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Say what happens to a record of the last poll, or to the one at (topic, partition, offset)."""
        self._loop.invoke(self._consumer.acknowledge, record, kind)

    def unacknowledged(self) -> list[ShareRecord]:
        """The records that `poll` has returned and that are not acknowledged, in this order."""
        return self._loop.invoke(self._consumer.unacknowledged)

    def commit(self) -> dict[TopicPartition, ClientError | None]:
        """Send all acknowledgements and wait for the answers: for each partition None, or what went wrong."""
        return self._loop.call(self._consumer.commit())

    def commit_async(self) -> None:
        """Send all acknowledgements without waiting; `on_acknowledged` gets the results."""
        self._loop.invoke(self._consumer.commit_async)

    def close(self) -> None:
        """Send what was acknowledged, release all other records, leave the group and end the connections."""
        self._loop.close()
