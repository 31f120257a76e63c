"""Encoded record batches on their way to the leaders of their partitions, several requests ahead of the answers.

For blocking code that builds its own batches, such as Spark tasks. Numbers, retries and what becomes of a batch are
those of the asyncio producer (`RecordAccumulator`, `ProduceRequests`, `Settlement`); this module sends and waits.

```
 send(partition, batch)      waiting                        in flight, oldest first
   t-0 -> batch              t-0: [batch] [batch]            leader 1: [t-0 0..99 | t-2 0..49] [t-0 ...]
   t-1 -> batch              t-1: [batch]                    leader 2: [t-1 ...]
```

One request contains the next batch of every partition that its leader leads. While there is room, the caller does not
wait for responses: it builds batches while brokers make earlier ones durable.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ottla.client.arguments import kind_name, partition_of
from ottla.client.errors import NO_CONNECTION, ClientError, InvalidOptionError
from ottla.client.io.blocking_io import BlockingConnection, run_blocking
from ottla.client.io.cluster import Cluster
from ottla.client.io.connection_pool import Lane
from ottla.client.io.retry import Deadline
from ottla.client.producing.accumulator import BatchLimits, RecordAccumulator
from ottla.client.producing.produce_requests import ProduceAttempt, ProduceRequests
from ottla.client.producing.producer_batch import Identity, ProducerBatch
from ottla.client.producing.producer_identity import ProducerIdentity, TransactionalIdentity
from ottla.client.producing.producer_options import ProducerOptions
from ottla.client.producing.settlement import Settlement
from ottla.model.topic_partition import TopicPartition
from ottla.native import walk_batches
from ottla.protocol.messages.produce import ProduceResponse

logger = logging.getLogger(__name__)

IN_FLIGHT_BYTES_MAX = 16_000_000
"""Bytes of all partitions that are not answered: what a task writes while a disk that it shares is behind."""
REQUEST_BYTES = 1_000_000
"""A request is sent when there is so much for it, and closed before it is larger, unless one batch is."""
WAITING_BYTES_MAX = 8_000_000
"""Beyond this `send` waits for answers: with what is in flight, the memory that a producer takes."""


@dataclass(slots=True, eq=False)
class _InFlight:
    connection: BlockingConnection
    attempt: ProduceAttempt
    size_bytes: int


class BlockingProducer:
    """One producer on one thread. Idempotent, or with an `identity` part of that producer's transaction.

    Raises ClientError for a permanent error, or if nothing was appended for `api_timeout_ms`. Then unacknowledged
    batches may or may not be in the log, and this producer cannot be used again.
    """

    def __init__(
        self, cluster: Cluster, *, transactional_id: str | None = None, identity: Identity | None = None
    ) -> None:
        assert (transactional_id is None) == (identity is None)
        self._cluster = cluster
        self._identity = ProducerIdentity(cluster, wanted=True)
        if identity is not None:
            self._identity = TransactionalIdentity(cluster, lambda: None)
            self._identity.current = identity
        options = ProducerOptions(
            transactional_id=transactional_id, batch_bytes=REQUEST_BYTES, request_bytes_max=REQUEST_BYTES
        )
        self._accumulator = RecordAccumulator(
            BatchLimits(REQUEST_BYTES, linger_ms=0), idempotent=True, on_give_up=self._on_give_up
        )
        self._settlement = Settlement(cluster, self._accumulator, self._identity)
        self._requests = ProduceRequests(cluster, self._accumulator, self._identity, self._settlement, options)
        self._in_flight: deque[_InFlight] = deque()
        self._in_flight_bytes = 0
        self._progress_by: Deadline | None = None
        """When this producer ends, if nothing is appended until then; None while nothing fails."""
        self._given_up: Exception | None = None
        self._failure: ClientError | None = None

    @property
    def last_sequences(self) -> dict[TopicPartition, int]:
        """For each partition that was written to the number of its last record."""
        return self._accumulator.last_sequences

    @property
    def failure(self) -> ClientError | None:
        """What ended this producer, if anything did."""
        return self._failure

    def send(self, topic_partition: TopicPartition, batch: bytearray) -> None:
        """Take one record batch, which is stamped in place; it may be on its way when this returns."""
        topic_partition = partition_of(topic_partition)
        if not isinstance(batch, bytearray):
            raise InvalidOptionError(
                f"batch must be a bytearray, which the producer writes into, not {kind_name(batch)}"
            )
        self._guarded(lambda: self._take(topic_partition, batch))

    def flush(self) -> None:
        """Return when everything taken is appended, on all replicas in sync."""
        self._guarded(self._drain)

    def abandon(self) -> None:
        """Give up what is not appended yet; whether it will be is not known. This producer is at its end."""
        self._failure = self._failure or ClientError("the producer was abandoned")
        self._forget(self._failure)

    def _guarded(self, work: Callable[[], None]) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            work()
        except BaseException as error:
            self._failure = error if isinstance(error, ClientError) else ClientError("the producer was interrupted")
            self._forget(self._failure)
            raise

    def _forget(self, failure: ClientError) -> None:
        for each in self._in_flight:
            each.connection.close()
        self._in_flight.clear()
        self._in_flight_bytes = 0
        self._settlement.give_up_all(failure)

    def _on_give_up(self, topic_partition: TopicPartition, record_count: int, error: Exception) -> None:
        self._given_up = self._given_up or error

    # --- taking and waiting -----------------------------------------------------------------------------------------

    @property
    def _now_ms(self) -> int:
        return self._cluster.io.clock.monotonic_ms()

    @property
    def _waiting_bytes(self) -> int:
        return self._accumulator.pending_bytes - self._in_flight_bytes

    def _take(self, topic_partition: TopicPartition, data: bytearray) -> None:
        infos, size, error = walk_batches(data, check_crc=False)
        if len(infos) != 1 or size != len(data):
            raise error or InvalidOptionError(f"batch must be one whole record batch: {len(data)} bytes are not")
        batch = ProducerBatch.of_encoded(topic_partition, self._now_ms, data, infos[0].record_count)
        self._accumulator.append_encoded(batch)
        while self._waiting_bytes >= REQUEST_BYTES:
            self._send_what_can_be_sent(enough_bytes=REQUEST_BYTES)
            if self._waiting_bytes < WAITING_BYTES_MAX:
                break
            self._wait()

    def _drain(self) -> None:
        while self._accumulator.pending_batches:
            self._send_what_can_be_sent(enough_bytes=1)
            self._wait()

    def _wait(self) -> None:
        """Until the oldest request is answered, or until a batch may be sent again."""
        if self._in_flight:
            self._receive()
            return
        now_ms = self._now_ms
        due_ms = self._accumulator.next_due_ms(now_ms)
        if due_ms is not None and not self._accumulator.sendable(now_ms):
            run_blocking(self._cluster.io.pause(due_ms - now_ms))

    # --- sending ----------------------------------------------------------------------------------------------------

    def _send_what_can_be_sent(self, *, enough_bytes: int) -> None:
        """Send requests while so many bytes wait and there is room in flight."""
        while self._in_flight and self._in_flight[0].connection.has_answer():
            self._receive()
        while self._has_room(enough_bytes) and self._has_identity():
            self._find_leaders()
            by_leader, _ = self._requests.by_leader(self._now_ms)
            if not by_leader:
                return
            for node_id, topic_partitions in by_leader.items():
                if self._has_room(enough_bytes):
                    self._send(node_id, topic_partitions)

    def _has_room(self, enough_bytes: int) -> bool:
        return self._waiting_bytes >= enough_bytes and self._in_flight_bytes < IN_FLIGHT_BYTES_MAX

    def _has_identity(self) -> bool:
        if not self._requests.needs_identity():
            return True
        if self._in_flight:
            return False
        run_blocking(self._cluster.retrying(self._identity.renew, self._progress_by or self._cluster.deadline()))
        self._accumulator.renumber()
        return True

    def _find_leaders(self) -> None:
        for each in self._accumulator.sendable(self._now_ms):
            if self._cluster.is_old or self._cluster.metadata.leader(each) is None:
                run_blocking(self._cluster.leader(each, self._progress_by or self._cluster.deadline()))

    def _send(self, node_id: int, topic_partitions: list[TopicPartition]) -> None:
        try:
            connection = cast("BlockingConnection", run_blocking(self._cluster.connection(node_id, Lane.PRODUCE)))
        except NO_CONNECTION as error:
            self._cluster.metadata.stale = True
            self._settlement.note_leader(node_id, error)
            self._on_error(error)
            run_blocking(self._cluster.io.pause(self._cluster.options.retry_backoff_ms))
            return
        attempt = self._requests.take(topic_partitions, self._now_ms)
        if attempt is None:
            return
        try:
            connection.send_ahead(attempt.request, timeout_ms=self._cluster.options.request_timeout_ms)
        except NO_CONNECTION as error:
            self._settlement.on_request_error(attempt.batches, error, is_sent=False)
            self._on_error(error)
            return
        size_bytes = sum(each.size_bytes for each in attempt.batches)
        self._in_flight.append(_InFlight(connection, attempt, size_bytes))
        self._in_flight_bytes += size_bytes

    # --- answers ----------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Take the answer to the oldest request. Raises ClientError when a batch is given up."""
        oldest = self._in_flight.popleft()
        self._in_flight_bytes -= oldest.size_bytes
        request, batches = oldest.attempt
        try:
            timeout_ms = self._cluster.options.request_timeout_ms
            response = oldest.connection.receive(request, ProduceResponse, timeout_ms=timeout_ms)
        except NO_CONNECTION as error:
            self._settlement.on_request_error(batches, error)
            self._on_error(error)
            return
        pending = self._accumulator.pending_batches
        self._settlement.on_response(batches, request, response)
        if self._given_up is not None:
            raise self._given_up
        if self._accumulator.pending_batches < pending:
            self._progress_by = None
        elif self._settlement.newest_error is not None:
            self._on_error(self._settlement.newest_error)

    def _on_error(self, error: Exception) -> None:
        """Batches will be sent again. Raises the error when there is no time left for that."""
        self._progress_by = self._progress_by or self._cluster.deadline()
        if self._progress_by.left_ms <= self._cluster.options.retry_backoff_ms:
            raise error
