"""What a coordinator is asked about the transactions of one transactional id, for code that blocks.

Producers in any number of processes write the records, all with the same producer id and epoch. Only one of them
writes to each partition. The code that divides the work also begins and ends the transactions.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.admin.transaction_admin import TransactionAdmin, TransactionDescription
from ottla.client.arguments import INT64_MAX, flag, instance_of, partitions_of, whole_number
from ottla.client.errors import NO_CONNECTION, BrokerError, ProducerFencedError, broker_error
from ottla.client.io.blocking_io import run_blocking
from ottla.client.io.client_io import R
from ottla.client.io.cluster import TRANSACTION_COORDINATOR, Cluster
from ottla.client.io.retry import Backoff
from ottla.client.producing.producer_batch import Identity
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

logger = logging.getLogger(__name__)

_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
ENDING_PAUSE_MS = 5
"""The first wait for an end that is under way, which takes a few milliseconds while all brokers are there."""
_PREPARED = ("PrepareCommit", "PrepareAbort")


class Written(NamedTuple):
    """What a leader knows of a producer in one partition: its epoch there and the number of its last record."""

    epoch: int
    last_sequence: int


class BlockingTransactions:
    """One transactional id. Calls raise subclasses of ClientError; ProducerFencedError when another took over."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self.transactional_id = transactional_id

    def describe(self) -> TransactionDescription | None:
        """Its producer and transaction once no end is under way; None when nobody has used the id."""
        deadline = self._cluster.deadline()
        backoff = Backoff(ENDING_PAUSE_MS, self._cluster.options.retry_backoff_max_ms)
        failures = 0

        async def attempt() -> TransactionDescription | None:
            try:
                return await TransactionAdmin(self._cluster).describe(self.transactional_id)
            except BrokerError as error:
                if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    return None
                raise

        while True:
            found = run_blocking(self._cluster.retrying(attempt, deadline))
            if found is None or found.state not in _PREPARED:
                return found
            delay_ms = backoff.delay_ms(failures, self._cluster.io.rng)
            if deadline.left_ms <= delay_ms:
                raise broker_error(
                    ErrorCode.CONCURRENT_TRANSACTIONS, f"the transaction of {self.transactional_id!r} is being ended"
                )
            run_blocking(self._cluster.io.pause(delay_ms))
            failures += 1

    def take_over(self, timeout_ms: int) -> Identity:
        """Become its producer; whoever was can write no more, and what it had open is aborted when this returns."""
        whole_number("timeout_ms", timeout_ms, 1)
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms)
        what = f"becoming the producer of transactional id {self.transactional_id!r}"

        async def attempt() -> Identity:
            response = await self._ask(request, InitProducerIdResponse)
            self._check(response.error_code, what)
            return Identity(response.producer_id, response.producer_epoch, is_transactional=True)

        return run_blocking(self._cluster.retrying(attempt, self._cluster.deadline()))

    def end(self, identity: Identity, *, commit: bool) -> None:
        """Commit or abort; asked again until the outcome is known, however long the coordinator is away.

        Raises ProducerFencedError or BrokerError, such as INVALID_TXN_STATE if it has already ended the other way.
        """
        instance_of("identity", identity, Identity, ": see BlockingTransactions.take_over")
        flag("commit", commit)
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
        )
        what = f"{'committing' if commit else 'aborting'} the transaction of {self.transactional_id!r}"
        backoff = Backoff(self._cluster.options.retry_backoff_ms, self._cluster.options.retry_backoff_max_ms)
        failures = 0
        while True:
            try:
                response = run_blocking(self._ask(request, EndTxnResponse))
                self._check(response.error_code, what)
                return
            except (BrokerError, *NO_CONNECTION) as error:
                if isinstance(error, BrokerError) and not error.retriable:
                    raise
                self._cluster.metadata.stale = self._cluster.metadata.stale or not isinstance(error, BrokerError)
                log = logger.warning if failures % 30 == 10 else logger.debug
                log("%s goes on until the outcome is known: %s", what, error)
            run_blocking(self._cluster.io.pause(backoff.delay_ms(failures, self._cluster.io.rng)))
            failures += 1

    def written(self, partitions: Iterable[TopicPartition], producer_id: int) -> dict[TopicPartition, Written]:
        """What a producer has written to these partitions, as their leaders know it (DescribeProducers)."""
        found: dict[TopicPartition, Written] = {}
        wanted = set(partitions_of(partitions))
        whole_number("producer_id", producer_id, highest=INT64_MAX)
        deadline = self._cluster.deadline()

        async def attempt() -> None:
            by_leader: dict[int, dict[str, list[int]]] = {}
            for each in wanted - found.keys() - looked_at:
                leader = await self._cluster.leader(each, deadline)
                by_leader.setdefault(leader.leader, {}).setdefault(each.topic, []).append(each.partition)
            for node_id, topics in by_leader.items():
                request = DescribeProducersRequest(
                    topics=tuple(TopicRequest(name, tuple(numbers)) for name, numbers in topics.items())
                )
                response = await self._cluster.ask_node(node_id, request, DescribeProducersResponse)
                for topic in response.topics:
                    for answer in topic.partitions:
                        name = TopicPartition(topic.name, answer.partition_index)
                        if answer.error_code:
                            self._cluster.metadata.forget_topic(topic.name)
                            raise broker_error(answer.error_code, f"the producers of {name}", answer.error_message)
                        looked_at.add(name)
                        for producer in answer.active_producers:
                            if producer.producer_id == producer_id:
                                found[name] = Written(producer.producer_epoch, producer.last_sequence)

        looked_at: set[TopicPartition] = set()
        run_blocking(self._cluster.retrying(attempt, deadline))
        return found

    async def _ask(self, request: ApiMessage, response: type[R]) -> R:
        return await self._cluster.ask_coordinator(
            self.transactional_id, request, response, key_type=TRANSACTION_COORDINATOR
        )

    def _check(self, number: int, what: str) -> None:
        if not number:
            return
        error = broker_error(number, what)
        if error.code in _MOVED:
            self._cluster.forget_coordinator(self.transactional_id, TRANSACTION_COORDINATOR)
        if error.code in _FENCED:
            raise ProducerFencedError(self.transactional_id, str(error))
        raise error
