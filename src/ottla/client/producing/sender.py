"""Takes batches from the accumulator to the leaders of their partitions.

One task looks at what can be sent whenever something has changed: a record came, an answer came, a time is due. It
writes requests in the order it decides on them; a task per request waits for the answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from ottla.client.errors import BrokerError, ClientError, UnsupportedApiError, broker_error
from ottla.client.io.asyncio_io import AsyncioConnection
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.client.producing.accumulator import RecordAccumulator
from ottla.client.producing.produce import Acks
from ottla.client.producing.produce_requests import ProduceRequests
from ottla.client.producing.producer_batch import ProducerBatch
from ottla.client.producing.producer_identity import ProducerIdentity
from ottla.client.producing.producer_options import ProducerOptions
from ottla.client.producing.producer_transactions import ProducerTransactions
from ottla.client.producing.settlement import Settlement
from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

_EXPIRY_CHECK_MS = 1_000
_LEADERS = -2
"""Stands in `_busy` while leaders are looked for."""


class Sender:
    """The sending half of one producer, on one event loop."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: RecordAccumulator,
        options: ProducerOptions,
        timer: Timer,
        tasks: Tasks,
        transactions: ProducerTransactions | None = None,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._options = options
        self._timer = timer
        self._tasks = tasks
        self._transactions = transactions
        self._identity = ProducerIdentity(cluster, wanted=options.is_idempotent)
        if transactions is not None:
            self._identity = transactions.identity
        self._settled = asyncio.Event()
        self.settlement = Settlement(cluster, accumulator, self._identity, self._settled.set)
        self._requests = ProduceRequests(cluster, accumulator, self._identity, self.settlement, options)
        if transactions is not None:
            transactions.attach(self.settlement, self.wake, self.next_settled)
        self._changed = asyncio.Event()
        self._in_flight: dict[int, int] = {}
        self._busy: set[int] = set()
        self._fatal: ClientError | None = None

    @property
    def fatal(self) -> ClientError | None:
        """What ended this producer for good, if anything did."""
        return self._fatal

    def wake(self) -> None:
        """Something can be sent that could not before."""
        self._changed.set()

    async def next_settled(self) -> None:
        """Return when the fate of some batch has become known after this call."""
        self._settled.clear()
        await self._settled.wait()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            self._changed.clear()
            self.settlement.give_up_late(self._now_ms, self._options.delivery_timeout_ms)
            if self._transactions is not None and self._transactions.failure is not None:
                self.settlement.give_up_waiting(self._transactions.failure)
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
        if self._transactions is not None and not self._transactions.may_send:
            return
        needs_identity = self._requests.needs_identity()
        if not self._accumulator.sendable(self._now_ms):
            return
        if needs_identity and not await self._get_identity():
            return
        while by_leader := self._ready_leaders():
            for node_id, topic_partitions in by_leader.items():
                connection = self._open_connection(node_id)
                if connection is not None:
                    self._send(node_id, connection, topic_partitions)

    def _ready_leaders(self) -> dict[int, list[TopicPartition]]:
        """The brokers that may get a further request now, with their partitions that have something to send."""
        by_leader, unknown = self._requests.by_leader(self._now_ms)
        if unknown or self._cluster.is_old:
            self._look_for_leaders(unknown)
        return {
            node_id: topic_partitions
            for node_id, topic_partitions in by_leader.items()
            if node_id not in self._busy and self._in_flight.get(node_id, 0) < self._options.in_flight_requests_max
        }

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
            self.settlement.note_leader(node_id, error)
            await self._cluster.io.pause(self._client_options.retry_backoff_ms)
        finally:
            self._busy.discard(node_id)
            self._changed.set()

    def _look_for_leaders(self, topics: set[str]) -> None:
        if _LEADERS not in self._busy:
            self._busy.add(_LEADERS)
            self._tasks.spawn(self._refresh(topics), "look for leaders")

    async def _refresh(self, topics: set[str]) -> None:
        topics = topics | self._unsettled_topics()
        try:
            errors = await self._cluster.refresh(topics)
            if errors:
                self.settlement.note_topics(
                    {name: broker_error(code, f"topic {name!r}") for name, code in errors.items()}
                )
            is_leaderless = self.settlement.note_leaderless()
            if is_leaderless or errors or any(self._cluster.metadata.topics.get(name) is None for name in topics):
                await self._cluster.io.pause(self._client_options.retry_backoff_ms)
        except ClientError as error:
            self.settlement.note_topics(dict.fromkeys(topics, error))
            await self._cluster.io.pause(self._client_options.retry_backoff_ms)
        finally:
            self._busy.discard(_LEADERS)
            self._changed.set()

    # --- sending ----------------------------------------------------------------------------------------------------

    def _send(self, node_id: int, connection: AsyncioConnection, topic_partitions: Sequence[TopicPartition]) -> None:
        attempt = self._requests.take(topic_partitions, self._now_ms)
        if attempt is None:
            return
        request, batches = attempt
        if self._options.acks == Acks.NONE:
            self._send_unanswered(connection, request, batches)
            return
        try:
            answer = connection.send(request, ProduceResponse, timeout_ms=self._client_options.request_timeout_ms)
        except ClientError as error:
            self.settlement.on_request_error(batches, error, is_sent=False)
            return
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        self._tasks.spawn(self._wait(node_id, request, answer, batches), f"produce to broker {node_id}")

    def _send_unanswered(
        self, connection: AsyncioConnection, request: ProduceRequest, batches: Sequence[ProducerBatch]
    ) -> None:
        try:
            connection.send_unanswered(request)
        except ClientError as error:
            self.settlement.on_request_error(batches, error)
            return
        self.settlement.on_unanswered(batches)

    async def _wait(
        self,
        node_id: int,
        request: ProduceRequest,
        answer: Callable[[], Awaitable[ProduceResponse]],
        batches: Sequence[ProducerBatch],
    ) -> None:
        try:
            with self._cluster.troubles.waiting(f"broker {node_id} has not answered Produce yet"):
                response = await answer()
        except (ClientError, InvalidInputError) as error:
            self.settlement.on_request_error(batches, error)
        else:
            self.settlement.on_response(batches, request, response)
        finally:
            self._in_flight[node_id] -= 1
            self._changed.set()

    # --- identity ---------------------------------------------------------------------------------------------------

    async def _get_identity(self) -> bool:
        """Get an identity, or the next epoch of it; whether there is one now."""
        if self._accumulator.any_in_flight:
            return False
        try:
            await self._identity.renew()
        except UnsupportedApiError as error:
            self.end(error)
            return False
        except ClientError as error:
            if isinstance(error, BrokerError) and not error.retriable:
                self.end(error)
                return False
            logger.debug("no producer id: %s", error)
            self.settlement.note_topics(dict.fromkeys(self._unsettled_topics(), error))
            await self._cluster.io.pause(self._client_options.retry_backoff_ms)
            self._changed.set()
            return False
        self._accumulator.renumber()
        return True

    def _unsettled_topics(self) -> set[str]:
        return {batch.topic_partition.topic for batch in self._accumulator.unsettled()}

    def end(self, error: ClientError) -> None:
        """Give up for good: everything unsettled fails with this error, and whatever comes."""
        self._fatal = error
        self.settlement.give_up_all(error)
