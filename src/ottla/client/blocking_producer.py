"""Encoded record batches on their way to the leaders of their partitions, several requests ahead of the answers.

For code that blocks and builds its batches itself, such as Spark tasks. Each batch carries the producer's id and the
number of its first record in its partition (KIP-98), so one that is sent again after a lost answer is appended once.

```
 send(partition, batch)      waiting                        in flight, oldest first, at most 5 of a partition
   t-0 -> number 0..99       t-0: [100..199] [200..299]      leader 1: [t-0 0..99 | t-2 0..49] [t-0 ...]
   t-1 -> number 0..49       t-1: [0..49]                    leader 2: [t-1 ...]
```

One request takes the next batch of every partition that its leader leads. As long as there is room nothing waits for
an answer: who makes the batches goes on while brokers make them durable. When anything fails, all answers are taken
first; then what was not appended is sent again in the order of its numbers.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

from ottla.client.blocking_io import BlockingConnection, run_blocking
from ottla.client.cluster import Cluster
from ottla.client.connection_pool import NO_CONNECTION, Lane
from ottla.client.errors import BrokerError, ClientError, broker_error
from ottla.client.produce import Acks, ProducedBatch, produce_request, produced
from ottla.client.producer_batch import Identity
from ottla.client.producer_identity import ProducerIdentity
from ottla.client.retry import Backoff, Deadline
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import assign_producer
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse

logger = logging.getLogger(__name__)

IN_FLIGHT_MAX = 5
"""Batches of a partition that are not answered: its leader knows the last five of a producer again."""
IN_FLIGHT_BYTES_MAX = 16_000_000
"""Bytes of all partitions that are not answered: what a task writes while a disk that it shares is behind."""
REQUEST_BYTES = 1_000_000
"""A request is sent when there is so much for it, and closed before it is larger, unless one batch is."""
WAITING_BYTES_MAX = 8_000_000
"""Beyond this `send` waits for answers: with what is in flight, the memory that a producer takes."""

_APPENDED = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_LOST_NUMBERS = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


@dataclass(slots=True, eq=False)
class _Batch:
    topic_partition: TopicPartition
    data: bytearray
    place: int
    """Its place among all batches: numbers begin anew after 2^31."""


@dataclass(slots=True, eq=False)
class _InFlight:
    node_id: int
    connection: BlockingConnection
    request: ProduceRequest
    batches: list[_Batch]


class BlockingProducer:
    """One producer on one thread. Idempotent, or with an `identity` part of that producer's transaction.

    Raises ClientError for what a broker refuses for good, or when nothing was appended for `api_timeout_ms`; then what
    was not acknowledged may or may not be in the log, and this producer is at its end.
    """

    def __init__(
        self, cluster: Cluster, *, transactional_id: str | None = None, identity: Identity | None = None
    ) -> None:
        assert (transactional_id is None) == (identity is None)
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._fixed = identity
        self._idempotent = ProducerIdentity(cluster, wanted=True)
        self._next: dict[TopicPartition, int] = {}
        self._waiting: dict[TopicPartition, deque[_Batch]] = {}
        self._waiting_bytes = 0
        self._taken = self._appended = 0
        self._in_flight: deque[_InFlight] = deque()
        self._in_flight_of: Counter[TopicPartition] = Counter()
        self._in_flight_bytes = 0
        self._failure: ClientError | None = None

    @property
    def last_sequences(self) -> dict[TopicPartition, int]:
        """For each partition that was written to the number of its last record."""
        return {each: (number - 1) % 2**31 for each, number in self._next.items()}

    @property
    def failure(self) -> ClientError | None:
        """What ended this producer, if anything did."""
        return self._failure

    def send(self, topic_partition: TopicPartition, batch: bytearray) -> None:
        """Take one record batch, which is stamped in place; it may be on its way when this returns."""
        self._guarded(lambda: self._take(topic_partition, batch))

    def flush(self) -> None:
        """Return when everything taken is appended, on all replicas in sync."""
        self._guarded(self._drain)

    def abandon(self) -> None:
        """Give up what is not appended yet; whether it will be is not known. This producer is at its end."""
        self._failure = self._failure or ClientError("the producer was abandoned")
        self._forget()

    def _guarded(self, work: Callable[[], None]) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            work()
        except BaseException as error:
            self._failure = error if isinstance(error, ClientError) else ClientError("the producer was interrupted")
            self._forget()
            raise

    def _forget(self) -> None:
        for each in self._in_flight:
            each.connection.close()
        self._in_flight.clear()
        self._in_flight_of.clear()
        self._in_flight_bytes = 0
        self._waiting.clear()

    # --- numbers ----------------------------------------------------------------------------------------------------

    def _identity(self) -> Identity:
        if self._fixed is not None:
            return self._fixed
        if self._idempotent.wanted:
            run_blocking(self._cluster.retrying(self._idempotent.renew, self._cluster.deadline()))
        return self._idempotent.current

    def _take(self, topic_partition: TopicPartition, data: bytearray) -> None:
        batch = _Batch(topic_partition, data, self._taken)
        self._taken += 1
        self._number(batch, self._identity())
        self._waiting.setdefault(topic_partition, deque()).append(batch)
        self._waiting_bytes += len(data)
        while self._waiting_bytes >= REQUEST_BYTES:
            self._send_or_recover(fill=True)
            if self._waiting_bytes < WAITING_BYTES_MAX:
                break

    def _number(self, batch: _Batch, identity: Identity) -> None:
        first = self._next.get(batch.topic_partition, 0)
        self._next[batch.topic_partition] = assign_producer(
            batch.data, identity.producer_id, identity.epoch, first, is_transactional=identity.is_transactional
        )

    # --- sending ----------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        while self._waiting_bytes or self._in_flight:
            if self._waiting_bytes:
                self._send_or_recover(fill=False)
            else:
                self._receive_or_recover()

    def _send_or_recover(self, *, fill: bool) -> None:
        try:
            self._dispatch(fill=fill)
        except (BrokerError, *NO_CONNECTION) as error:
            self._recover(error)

    def _receive_or_recover(self) -> None:
        try:
            self._receive(self._in_flight[0])
        except (BrokerError, *NO_CONNECTION) as error:
            self._recover(error)

    def _dispatch(self, *, fill: bool) -> None:
        """Send requests to every leader that has enough for one: what there is room for; with `fill` off, all."""
        while self._in_flight and self._in_flight[0].connection.has_answer():
            self._receive(self._in_flight[0])
        for node_id, topic_partitions in self._by_leader().items():
            while self._has_request(topic_partitions, fill=fill):
                if batches := self._next_request(topic_partitions):
                    self._send(node_id, batches)
                elif fill and self._waiting_bytes < WAITING_BYTES_MAX:
                    break
                else:
                    of_leader = (each for each in self._in_flight if each.node_id == node_id)
                    self._receive(next(of_leader, self._in_flight[0]))

    def _by_leader(self) -> dict[int, list[TopicPartition]]:
        deadline = self._cluster.deadline()
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition, batches in self._waiting.items():
            if batches:
                leader = self._cluster.metadata.leader(topic_partition)
                if leader is None or self._cluster.is_old:
                    leader = run_blocking(self._cluster.leader(topic_partition, deadline))
                by_leader.setdefault(leader.leader, []).append(topic_partition)
        return by_leader

    def _has_request(self, topic_partitions: Iterable[TopicPartition], *, fill: bool) -> bool:
        enough = REQUEST_BYTES if fill else 1
        return self._waiting_bytes >= enough and any(self._waiting[each] for each in topic_partitions)

    def _next_request(self, topic_partitions: Iterable[TopicPartition]) -> list[_Batch]:
        batches: list[_Batch] = []
        size = 0
        if self._in_flight_bytes >= IN_FLIGHT_BYTES_MAX:
            return batches
        for each in topic_partitions:
            waiting = self._waiting[each]
            if not waiting or self._in_flight_of[each] >= IN_FLIGHT_MAX:
                continue
            if not batches or size + len(waiting[0].data) <= REQUEST_BYTES:
                batches.append(waiting[0])
                size += len(waiting[0].data)
        for batch in batches:
            waiting = self._waiting[batch.topic_partition]
            waiting.popleft()
            # The next request begins with partitions that this one had no room for.
            del self._waiting[batch.topic_partition]
            self._waiting[batch.topic_partition] = waiting
            self._waiting_bytes -= len(batch.data)
        return batches

    def _send(self, node_id: int, batches: list[_Batch]) -> None:
        try:
            connection = cast("BlockingConnection", run_blocking(self._cluster.connection(node_id, Lane.PRODUCE)))
            timeout_ms = self._cluster.options.request_timeout_ms
            data = [(each.topic_partition, each.data) for each in batches]
            request = produce_request(data, self._cluster.metadata, Acks.ALL, timeout_ms, self._transactional_id)
            connection.send_ahead(request, timeout_ms=timeout_ms)
        except BaseException:
            self._put_back(batches)
            raise
        self._in_flight.append(_InFlight(node_id, connection, request, batches))
        self._in_flight_of.update(each.topic_partition for each in batches)
        self._in_flight_bytes += sum(len(each.data) for each in batches)

    # --- answers ----------------------------------------------------------------------------------------------------

    def _receive(self, oldest: _InFlight) -> None:
        """Take the next answer of a leader; the first error among its partitions is raised after all were looked at."""
        self._in_flight.remove(oldest)
        self._in_flight_of.subtract(each.topic_partition for each in oldest.batches)
        self._in_flight_bytes -= sum(len(each.data) for each in oldest.batches)
        try:
            timeout_ms = self._cluster.options.request_timeout_ms
            response = oldest.connection.receive(oldest.request, ProduceResponse, timeout_ms=timeout_ms)
        except BaseException:
            self._put_back(oldest.batches)
            raise
        results = {each.topic_partition: each for each in produced(response, oldest.request)}
        refused = [each for each in oldest.batches if _error_of(each, results) not in _APPENDED]
        self._put_back(refused)
        self._appended += len(oldest.batches) - len(refused)
        if refused:
            raise _exception_of(refused[0], results)

    def _put_back(self, batches: Iterable[_Batch]) -> None:
        for batch in batches:
            waiting = self._waiting.setdefault(batch.topic_partition, deque())
            waiting.append(batch)
            self._waiting_bytes += len(batch.data)

    def _recover(self, error: ClientError) -> None:
        """Until something is appended again: take all answers, put what failed in its order, wait, send it again."""
        deadline, failures = self._cluster.deadline(), 0
        backoff = Backoff(self._cluster.options.retry_backoff_ms, self._cluster.options.retry_backoff_max_ms)
        while True:
            errors = [error, *self._take_all_answers()]
            self._renumber_or_raise(errors, deadline)
            delay_ms = backoff.delay_ms(failures, self._cluster.io.rng)
            if deadline.left_ms <= delay_ms:
                raise error
            logger.debug("sending again in %d ms: %s", delay_ms, error)
            run_blocking(self._cluster.io.pause(delay_ms))
            self._cluster.metadata.stale = True
            before = self._appended
            try:
                self._dispatch(fill=False)
                while self._in_flight:
                    self._receive(self._in_flight[0])
                return
            except (BrokerError, *NO_CONNECTION) as again:
                error, failures = again, failures + 1
                if self._appended > before:
                    deadline, failures = self._cluster.deadline(), 0

    def _take_all_answers(self) -> list[ClientError]:
        errors: list[ClientError] = []
        while self._in_flight:
            try:
                self._receive(self._in_flight[0])
            except (BrokerError, *NO_CONNECTION) as error:
                errors.append(error)
        for topic_partition, batches in self._waiting.items():
            self._waiting[topic_partition] = deque(sorted(batches, key=lambda each: each.place))
        return errors

    def _renumber_or_raise(self, errors: list[ClientError], deadline: Deadline) -> None:
        """Raise what sending again cannot help. Numbers that a broker does not follow begin anew with another id."""
        refusals = [each for each in errors if isinstance(each, BrokerError)]
        final = [each for each in refusals if not each.retriable and each.code not in _LOST_NUMBERS]
        if final:
            raise final[0]
        if len(refusals) < len(errors) or any(each.retriable for each in refusals):
            # The batches after one that is to be sent again are out of order until it is.
            return
        if self._fixed is not None:
            raise refusals[0]
        logger.warning("a new producer id is taken, and some records may be written twice: %s", refusals[0])
        self._idempotent.lose()
        run_blocking(self._cluster.retrying(self._idempotent.renew, deadline))
        self._next.clear()
        for batches in self._waiting.values():
            for batch in batches:
                self._number(batch, self._idempotent.current)


def _error_of(batch: _Batch, results: dict[TopicPartition, ProducedBatch]) -> ErrorCode:
    result = results.get(batch.topic_partition)
    return result.error if result is not None else ErrorCode.UNKNOWN_SERVER_ERROR


def _exception_of(batch: _Batch, results: dict[TopicPartition, ProducedBatch]) -> BrokerError:
    result = results.get(batch.topic_partition)
    if result is not None:
        return result.as_exception()
    message = f"the broker left {batch.topic_partition} out of its answer"
    return broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, message)
