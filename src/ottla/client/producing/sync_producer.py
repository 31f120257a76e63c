"""The producer for blocking code: the asyncio producer, in an event loop thread."""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Final, NamedTuple, Self

from ottla.client.arguments import flag, options_of
from ottla.client.errors import ClientError
from ottla.client.io.loop_client import LoopClient
from ottla.client.options import Bootstrap, client_options
from ottla.client.producing.delivery import Delivery, RecordMetadata
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_batch import Header, record_bytes, require_encodable
from ottla.client.producing.producer_options import ProducerOptions

INBOX_BYTES_MAX: Final = 8 * 1024 * 1024
"""Records on their way to the event loop; `send` blocks while there are more."""
INBOX_RECORDS_MAX: Final = 10_000


class _Record(NamedTuple):
    future: Future[RecordMetadata]
    size: int
    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    timestamp_ms: int | None
    headers: Sequence[Header]


class SyncProducer:
    """A producer for blocking code; any number of threads may use it.

    >>> with SyncProducer("localhost:9092") as producer:  # doctest: +SKIP
    ...     future = producer.send("events", b"value", key=b"key")
    ...     metadata = future.result()  # appended: partition and offset

    Records of one thread and partition are appended in the order in which they were sent. Each successful `send`
    appends its record exactly once. Leaving the `with` block delivers all sent records. Do not share it over a fork.
    """

    def __init__(self, bootstrap: Bootstrap, options: ProducerOptions | None = None) -> None:
        """Reach the cluster. Raises BrokerUnreachableError at once when no address answers."""
        client = client_options(bootstrap)
        options = options_of("options", options, ProducerOptions)
        if options.transactional_id is not None:
            raise ClientError("SyncProducer has no transactions: use ottla.client.Producer, or BlockingClient")
        self._inbox: deque[_Record] = deque()
        self._inbox_bytes = 0
        self._changed = threading.Condition()
        self._is_draining = False
        self._is_closed = False
        self._gives_up = False
        self._failure: Exception | None = None
        self._loop = LoopClient("producer", lambda: Producer(client, options))
        self._producer = self._loop.client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(deliver=kind is None)

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> Future[RecordMetadata]:
        """Send a record; the future has its partition and offset, or the reason why it was not appended.

        `value=None` is a tombstone. Blocks while too many records wait to be sent. Raises TypeError for a key, value
        or header that is not bytes, and ClientError after `close`.
        """
        require_encodable(topic, value, key, partition, timestamp_ms, headers)
        size = record_bytes(key, value, headers)
        record = _Record(Future(), size, topic, value, key, partition, timestamp_ms, headers)
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._has_room(size))
            if self._is_closed:
                raise ClientError("the producer is closed")
            self._inbox.append(record)
            self._inbox_bytes += size
            begins, self._is_draining = not self._is_draining, True
        if begins:
            self._loop.submit(self._drain())
        return record.future

    def flush(self) -> None:
        """Return when all records sent so far are appended. Raises the first error of a record since the last flush."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_draining)
        self._loop.call(self._producer.flush())
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self, *, deliver: bool = True) -> None:
        """Flush, unless `deliver` is false, and end the connections. Raises as `flush`."""
        flag("deliver", deliver)
        with self._changed:
            was_closed, self._is_closed = self._is_closed, True
            self._changed.notify_all()
        if was_closed:
            return
        self._gives_up = not deliver
        try:
            if deliver:
                self.flush()
        finally:
            self._loop.close(self._producer.close(deliver=False))

    def _has_room(self, size: int) -> bool:
        return not self._inbox or (self._inbox_bytes + size <= INBOX_BYTES_MAX and len(self._inbox) < INBOX_RECORDS_MAX)

    # --- in the event loop's thread -----------------------------------------------------------------------------

    async def _drain(self) -> None:
        while True:
            with self._changed:
                if not self._inbox:
                    self._is_draining = False
                    self._changed.notify_all()
                    return
                records, self._inbox = self._inbox, deque()
                self._inbox_bytes = 0
                self._changed.notify_all()
            for record in records:
                if self._gives_up:
                    self._fail(record.future, ClientError("the producer was closed before the record was sent"))
                else:
                    await self._send(record)

    async def _send(self, record: _Record) -> None:
        try:
            delivery = await self._producer.send(
                record.topic,
                record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
            )
        except Exception as error:
            self._fail(record.future, error)
        else:
            delivery.add_done_callback(lambda done: self._settle(record.future, done))

    def _settle(self, future: Future[RecordMetadata], delivery: Delivery) -> None:
        error = delivery.error
        if error is not None:
            self._fail(future, error)
        elif future.set_running_or_notify_cancel():
            future.set_result(delivery.result())

    def _fail(self, future: Future[RecordMetadata], error: Exception) -> None:
        self._failure = self._failure or error
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
