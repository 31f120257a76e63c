"""Writes records to topics: batched, in order, and each once even when answers are lost."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from ottla.client.arguments import (
    flag,
    function,
    instance_of,
    options_of,
    text,
    topic_name,
    whole_number,
)
from ottla.client.consuming.group_offsets import NO_MEMBER, CommittedOffset, Membership, offsets_to_commit
from ottla.client.errors import BrokerError, ClientError, TopicNotFoundError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Deadline
from ottla.client.io.troubles import Troubles
from ottla.client.options import ClientOptions, require_client_options
from ottla.client.producing.accumulator import BatchLimits, OnGiveUp, RecordAccumulator
from ottla.client.producing.delivery import Delivery, RecordMetadata
from ottla.client.producing.partitioner import DefaultPartitioner, Partitioner
from ottla.client.producing.producer_batch import Header, ProducerBatch, record_bytes, require_encodable
from ottla.client.producing.producer_options import ProducerOptions
from ottla.client.producing.producer_transactions import ProducerTransactions
from ottla.client.producing.sender import Sender
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer


class Producer:
    """A producer on the running event loop; any number of its tasks may use it.

    >>> async with Producer(ClientOptions.of("localhost:9092")) as producer:  # doctest: +SKIP
    ...     delivery = await producer.send("events", b"value", key=b"key")  # taken, on its way
    ...     metadata = await delivery  # appended: partition and offset

    Records of one partition are appended in the order they were sent. By default each successful `send` appends its
    record exactly once, including retries (idempotence, KIP-98). Records are collected into batches by partition, as
    `ProducerOptions` says. Leaving the `async with` block delivers all accepted records.
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
        self._options = options_of("producer_options", producer_options, ProducerOptions)
        self._io = io or AsyncioIo()
        self._cluster = Cluster(require_client_options(options), self._io)
        if on_give_up is not None:
            function("on_give_up", on_give_up)
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
        """Accept a record; await the returned delivery for its result.

        Waits up to `max_block_ms` for metadata of a new topic, and for room while more than `buffer_bytes` are
        unsettled. `value=None` is a tombstone. Raises TypeError for a key, value or header that is not bytes,
        InvalidOptionError for a name that no topic can have and a timestamp before 1970,
        TopicNotFoundError, and BrokerError if the record is larger than `request_bytes_max` or there is no room.
        """
        require_encodable(topic, value, key, partition, timestamp_ms, headers)
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
        """Accept one encoded record batch; the delivery is that of its first record.

        The producer owns the bytes from now on: it writes its id and sequence number into them. Waits and raises as
        `send`.
        """
        if not isinstance(batch, bytearray):
            raise TypeError(f"batch must be a bytearray, which the producer writes into, not {type(batch).__name__}")
        topic_name(topic)
        whole_number("record_count", record_count, 1)
        whole_number("partition", partition)
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

    @property
    def io(self) -> AsyncioIo:
        """Its clock and its pauses."""
        return self._io

    @property
    def troubles(self) -> Troubles:
        """The problems that this client is waiting for, such as an unreachable broker."""
        return self._cluster.troubles

    async def partitions(self, topic: str) -> int:
        """The number of partitions of a topic. Raises TopicNotFoundError."""
        return await self._partition_count(topic)

    async def exists(self, topic: str) -> bool:
        """Whether a topic exists; the call does not create it. Raises ClientError."""
        errors = await self._cluster.refresh((topic_name(topic),))
        return errors.get(topic) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def flush(self) -> None:
        """Send all accepted records without lingering, and return when each is appended or has failed."""
        self._accumulator.flush()
        self._running.wake()
        waiters = [batch.outcome.waiter() for batch in self._accumulator.unsettled()]
        if waiters:
            await asyncio.wait(waiters)

    # --- transactions (`ProducerOptions.transactional_id`) ----------------------------------------------------------

    async def init_transactions(self) -> None:
        """Become the producer of the transactional id, once, before the first transaction.

        Aborts the open transaction of an earlier producer with that id, and fences that producer. Retries up to
        `max_block_ms`, as the other calls do. Raises ClientError.
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
        """Commit offsets of a group as part of the transaction: each is the offset of the next record to read.

        `member` is the consumer's membership (`Consumer.membership`): without, a consumer that lost its partitions to
        another can still commit for them. Raises TransactionAbortableError when it has.
        """
        committed = offsets_to_commit(offsets)
        text("group_id", group_id)
        instance_of("member", member, Membership, ": pass Consumer.membership")
        deadline = Deadline(self._io.clock, self._options.max_block_ms)
        await self._transactional.send_offsets(group_id, committed, deadline, member)

    async def commit_transaction(self) -> None:
        """Deliver all records and commit: `read_committed` consumers see all of them or none.

        Raises TransactionAbortableError when a part of it failed: abort then. Raises ProducerFencedError when another
        producer took over. After any other error it is not known which way the transaction went, and this can be called
        again to learn it.
        """
        transactions = self._transactional
        await self.flush()
        await transactions.commit(Deadline(self._io.clock, self._options.max_block_ms))

    async def abort_transaction(self) -> None:
        """Discard undelivered records and abort: `read_committed` consumers never see any record of the transaction."""
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
        """Flush, unless `deliver` is false, and close the connections. Undelivered records fail."""
        flag("deliver", deliver)
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
        known = self._cluster.metadata.topics.get(topic) if isinstance(topic, str) else None
        if known is None:
            topic_name(topic)
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
                    await self._running.next_settled()
        except TimeoutError:
            raise BrokerError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"no room for a record within {self._options.max_block_ms} ms: the brokers take less than is sent",
            ) from None
