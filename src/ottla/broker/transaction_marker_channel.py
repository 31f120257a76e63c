"""Brings the markers of a transaction coordinator to the brokers that lead the partitions (WriteTxnMarkers).

    markers of one turn --> this broker leads: written here
                        --> another leads: with all others for it in one request; meanwhile the next gather

What is not answered is told as an error; the coordinator sends it again, to whoever leads by then, until it is in.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.transaction_markers import MARKER_MS_MAX, TransactionMarkers
from ottla.client.errors import ClientError, error_code
from ottla.metadata.image.image import NO_LEADER, MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.peers.broker_channels import BrokerChannels, Lane
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.runtime.tasks import Tasks
from ottla.transactions.messages import OnWritten

logger = logging.getLogger(__name__)

REQUESTS_MAX: Final = 4
"""Requests on their way to one broker, each on a connection of its own: one that waits for a partition without enough
replicas holds up a part of the others."""
MARKERS_MAX: Final = 1_000
"""Markers in one request."""
TIMEOUT_MS: Final = MARKER_MS_MAX + 5_000
"""The other broker answers within the first; the rest is for the way."""

Errors = Mapping[TopicPartition, ErrorCode]


class _Sent(NamedTuple):
    marker: TransactionMarker
    partitions: Sequence[TopicPartition]
    on_written: Callable[[Errors], None]

    def fail(self, error: ErrorCode) -> None:
        self.on_written(dict.fromkeys(self.partitions, error))


class TransactionMarkerChannel:
    """A `MarkerChannel`. Belongs to the event loop; its methods never block."""

    def __init__(
        self,
        local: TransactionMarkers,
        channels: BrokerChannels,
        current_image: Callable[[], MetadataImage],
        tasks: Tasks,
    ) -> None:
        self._local = local
        self._channels = channels
        self._current_image = current_image
        self._tasks = tasks
        self._waiting: defaultdict[int, deque[_Sent]] = defaultdict(deque)
        self._lanes_taken: defaultdict[int, set[int]] = defaultdict(set)

    def write(self, marker: TransactionMarker, partitions: Sequence[TopicPartition], on_written: OnWritten) -> None:
        """See `MarkerChannel`. Beside what `TransactionMarkers.write` says, LEADER_NOT_AVAILABLE, NETWORK_EXCEPTION."""
        image = self._current_image()
        by_leader: defaultdict[int | None, list[TopicPartition]] = defaultdict(list)
        for name in partitions:
            partition = image.partition(*name)
            by_leader[None if partition is None else partition.leader].append(name)
        if by_leader.keys() <= {self._channels.broker_id}:
            self._local.write(marker, partitions, on_written)
            return
        gathered = _Gathered(len(by_leader), on_written)
        for leader, names in by_leader.items():
            sent = _Sent(marker, names, gathered.add)
            if leader is None:
                sent.fail(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif leader == NO_LEADER:
                sent.fail(ErrorCode.LEADER_NOT_AVAILABLE)
            elif leader == self._channels.broker_id:
                self._local.write(marker, names, gathered.add)
            else:
                self._send(leader, sent)

    def _send(self, leader: int, sent: _Sent) -> None:
        self._waiting[leader].append(sent)
        taken = self._lanes_taken[leader]
        if len(taken) < REQUESTS_MAX:
            lane = min(set(range(REQUESTS_MAX)) - taken)
            taken.add(lane)
            self._tasks.spawn(self._send_all(leader, lane), f"markers for broker {leader}")

    async def _send_all(self, leader: int, lane: int) -> None:
        waiting = self._waiting[leader]
        try:
            while waiting:
                sent = [waiting.popleft() for _ in range(min(len(waiting), MARKERS_MAX))]
                for each, errors in zip(sent, await self._errors(leader, lane, sent), strict=True):
                    try:
                        each.on_written(errors)
                    except Exception:
                        logger.exception("a coordinator failed on the result of its transaction markers")
        finally:
            self._lanes_taken[leader].discard(lane)

    async def _errors(self, leader: int, lane: int, sent: Sequence[_Sent]) -> list[Errors]:
        """What became of each."""
        request = WriteTxnMarkersRequest(tuple(_writable(each.marker, each.partitions) for each in sent))
        try:
            answer = await self._channels.request(
                leader, request, WriteTxnMarkersResponse, timeout_ms=TIMEOUT_MS, lane=Lane(f"markers-{lane}")
            )
        except ClientError as error:
            logger.debug("markers for broker %d were not answered: %s", leader, error)
            return [dict.fromkeys(each.partitions, ErrorCode.NETWORK_EXCEPTION) for each in sent]
        results = answer.markers
        if [each.producer_id for each in results] != [each.marker.producer_id for each in sent]:
            logger.warning("the response of broker %d does not match the transaction markers sent to it", leader)
            return [dict.fromkeys(each.partitions, ErrorCode.UNKNOWN_SERVER_ERROR) for each in sent]
        return [_errors_of(result, each.partitions) for result, each in zip(results, sent, strict=True)]


class _Gathered:
    """What became of one marker at several brokers."""

    def __init__(self, count: int, on_written: OnWritten) -> None:
        self._left = count
        self._on_written = on_written
        self._errors: dict[TopicPartition, ErrorCode] = {}

    def add(self, errors: Errors) -> None:
        self._errors.update(errors)
        self._left -= 1
        if not self._left:
            self._on_written(self._errors)


def _writable(marker: TransactionMarker, partitions: Sequence[TopicPartition]) -> WritableTxnMarker:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for name in partitions:
        by_topic[name.topic].append(name.partition)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=tuple(WritableTxnMarkerTopic(topic, tuple(indexes)) for topic, indexes in by_topic.items()),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _errors_of(result: WritableTxnMarkerResult, partitions: Sequence[TopicPartition]) -> Errors:
    """The error of each partition; one that the answer leaves out was not written, as far as anybody knows."""
    answered = {
        TopicPartition(topic.name, each.partition_index): error_code(each.error_code)
        for topic in result.topics
        for each in topic.partitions
    }
    return {name: answered.get(name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in partitions}
