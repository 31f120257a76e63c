"""The transaction coordinator: transactional ids and what their producers do, for whichever gateway asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from msgspec.structs import replace

from ottla.coordination.key_partition import partition_of_key
from ottla.coordination.limits import CoordinatorLimits
from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.coordination.runtime import CoordinatorRuntime
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import TRANSACTION_STATE_TOPIC
from ottla.model.topic_partition import TopicPartition
from ottla.replication.partition import Partition
from ottla.runtime.environment import Environment
from ottla.runtime.turns import in_turns
from ottla.transactions.answers import (
    AddAnswer,
    DescribeTransactionAnswer,
    EndAnswer,
    InitAnswer,
    TransactionListing,
)
from ottla.transactions.messages import MarkerChannel, WriteMarkers
from ottla.transactions.requests import AddPartitions, EndTransaction, InitProducer, TransactionFilter
from ottla.transactions.transaction import EPOCH_BUMP_VERSION, Transaction
from ottla.transactions.transaction_config import TRANSACTIONAL_ID_BYTES_MAX, TransactionConfig

if TYPE_CHECKING:
    from ottla.transactions.transaction_shard import TransactionShard

R = TypeVar("R")
RequestOfProducer = TypeVar("RequestOfProducer", InitProducer, EndTransaction)

NextProducerId = Callable[[], Awaitable[int]]
"""Gives out a producer id that nobody had. Raises ApiError when there is none now."""


class TransactionCoordinator:
    """All transactional ids this broker coordinates.

    Every operation takes a `waiter`, which is called exactly once with the answer named in its docstring: at once when
    the request is refused, else when everything the answer rests on is committed. An answer's `error` is
    NOT_COORDINATOR when another broker coordinates the transactional id, COORDINATOR_LOAD_IN_PROGRESS while this one is
    still reading it, and INVALID_REQUEST for an id that is empty or too long.

    Belongs to the event loop; nothing here blocks.
    """

    __slots__ = (
        "_channel",
        "_cluster_version",
        "_environment",
        "_epochs",
        "_image",
        "_next_producer_id",
        "_runtime",
        "_topic_id",
        "config",
        "partition_count",
    )

    def __init__(
        self,
        config: TransactionConfig,
        environment: Environment,
        channel: MarkerChannel,
        next_producer_id: NextProducerId,
        cluster_version: Callable[[], int] = lambda: EPOCH_BUMP_VERSION,
    ) -> None:
        """`cluster_version` gives the finalized level of `transaction.version`."""
        self.config = config
        self.partition_count = config.state_log_partitions
        """Over how many partitions transactional ids are spread: as many as their topic had when this broker first saw
        it. A topic that grows moves no id before the next start, as in Apache Kafka.
        """
        self._topic_id: UUID | None = None
        self._image = MetadataImage("")
        self._epochs: dict[int, int] = {}
        self._channel = channel
        self._cluster_version = cluster_version
        self._next_producer_id = next_producer_id
        limits = CoordinatorLimits(load_chunk_bytes=config.load_buffer_bytes)
        self._environment = environment
        self._runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            self._new_shard, environment, limits, send=self._send
        )

    # What the server says

    def elected(self, partition: Partition) -> None:
        """This broker leads a partition of the transaction topic from now on: load its ids in the background."""
        self._epochs[partition.index] = partition.leader_epoch
        self._runtime.elected(partition)

    def resigned(self, partition: Partition) -> None:
        """This broker leads a partition of the transaction topic no longer."""
        self._runtime.resigned(partition.index)

    def metadata_changed(self, image: MetadataImage, deleted_topics: Collection[str] = ()) -> None:
        """The topics there are now. To be told before `elected` for the partitions of the same image."""
        del deleted_topics  # of what is gone a transaction is told when its markers cannot be written
        self._image = image
        topic = image.topic(TRANSACTION_STATE_TOPIC)
        if topic is not None and topic.topic_id != self._topic_id:
            self._topic_id = topic.topic_id
            self.partition_count = len(topic.partitions)

    def close(self) -> None:
        """The broker stops: everybody who waits is sent to look for another coordinator."""
        self._runtime.close()

    def partition_of(self, transactional_id: str) -> int:
        """The partition of the transaction topic whose leader coordinates the id."""
        return partition_of_key(transactional_id, self.partition_count)

    # Producers

    def init_producer(self, request: InitProducer, waiter: Waiter) -> None:
        """InitProducerId; answers with an InitAnswer."""
        if not 0 < request.timeout_ms <= self.config.max_timeout_ms and _is_legal(request.transactional_id):
            waiter(InitAnswer(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return
        self._submit_with_producer_id(lambda shard, *asked: shard.handle_init(*asked), request, waiter, InitAnswer)

    def add_partitions(self, request: AddPartitions, waiter: Waiter) -> None:
        """Have partitions take part in a transaction, or ask whether they do; answers with an AddAnswer.

        That the partitions exist is the caller's to check.
        """
        self._submit(
            lambda shard, *asked: shard.handle_add(*asked), request.transactional_id, request, waiter, AddAnswer
        )

    def end(self, request: EndTransaction, waiter: Waiter) -> None:
        """EndTxn; answers with an EndAnswer. The markers are on their way by then."""
        self._submit_with_producer_id(lambda shard, *asked: shard.handle_end(*asked), request, waiter, EndAnswer)

    # Administrators

    def describe(self, transactional_id: str, waiter: Waiter) -> None:
        """DescribeTransactions of one id; answers with a DescribeTransactionAnswer."""
        self._submit(
            lambda shard, *asked: shard.handle_describe(*asked),
            transactional_id,
            transactional_id,
            waiter,
            DescribeTransactionAnswer,
        )

    async def list_transactions(self, wanted: TransactionFilter) -> list[TransactionListing]:
        """The transactional ids this broker coordinates now, looked at some in a turn of the loop.

        Raises ApiError COORDINATOR_LOAD_IN_PROGRESS while some are still being read: the list would lack them.
        """
        if self._runtime.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "transactions are still being loaded")
        now_ms = self._environment.clock.now_ms()
        every = [each for shard in self._runtime.active_shards() for each in shard.transactions()]
        listed: list[TransactionListing] = []
        async for some in in_turns(every):
            listed += (
                TransactionListing(transactional_id, transaction.producer_id, transaction.state.label)
                for transactional_id, transaction in some
                if _passes(transaction, wanted, now_ms)
            )
        return listed

    # Markers

    def _send(self, message: WriteMarkers) -> None:
        """A transaction is decided for good: have its partitions told."""

        def on_written(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            index = self.partition_of(message.transactional_id)
            may_complete = self._runtime.takes_records(index)
            self._runtime.submit(
                index,
                lambda shard, now_ms, once: shard.handle_markers(
                    now_ms, message, errors, once, may_complete=may_complete
                ),
                lambda answer: None,
                Answer,
            )

        self._channel.write(message.marker, message.partitions, on_written)

    def _new_shard(self, index: int) -> TransactionShard:
        """A broker that leads no partition of the transaction topic never reads the file."""
        from ottla.transactions.transaction_shard import TransactionShard

        return TransactionShard(
            self.config,
            coordinator_epoch=self._epochs[index],
            cluster_version=self._cluster_version,
            has_partition=self._has_partition,
        )

    def _has_partition(self, partition: TopicPartition) -> bool:
        topic = self._image.topic(partition.topic)
        return topic is not None and 0 <= partition.partition < len(topic.partitions)

    def _submit(
        self,
        handle: Callable[[TransactionShard, int, R, Waiter], Outcome],
        transactional_id: str,
        request: R,
        waiter: Waiter,
        answer_type: type[Answer],
        *,
        needs_log: bool = False,
    ) -> None:
        if not _is_legal(transactional_id):
            waiter(answer_type(ErrorCode.INVALID_REQUEST))
            return
        self._runtime.submit(
            self.partition_of(transactional_id),
            lambda shard, now_ms, once: handle(shard, now_ms, request, once),
            waiter,
            answer_type,
            needs_log=needs_log,
        )

    def _submit_with_producer_id(
        self,
        handle: Callable[[TransactionShard, int, RequestOfProducer, Waiter], Outcome],
        request: RequestOfProducer,
        waiter: Waiter,
        answer_type: type[InitAnswer] | type[EndAnswer],
    ) -> None:
        """Ask, and where a new producer id is needed get one and ask again: the shard cannot wait for it."""
        submit = partial(self._submit, handle, request.transactional_id, needs_log=True)

        async def ask_again() -> None:
            try:
                producer_id = await self._next_producer_id()
            except ApiError as error:
                waiter(answer_type(error.code))
            else:
                submit(replace(request, new_producer_id=producer_id), waiter, answer_type)

        def on_answer(answer: InitAnswer | EndAnswer) -> None:
            if answer.needs_producer_id:
                self._environment.tasks.spawn(ask_again(), "a producer id for a transactional id")
            else:
                waiter(answer)

        submit(request, on_answer, answer_type)


def _is_legal(transactional_id: str) -> bool:
    return len(transactional_id) > 0 and len(transactional_id.encode()) <= TRANSACTIONAL_ID_BYTES_MAX


def _passes(transaction: Transaction, wanted: TransactionFilter, now_ms: int) -> bool:
    """Whether a transaction passes the filters; one that has not begun goes on since for ever, as in Apache Kafka."""
    if wanted.producer_ids and transaction.producer_id not in wanted.producer_ids:
        return False
    if wanted.states and transaction.state.label not in wanted.states:
        return False
    return wanted.duration_ms < 0 or now_ms - transaction.start_ms > wanted.duration_ms
