"""Writes records to topics: batched, in order, and each once even when answers are lost."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from ottla.client.accumulator import BatchLimits, OnGiveUp, RecordAccumulator
from ottla.client.asyncio_io import AsyncioIo
from ottla.client.cluster import Cluster
from ottla.client.delivery import Delivery, RecordMetadata
from ottla.client.errors import BrokerError, ClientError, TopicNotFoundError
from ottla.client.group_offsets import NO_MEMBER, CommittedOffset, Membership
from ottla.client.options import ClientOptions
from ottla.client.partitioner import DefaultPartitioner, Partitioner
from ottla.client.producer_batch import Header, ProducerBatch, record_bytes
from ottla.client.producer_options import ProducerOptions
from ottla.client.producer_transactions import ProducerTransactions
from ottla.client.retry import Deadline
from ottla.client.sender import Sender
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer


class Producer:
    """A producer on the running event loop; any number of its tasks may use it.

    >>> async with Producer(ClientOptions.of("localhost:9092")) as producer:  # doctest: +SKIP
    ...     delivery = await producer.send("events", b"value", key=b"key")  # taken, on its way
    ...     metadata = await delivery  # appended: partition and offset

    Records of one partition are appended in the order they were sent. By default a record is appended exactly once for
    each `send` that succeeds, whatever is retried on the way (idempotence, KIP-98). Records are gathered into batches
    by partition; `ProducerOptions` says how. Leaving the `async with` block delivers what was taken.
    """

    def __init__(
        self,
        options: ClientOptions,
        producer_options: ProducerOptions | None = None,
        *,
        partitioner: Partitioner | None = None,
        on_give_up: OnGiveUp | None = None,
        io: AsyncioIo | None = None,
    ) -> None:
        self._options = producer_options or ProducerOptions()
        self._io = io or AsyncioIo()
        self._cluster = Cluster(options, self._io)
        self._partitioner = partitioner or DefaultPartitioner(self._io.rng, self._options.batch_bytes)
        limits = BatchLimits(self._options.batch_bytes, self._options.linger_ms)
        self._accumulator = RecordAccumulator(limits, idempotent=self._options.is_idempotent, on_give_up=on_give_up)
        self._tasks = Tasks("producer", on_failure=self._on_crash)
        self._sender: Sender | None = None
        self._transactions: ProducerTransactions | None = None
        if self._options.transactional_id is not None:
            self._transactions = ProducerTransactions(
                self._cluster,
                self._accumulator,
                self._options.transactional_id,
                self._options.transaction_timeout_ms,
            )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(deliver=kind is None)

    async def start(self) -> None:
        """Reach the cluster. Raises BrokerUnreachableError at once when none of the addresses answers."""
        await self._cluster.connect()
        timer = Timer(self._io.clock, asyncio.get_running_loop().call_later)
        self._sender = Sender(self._cluster, self._accumulator, self._options, timer, self._tasks, self._transactions)
        self._tasks.spawn(self._sender.run(), "sender")

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> Delivery:
        """Take a record; what to await for its fate.

        Waits for metadata of a topic it has not seen, and for room while more than `buffer_bytes` are unsettled: up to
        `max_block_ms`. `value=None` is a tombstone. Raises TopicNotFoundError, and BrokerError when the record is
        larger than `request_bytes_max` or there is no room.
        """
        if self._transactions is not None:
            self._transactions.require_open()
        known = self._cluster.metadata.topics.get(topic)
        count = len(known.partitions) if known is not None else await self._partition_count(topic)
        size = record_bytes(key, value, headers)
        if partition is None:
            partition = self._partitioner.partition(topic, key, count, size)
        elif not 0 <= partition < count:
            raise TopicNotFoundError(topic, partition)
        if (
            size + self._accumulator.pending_bytes > self._options.buffer_bytes
            or size > self._options.request_bytes_max
        ):
            await self._room(size, topic)
        now_ms = self._io.clock.monotonic_ms()
        time_ms = self._io.clock.now_ms() if timestamp_ms is None else timestamp_ms
        delivery = self._accumulator.append(
            TopicPartition(topic, partition), (time_ms, key, value, headers), size, now_ms
        )
        self._running.wake()
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> RecordMetadata:
        """`send`, and wait until the record is appended."""
        return await (
            await self.send(topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers)
        )

    async def send_encoded(self, topic: str, partition: int, batch: bytearray, record_count: int) -> Delivery:
        """Take one encoded record batch; the delivery is that of its first record.

        The bytes are taken over: the producer writes its id and sequence number into them. Waits and raises as `send`.
        """
        if self._transactions is not None:
            self._transactions.require_open()
        if not 0 <= partition < await self._partition_count(topic):
            raise TopicNotFoundError(topic, partition)
        await self._room(len(batch), topic)
        now_ms = self._io.clock.monotonic_ms()
        taken = ProducerBatch.of_encoded(TopicPartition(topic, partition), now_ms, batch, record_count)
        delivery = self._accumulator.append_encoded(taken)
        self._running.wake()
        return delivery

    async def partitions(self, topic: str) -> int:
        """How many partitions a topic has. Raises TopicNotFoundError."""
        return await self._partition_count(topic)

    async def flush(self) -> None:
        """Send what was taken so far without lingering, and return when the fate of all of it is known."""
        self._accumulator.flush()
        self._running.wake()
        waiters = [batch.outcome.waiter() for batch in self._accumulator.unsettled()]
        if waiters:
            await asyncio.wait(waiters)

    # --- transactions (`ProducerOptions.transactional_id`) ----------------------------------------------------------

    async def init_transactions(self) -> None:
        """Become the producer of the transactional id, once, before the first transaction.

        What an earlier producer of that id left open is aborted, and it can write no more. Retried up to
        `max_block_ms`, as the other calls are. Raises ClientError.
        """
        await self._transactional.init(Deadline(self._io.clock, self._options.max_block_ms))

    def begin_transaction(self) -> None:
        """Begin a transaction: records from here on are part of it."""
        self._transactional.begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        group_id: str,
        member: Membership = NO_MEMBER,
    ) -> None:
        """Commit, as part of the transaction, where a group goes on reading: each offset is that of the next record.

        `member` is the consumer's membership (`Consumer.membership`): without, a consumer that lost its partitions to
        another can still commit for them. Raises TransactionAbortableError when it has.
        """
        committed = {
            name: offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)
            for name, offset in offsets.items()
        }
        deadline = Deadline(self._io.clock, self._options.max_block_ms)
        await self._transactional.send_offsets(group_id, committed, deadline, member)

    async def commit_transaction(self) -> None:
        """Deliver what was taken, and commit: consumers of committed records see all of it, or nothing.

        Raises TransactionAbortableError when a part of it failed: abort then. Raises ProducerFencedError when another
        producer took over. After any other error it is not known which way the transaction went, and this can be called
        again to learn it.
        """
        transactions = self._transactional
        await self.flush()
        await transactions.commit(Deadline(self._io.clock, self._options.max_block_ms))

    async def abort_transaction(self) -> None:
        """Give up what was not delivered, and abort: nothing of it is ever seen by consumers of committed records."""
        await self._transactional.abort(Deadline(self._io.clock, self._options.max_block_ms))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction that is committed at the end of an `async with` block, and aborted when it raises.

        >>> async with producer.transaction():  # doctest: +SKIP
        ...     await producer.send("events", b"value")
        """
        self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            if self._transactional.can_abort:
                await self.abort_transaction()
            raise

    @property
    def _transactional(self) -> ProducerTransactions:
        if self._transactions is None:
            raise ClientError("this producer has no transactions: set transactional_id in its ProducerOptions")
        if self._sender is None:
            raise ClientError("the producer is not started: use `async with Producer(...)` or `await producer.start()`")
        return self._transactions

    async def close(self, *, deliver: bool = True) -> None:
        """Flush, unless `deliver` is false, and end the connections. What is not delivered fails."""
        if self._sender is not None and deliver:
            await self.flush()
        await self._tasks.close()
        for batch in self._accumulator.unsettled():
            self._accumulator.fail(batch, ClientError("the producer was closed before the record was delivered"))
        self._cluster.close()

    def _on_crash(self, task: str, error: BaseException) -> None:
        if self._sender is not None:
            self._sender.end(ClientError(f"the producer failed in {task!r}: {error!r}"))

    @property
    def _running(self) -> Sender:
        if self._sender is None:
            raise ClientError("the producer is not started: use `async with Producer(...)` or `await producer.start()`")
        if self._sender.fatal is not None:
            raise self._sender.fatal
        return self._sender

    async def _partition_count(self, topic: str) -> int:
        known = self._cluster.metadata.topics.get(topic)
        if known is None:
            deadline = Deadline(self._io.clock, self._options.max_block_ms)
            known = await self._cluster.topic(topic, deadline, create=True)
        return len(known.partitions)

    async def _room(self, size: int, topic: str) -> None:
        if size > self._options.request_bytes_max:
            raise BrokerError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record of {size} bytes for topic {topic!r} is larger than a request may be,"
                f" {self._options.request_bytes_max} bytes",
            )
        if (
            self._accumulator.pending_bytes + size <= self._options.buffer_bytes
            or not self._accumulator.pending_batches
        ):
            return
        try:
            async with asyncio.timeout(self._options.max_block_ms / 1000):
                while self._accumulator.pending_batches and (
                    self._accumulator.pending_bytes + size > self._options.buffer_bytes
                ):
                    await self._running.settlement.next_settled()
        except TimeoutError:
            raise BrokerError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"no room for a record within {self._options.max_block_ms} ms: the brokers take less than is sent",
            ) from None
