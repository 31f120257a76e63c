"""Keeps what clients push of their metrics in a topic, as any producer would (KIP-714).

The topic is made for the first push. Pushes wait in memory, bounded, while the topic's leader cannot be reached; a
client whose push finds no room is told to come again after its interval. Nothing of this is read before the first push.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.client_metrics import ATTRIBUTE_CHARACTERS_MAX, Push, kafka_id
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks

if TYPE_CHECKING:
    from ottla.client.producing.producer import Producer
    from ottla.server.own_client_io import OwnClientIo

logger = logging.getLogger(__name__)

WAITING_BYTES_MAX: Final = 8 << 20
"""Pushes that are not in the topic yet, compressed, and WAITING_MAX of them: of 100 clients some seconds' worth."""
WAITING_MAX: Final = 1_024

PATIENCE_MS: Final = 10_000
"""How long one push is tried; then it is dropped, and a line in the log says why."""

COMPLAIN_MS: Final = 60_000
"""How often that is said."""

_RECORD_OVERHEAD: Final = 64 << 10
"""What key, headers and batch add to a push, generously."""


class ClientMetricsTopic:
    """Satisfies `ottla.broker.client_metrics.Receiver`. Belongs to the event loop."""

    def __init__(
        self, own_client: Callable[[], "OwnClientIo"], broker_id: int, push_bytes_max: int, clock: Clock, tasks: Tasks
    ) -> None:
        """`own_client` makes what connects this broker to its own cluster."""
        self._own_client = own_client
        self._broker_id = broker_id
        self._record_bytes_max = push_bytes_max + _RECORD_OVERHEAD
        self._clock = clock
        self._tasks = tasks
        self._waiting: deque[Push] = deque()
        self._waiting_bytes = 0
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False
        self._producer: Producer | None = None
        self._complained_ms: int | None = None

    def receive(self, push: Push) -> None:
        """Have a push written. Raises ApiError THROTTLING_QUOTA_EXCEEDED while too many wait, and once closed."""
        if self._is_closed:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the broker is about to stop")
        size = len(push.metrics)
        if len(self._waiting) >= WAITING_MAX or (self._waiting and self._waiting_bytes + size > WAITING_BYTES_MAX):
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many pushes wait to be written")
        self._waiting.append(push)
        self._waiting_bytes += size
        if self._writing is None or self._writing.done():
            self._writing = self._tasks.spawn(self._write(), "client-metrics")

    async def close(self) -> None:
        """Drop what waits or is being written, and end the connection."""
        self._is_closed = True
        self._waiting.clear()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        await self._end_producer()

    async def _end_producer(self) -> None:
        if self._producer is not None:
            await self._producer.close(deliver=False)
            self._producer = None

    async def _write(self) -> None:
        from ottla.client.errors import ClientError

        while self._waiting:
            push = self._waiting.popleft()
            self._waiting_bytes -= len(push.metrics)
            try:
                await self._append(push)
            except ClientError as error:
                self._complain(error)
                await self._end_producer()  # the next one looks anew whether the topic is there

    async def _append(self, push: Push) -> None:
        from ottla.client.admin.pushed_metrics import CLIENT_METRICS_TOPIC, CODEC_NAMES, PushedMetrics

        client = push.client
        pushed = PushedMetrics(
            client_instance_id=kafka_id(push.client_instance_id),
            client_id=client.client_id[:ATTRIBUTE_CHARACTERS_MAX],
            software_name=client.software_name[:ATTRIBUTE_CHARACTERS_MAX],
            software_version=client.software_version[:ATTRIBUTE_CHARACTERS_MAX],
            address=client.address,
            port=client.port,
            broker_id=self._broker_id,
            compression=CODEC_NAMES[push.compression_type],
            is_last=push.is_last,
            pushed_ms=self._clock.now_ms(),
            metrics=push.metrics,
        )
        producer = self._producer or await self._start()
        await producer.send_and_wait(
            CLIENT_METRICS_TOPIC,
            pushed.metrics,
            key=pushed.client_instance_id.encode(),
            timestamp_ms=pushed.pushed_ms,
            headers=pushed.headers,
        )

    async def _start(self) -> "Producer":
        """Make the topic unless it is there, and a producer for it. Raises ClientError."""
        from ottla.client.admin.admin import Admin, NewTopic
        from ottla.client.admin.pushed_metrics import CLIENT_METRICS_TOPIC, RETENTION_BYTES, RETENTION_MS, SEGMENT_BYTES
        from ottla.client.errors import BrokerError
        from ottla.client.io.cluster import Cluster
        from ottla.client.options import ClientOptions
        from ottla.client.producing.producer import Producer
        from ottla.client.producing.producer_options import ProducerOptions

        io = self._own_client()
        options = ClientOptions.of(
            io.bootstrap,
            client_id="ottla-client-metrics",
            api_timeout_ms=PATIENCE_MS,
            request_timeout_ms=PATIENCE_MS,
        )
        cluster = Cluster(options, io)
        try:
            await cluster.connect()
            configs = {
                "cleanup.policy": "delete",
                "max.message.bytes": str(self._record_bytes_max),
                "retention.bytes": str(RETENTION_BYTES),
                "retention.ms": str(RETENTION_MS),
                "segment.bytes": str(SEGMENT_BYTES),
            }
            await Admin(cluster).create_topic(NewTopic(CLIENT_METRICS_TOPIC, 1, configs=configs))
        except BrokerError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        finally:
            cluster.close()
        producing = ProducerOptions(
            idempotent=False,
            batch_bytes=self._record_bytes_max,
            request_bytes_max=self._record_bytes_max,
            max_block_ms=PATIENCE_MS,
            delivery_timeout_ms=PATIENCE_MS,
        )
        self._producer = Producer(options, producing, io=io)
        await self._producer.start()
        return self._producer

    def _complain(self, error: Exception) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._complained_ms is None or now_ms - self._complained_ms >= COMPLAIN_MS:
            self._complained_ms = now_ms
            logger.warning("could not store metrics that clients pushed: %s", error)
