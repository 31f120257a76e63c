"""The next Produce request to each broker: which batches may leave now, encoded and numbered.

Pure decisions, for the asyncio and the blocking producer. `Settlement` is told what became of each request.

```
 RecordAccumulator -> ProduceRequests -> ProduceAttempt -> a skin sends it: Sender (asyncio), BlockingProducer
        ^                                                        |
        +------------------------ Settlement <------- response, or the error of the connection
```
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.client.errors import ClientError
from ottla.client.io.cluster import Cluster
from ottla.client.producing.accumulator import RecordAccumulator
from ottla.client.producing.produce import produce_request
from ottla.client.producing.producer_batch import Compression, ProducerBatch
from ottla.client.producing.producer_identity import ProducerIdentity
from ottla.client.producing.producer_options import ProducerOptions
from ottla.client.producing.settlement import Settlement
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.produce import ProduceRequest


class ProduceAttempt(NamedTuple):
    """A request and its batches, one for each of its partitions."""

    request: ProduceRequest
    batches: Sequence[ProducerBatch]


class ProduceRequests:
    """Makes the requests of one producer."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: RecordAccumulator,
        identity: ProducerIdentity,
        settlement: Settlement,
        options: ProducerOptions,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._identity = identity
        self._settlement = settlement
        self._options = options
        self._compression = Compression(options.compression, options.compression_level)

    def needs_identity(self) -> bool:
        """Whether a producer id or its next epoch comes before the next batch.

        While some batch may have been appended under its old number, only such batches leave, and the answer is no.
        """
        self._accumulator.settles = self._identity.wanted and self._accumulator.has_uncertain
        return self._identity.wanted and not self._accumulator.settles

    def by_leader(self, now_ms: int) -> tuple[dict[int, list[TopicPartition]], set[str]]:
        """The partitions with a batch to send now, by leader, and the topics whose leaders are not known."""
        by_leader: dict[int, list[TopicPartition]] = {}
        unknown: set[str] = set()
        for topic_partition in self._accumulator.sendable(now_ms):
            leader = self._cluster.metadata.leader(topic_partition)
            if leader is None:
                unknown.add(topic_partition.topic)
            else:
                by_leader.setdefault(leader.leader, []).append(topic_partition)
        return by_leader, unknown

    def take(self, topic_partitions: Iterable[TopicPartition], now_ms: int) -> ProduceAttempt | None:
        """The next request for partitions of one leader, its batches in flight from now on; None if there is none.

        Batches that cannot be encoded are given up.
        """
        taken = self._accumulator.take(topic_partitions, self._options.request_bytes_max, now_ms)
        encoded: list[tuple[TopicPartition, bytearray]] = []
        batches: list[ProducerBatch] = []
        for batch in taken:
            try:
                encoded.append((batch.topic_partition, batch.encode(self._compression, self._identity.current)))
                batches.append(batch)
            except (ValueError, TypeError, OverflowError) as error:
                message = f"records for {batch.topic_partition} cannot be encoded: {error}"
                self._settlement.give_up(batch, ClientError(message))
        if not encoded:
            return None
        options = self._options
        timeout_ms = self._cluster.options.request_timeout_ms
        request = produce_request(encoded, self._cluster.metadata, options.acks, timeout_ms, options.transactional_id)
        return ProduceAttempt(request, batches)
