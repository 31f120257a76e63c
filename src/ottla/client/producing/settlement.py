"""What becomes of batches: appended, sent again, divided, or given up.

Pure decisions, for the asyncio and the blocking producer: of the cluster this reads what is known of it, its clock and
its chance, and sends nothing.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from ottla.client.errors import BrokerError, ClientError, broker_error
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Backoff
from ottla.client.producing.accumulator import RecordAccumulator
from ottla.client.producing.produce import ProducedBatch, produced
from ottla.client.producing.producer_batch import ProducerBatch
from ottla.client.producing.producer_identity import ProducerIdentity
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.records.batch import NO_SEQUENCE

logger = logging.getLogger(__name__)

_LOST_STATE = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH})
_NEW_EPOCH = _LOST_STATE | {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}


_NOT_APPENDED = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER})
"""Refusals that come before anything is appended. After any other a batch may be there: its leader may have appended it
and lost the leadership before the others had it."""

_EVER_MS = 1 << 62


class Settlement:
    """Tells the accumulator the fate of each batch, and remembers why a partition does not get on."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: RecordAccumulator,
        identity: ProducerIdentity,
        on_settled: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._identity = identity
        self._backoff = Backoff(cluster.options.retry_backoff_ms, cluster.options.retry_backoff_max_ms)
        self._last_error: dict[TopicPartition, Exception] = {}
        self._on_settled = on_settled
        self.newest_error: Exception | None = None
        """Why a batch was last to be sent again."""

    def on_unanswered(self, batches: Sequence[ProducerBatch]) -> None:
        """Sent with acks=0: that is all that will be known."""
        for batch in batches:
            self._accumulator.succeed(batch, -1, -1)
        self._on_settled()

    def on_request_error(self, batches: Sequence[ProducerBatch], error: Exception, *, is_sent: bool = True) -> None:
        """The request or its answer was lost: whether the batches were appended is not known, if it was sent at all."""
        self._cluster.metadata.stale = True
        for batch in batches:
            self._try_again(batch, error, is_uncertain=is_sent)

    def on_response(self, batches: Sequence[ProducerBatch], request: ProduceRequest, response: ProduceResponse) -> None:
        """The leader has answered."""
        results = {result.topic_partition: result for result in produced(response, request)}
        for batch in batches:
            result = results.get(batch.topic_partition)
            if result is None:
                message = f"the broker left {batch.topic_partition} out of its answer"
                self.give_up(batch, broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, message))
            else:
                self._on_result(batch, result)

    def give_up(self, batch: ProducerBatch, error: Exception) -> None:
        """The batch will not be appended, or nobody will know."""
        if batch.sequence != NO_SEQUENCE:
            # Its number will not come any more, so the broker would refuse those after it.
            self._identity.lose()
        self._cluster.troubles.over(("produce", batch.topic_partition))
        self._accumulator.fail(batch, error)
        self._on_settled()

    def give_up_all(self, error: Exception) -> None:
        """Nothing more will be sent."""
        for batch in self._accumulator.unsettled():
            self._accumulator.fail(batch, error)
        self._on_settled()

    def give_up_waiting(self, error: Exception) -> None:
        """Nothing that waits will be sent; what is in flight is answered first."""
        for batch in self._accumulator.older_than(_EVER_MS):
            self.give_up(batch, error)

    def give_up_late(self, now_ms: int, timeout_ms: int) -> None:
        """Give up what was taken more than `timeout_ms` ago and is not in flight, with the last reason there was."""
        for batch in self._accumulator.older_than(now_ms - timeout_ms):
            cause = self._last_error.get(batch.topic_partition)
            records = "1 record" if batch.record_count == 1 else f"{batch.record_count} records"
            verb = "was" if batch.record_count == 1 else "were"
            what = f"{records} for {batch.topic_partition} {verb} not delivered within {timeout_ms} ms"
            code = cause.code if isinstance(cause, BrokerError) else ErrorCode.REQUEST_TIMED_OUT
            self.give_up(batch, broker_error(code, what, str(cause) if cause is not None else self._waits_for()))

    def note_leader(self, node_id: int, error: ClientError) -> None:
        """A broker cannot be reached, which keeps all partitions that it leads."""
        for batch in self._accumulator.unsettled():
            leader = self._cluster.metadata.leader(batch.topic_partition)
            if leader is not None and leader.leader == node_id:
                self._note(batch, error)

    def note_leaderless(self) -> bool:
        """What is known now says that partitions have no leader; whether any has none."""
        is_any = False
        for batch in self._accumulator.unsettled():
            if self._cluster.metadata.leader(batch.topic_partition) is None:
                is_any = True
                if batch.topic_partition.topic in self._cluster.metadata.topics:
                    what = f"{batch.topic_partition} has no leader"
                    self._note(batch, broker_error(ErrorCode.LEADER_NOT_AVAILABLE, what))
        return is_any

    def _waits_for(self) -> str:
        longest = self._cluster.troubles.longest()
        return longest[1].what if longest is not None else "no answer"

    def note_topics(self, errors: Mapping[str, ClientError]) -> None:
        """Topics cannot be written to now, for these reasons."""
        for batch in self._accumulator.unsettled():
            error = errors.get(batch.topic_partition.topic)
            if error is not None:
                self._note(batch, error)

    def _note(self, batch: ProducerBatch, error: Exception) -> None:
        self._last_error[batch.topic_partition] = self.newest_error = error
        self._cluster.troubles.note(("produce", batch.topic_partition), error)

    def _on_result(self, batch: ProducerBatch, result: ProducedBatch) -> None:
        code = result.error
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._accumulator.succeed(batch, result.base_offset, result.log_append_time_ms)
            self._last_error.pop(batch.topic_partition, None)
            self._cluster.troubles.over(("produce", batch.topic_partition))
            self._on_settled()
        elif code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            self._accumulator.split(batch)
        elif batch.sequence != NO_SEQUENCE and self._ends_transaction(batch, code):
            self.give_up(batch, result.as_exception())
        elif batch.sequence != NO_SEQUENCE and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if batch.is_uncertain and self._identity.wanted:
                # Under a new number it might be there twice: what was sent before may still reach the broker.
                self.give_up(batch, result.as_exception())
                return
            # Refused because one before it is to be sent again: it follows. Otherwise the broker forgot what it had.
            if self._accumulator.is_first(batch):
                self._lose_identity(batch, result)
            self._try_again(batch, result.as_exception())
        elif batch.sequence != NO_SEQUENCE and code in _LOST_STATE:
            self._lose_identity(batch, result)
            self._try_again(batch, result.as_exception())
        elif result.as_exception().retriable:
            self._cluster.metadata.forget_topic(batch.topic_partition.topic)
            self._try_again(batch, result.as_exception(), is_uncertain=code not in _NOT_APPENDED)
        else:
            self.give_up(batch, result.as_exception())

    def _lose_identity(self, batch: ProducerBatch, result: ProducedBatch) -> None:
        twice = "; some records may be written twice" if batch.is_uncertain else ""
        logger.warning("requesting a new producer epoch%s: %s", twice, result.as_exception())
        self._identity.lose()
        batch.is_uncertain = False

    def _ends_transaction(self, batch: ProducerBatch, code: ErrorCode) -> bool:
        """Whether an error that others get over by a new epoch is the end of the transaction instead."""
        if not self._identity.is_transactional or code not in _NEW_EPOCH:
            return False
        return code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or self._accumulator.is_first(batch)

    def _try_again(self, batch: ProducerBatch, error: Exception, *, is_uncertain: bool = False) -> None:
        self._note(batch, error)
        logger.debug("%s: %d records will be sent again: %s", batch.topic_partition, batch.record_count, error)
        delay_ms = self._backoff.delay_ms(batch.attempts - 1, self._cluster.io.rng)
        self._accumulator.retry(batch, self._cluster.io.clock.monotonic_ms() + delay_ms, is_uncertain=is_uncertain)
