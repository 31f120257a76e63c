"""Takes batches from the accumulator to the leaders of their partitions, and what became of them back.

One task looks at what can be sent whenever something has changed: a record came, an answer came, a time is due. It
writes requests in the order it decides on them; a task per request waits for the answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from ottla.client.accumulator import RecordAccumulator
from ottla.client.asyncio_io import AsyncioConnection
from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerError, ClientError, UnsupportedApiError, broker_error
from ottla.client.options import ClientOptions
from ottla.client.produce import Acks, ProducedBatch, produce_request, produced
from ottla.client.producer_batch import NO_IDENTITY, NO_SEQUENCE, Compression, Identity, ProducerBatch
from ottla.client.producer_options import ProducerOptions
from ottla.client.retry import Backoff
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

_LOST_STATE = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH})
_EXPIRY_CHECK_MS = 1_000


class Sender:
    """The sending half of one producer, on one event loop."""

    def __init__(
        self, cluster: Cluster, accumulator: RecordAccumulator, options: ProducerOptions, timer: Timer, tasks: Tasks
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._options = options
        self._timer = timer
        self._tasks = tasks
        self._compression = Compression(options.compression, options.compression_level)
        self._identity = NO_IDENTITY
        self._needs_identity = options.is_idempotent
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._in_flight: dict[int, int] = {}
        self._busy: set[int] = set()
        self._last_error: dict[TopicPartition, Exception] = {}
        self._fatal: ClientError | None = None

    @property
    def fatal(self) -> ClientError | None:
        """What ended this producer for good, if anything did."""
        return self._fatal

    def wake(self) -> None:
        """Something can be sent that could not before."""
        self._changed.set()

    async def settled(self) -> None:
        """Return when the fate of some batch has become known after this call."""
        self._settled.clear()
        await self._settled.wait()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            self._changed.clear()
            self._expire()
            if self._fatal is None:
                await self._send_what_can_be_sent()
            now_ms = self._now_ms
            due_ms = self._accumulator.next_due_ms(now_ms)
            if self._accumulator.pending_batches:
                due_ms = min(due_ms or now_ms + _EXPIRY_CHECK_MS, now_ms + _EXPIRY_CHECK_MS)
            alarm = self._timer.schedule(due_ms - now_ms, self._changed.set) if due_ms is not None else None
            try:
                await self._changed.wait()
            finally:
                if alarm is not None:
                    alarm.cancel()

    @property
    def _clock(self) -> Clock:
        return self._cluster.io.clock

    @property
    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()

    @property
    def _client_options(self) -> ClientOptions:
        return self._cluster.options

    # --- deciding what to send --------------------------------------------------------------------------------------

    async def _send_what_can_be_sent(self) -> None:
        if not self._accumulator.sendable(self._now_ms):
            return
        if self._needs_identity and not await self._get_identity():
            return
        while by_leader := self._ready_leaders():
            for node_id, topic_partitions in by_leader.items():
                connection = self._open_connection(node_id)
                if connection is not None:
                    self._send(node_id, connection, topic_partitions)

    def _ready_leaders(self) -> dict[int, list[TopicPartition]]:
        """The brokers that may get a further request now, with their partitions that have something to send."""
        by_leader: dict[int, list[TopicPartition]] = {}
        unknown: set[str] = set()
        for topic_partition in self._accumulator.sendable(self._now_ms):
            leader = self._cluster.metadata.leader(topic_partition)
            if leader is None:
                unknown.add(topic_partition.topic)
            elif (
                leader.leader not in self._busy
                and self._in_flight.get(leader.leader, 0) < self._options.in_flight_requests_max
            ):
                by_leader.setdefault(leader.leader, []).append(topic_partition)
        if unknown or self._cluster.is_old:
            self._look_for_leaders(unknown)
        return by_leader

    def _open_connection(self, node_id: int) -> AsyncioConnection | None:
        connection = self._cluster.open_connection(node_id)
        if connection is not None:
            assert isinstance(connection, AsyncioConnection)
            return connection
        self._busy.add(node_id)
        self._tasks.spawn(self._connect(node_id), f"connect to broker {node_id}")
        return None

    async def _connect(self, node_id: int) -> None:
        try:
            await self._cluster.connection(node_id)
        except ClientError as error:
            logger.debug("broker %d: %s", node_id, error)
            self._cluster.metadata.stale = True
            self._note(error, node_id)
            await self._cluster.io.pause(self._client_options.retry_backoff_ms)
        finally:
            self._busy.discard(node_id)
            self._changed.set()

    def _look_for_leaders(self, topics: set[str]) -> None:
        if _LEADERS not in self._busy:
            self._busy.add(_LEADERS)
            self._tasks.spawn(self._refresh(topics), "look for leaders")

    async def _refresh(self, topics: set[str]) -> None:
        topics = topics | {batch.topic_partition.topic for batch in self._accumulator.unsettled()}
        try:
            errors = await self._cluster.refresh(topics)
            if errors:
                self._note_topics({name: broker_error(code, f"topic {name!r}") for name, code in errors.items()})
            if errors or any(self._cluster.metadata.topics.get(name) is None for name in topics):
                await self._cluster.io.pause(self._client_options.retry_backoff_ms)
        except ClientError as error:
            self._note_topics(dict.fromkeys(topics, error))
            await self._cluster.io.pause(self._client_options.retry_backoff_ms)
        finally:
            self._busy.discard(_LEADERS)
            self._changed.set()

    # --- sending ----------------------------------------------------------------------------------------------------

    def _send(self, node_id: int, connection: AsyncioConnection, topic_partitions: Sequence[TopicPartition]) -> None:
        batches = self._accumulator.take(topic_partitions, self._options.request_bytes_max, self._now_ms)
        encoded = self._encode(batches)
        if not encoded:
            return
        batches = [batch for batch in batches if not batch.outcome.done]
        timeout_ms = self._client_options.request_timeout_ms
        request = produce_request(encoded, self._cluster.metadata, self._options.acks, timeout_ms)
        if self._options.acks == Acks.NONE:
            self._send_unanswered(connection, request, batches)
            return
        try:
            answer = connection.send(request, ProduceResponse, timeout_ms=timeout_ms)
        except ClientError as error:
            self._on_request_error(batches, error)
            return
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        self._tasks.spawn(self._wait(node_id, request, answer, batches), f"produce to broker {node_id}")

    def _encode(self, batches: Sequence[ProducerBatch]) -> list[tuple[TopicPartition, bytearray]]:
        encoded = []
        for batch in batches:
            try:
                encoded.append((batch.topic_partition, batch.encode(self._compression, self._identity)))
            except (ValueError, TypeError, OverflowError) as error:
                self._give_up(batch, ClientError(f"records for {batch.topic_partition} cannot be encoded: {error}"))
        return encoded

    def _send_unanswered(
        self, connection: AsyncioConnection, request: ProduceRequest, batches: Sequence[ProducerBatch]
    ) -> None:
        try:
            connection.send_unanswered(request)
        except ClientError as error:
            self._on_request_error(batches, error)
            return
        for batch in batches:
            self._accumulator.succeed(batch, -1, -1)
        self._settled.set()

    async def _wait(
        self,
        node_id: int,
        request: ProduceRequest,
        answer: Awaitable[ProduceResponse],
        batches: Sequence[ProducerBatch],
    ) -> None:
        try:
            response = await answer
        except (ClientError, InvalidInputError) as error:
            self._on_request_error(batches, error)
        else:
            self._on_response(batches, request, response)
        finally:
            self._in_flight[node_id] -= 1
            self._changed.set()

    # --- what became of it ------------------------------------------------------------------------------------------

    def _on_request_error(self, batches: Sequence[ProducerBatch], error: Exception) -> None:
        self._cluster.metadata.stale = True
        for batch in batches:
            self._try_again(batch, error)

    def _on_response(
        self, batches: Sequence[ProducerBatch], request: ProduceRequest, response: ProduceResponse
    ) -> None:
        results = {result.topic_partition: result for result in produced(response, request)}
        for batch in batches:
            result = results.get(batch.topic_partition)
            if result is None:
                message = f"the broker left {batch.topic_partition} out of its answer"
                self._give_up(batch, broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, message))
            else:
                self._on_result(batch, result)

    def _on_result(self, batch: ProducerBatch, result: ProducedBatch) -> None:
        code = result.error
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._accumulator.succeed(batch, result.base_offset, result.log_append_time_ms)
            self._last_error.pop(batch.topic_partition, None)
            self._settled.set()
        elif code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            self._accumulator.split(batch)
        elif batch.sequence != NO_SEQUENCE and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # Refused because one before it is to be sent again: it follows. Otherwise the broker forgot what it had.
            self._needs_identity = self._needs_identity or self._accumulator.is_first(batch)
            self._try_again(batch, result.as_exception())
        elif batch.sequence != NO_SEQUENCE and code in _LOST_STATE:
            self._needs_identity = True
            self._try_again(batch, result.as_exception())
        elif result.as_exception().retriable:
            self._cluster.metadata.forget_topic(batch.topic_partition.topic)
            self._try_again(batch, result.as_exception())
        else:
            self._give_up(batch, result.as_exception())

    def _try_again(self, batch: ProducerBatch, error: Exception) -> None:
        self._last_error[batch.topic_partition] = error
        logger.debug("%s: %d records will be sent again: %s", batch.topic_partition, batch.record_count, error)
        backoff = Backoff(self._client_options.retry_backoff_ms, self._client_options.retry_backoff_max_ms)
        delay_ms = backoff.delay_ms(batch.attempts - 1, self._cluster.io.rng)
        self._accumulator.retry(batch, self._now_ms + delay_ms)

    def _give_up(self, batch: ProducerBatch, error: Exception) -> None:
        if batch.sequence != NO_SEQUENCE:
            # Its number will not come any more, so the broker would refuse those after it.
            self._needs_identity = True
        self._accumulator.fail(batch, error)
        self._settled.set()

    def _expire(self) -> None:
        for batch in self._accumulator.older_than(self._now_ms - self._options.delivery_timeout_ms):
            cause = self._last_error.get(batch.topic_partition)
            message = f"{batch.record_count} records for {batch.topic_partition} were not delivered within"
            why = f": {cause}" if cause is not None else ""
            error = broker_error(
                cause.code if isinstance(cause, BrokerError) else ErrorCode.REQUEST_TIMED_OUT,
                message + f" {self._options.delivery_timeout_ms} ms{why}",
                "gave up",
            )
            self._give_up(batch, error)

    def _note(self, error: Exception, node_id: int) -> None:
        for batch in self._accumulator.unsettled():
            leader = self._cluster.metadata.leader(batch.topic_partition)
            if leader is not None and leader.leader == node_id:
                self._last_error[batch.topic_partition] = error

    def _note_topics(self, errors: dict[str, ClientError] | dict[str, BrokerError]) -> None:
        for batch in self._accumulator.unsettled():
            error = errors.get(batch.topic_partition.topic)
            if error is not None:
                self._last_error[batch.topic_partition] = error

    # --- identity ---------------------------------------------------------------------------------------------------

    async def _get_identity(self) -> bool:
        """Get a producer id, or the next epoch of it; whether there is one now. Nothing may be in flight meanwhile."""
        if self._accumulator.any_in_flight:
            return False
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=2**31 - 1,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
        )
        try:
            response = await self._cluster.ask_any(request, InitProducerIdResponse)
            if response.error_code:
                raise broker_error(response.error_code, "asking for a producer id")
        except UnsupportedApiError as error:
            self.end(error)
            return False
        except BrokerError as error:
            if not error.retriable and self._identity == NO_IDENTITY:
                self.end(error)
                return False
            if not error.retriable:
                # The broker does not want the old id any more; begin as a new producer.
                self._identity = NO_IDENTITY
            await self._pause_after(error)
            return False
        except ClientError as error:
            await self._pause_after(error)
            return False
        self._identity = Identity(response.producer_id, response.producer_epoch)
        self._needs_identity = False
        self._accumulator.renumber()
        return True

    async def _pause_after(self, error: ClientError) -> None:
        logger.debug("no producer id: %s", error)
        self._note_topics(dict.fromkeys((b.topic_partition.topic for b in self._accumulator.unsettled()), error))
        await self._cluster.io.pause(self._client_options.retry_backoff_ms)
        self._changed.set()

    def end(self, error: ClientError) -> None:
        """Give up for good: everything unsettled fails with this error, and whatever comes."""
        self._fatal = error
        for batch in self._accumulator.unsettled():
            self._accumulator.fail(batch, error)
        self._settled.set()


_LEADERS = -2
"""Stands in `_busy` while leaders are looked for."""
