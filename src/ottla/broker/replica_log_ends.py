"""How the logs of replicas end, asked of the brokers that have them, for an election that may lose records.

No replica leads then. A broker that has proved who it is, and names itself a debugging replica (-2) as in Kafka, is
told the end of a log wherever it is, and the leader epoch of its last record (ListOffsets).
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.broker.offsets import LATEST, OffsetService
from ottla.client.errors import ClientError
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.peers.broker_channels import BrokerChannels
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

logger = logging.getLogger(__name__)

TIMEOUT_MS: Final = 2_000
"""How long an election waits for a replica that may know more."""

DEBUGGING_REPLICA: Final = -2

LogEnd = tuple[int, int]
"""The leader epoch of the last record, and the offset behind it."""


class ReplicaLogEnds:
    """Belongs to the event loop."""

    def __init__(self, offsets: OffsetService, channels: BrokerChannels) -> None:
        self._offsets = offsets
        self._channels = channels

    async def ask(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> dict[TopicPartition, dict[int, LogEnd]]:
        """The log end of each replica, by partition and broker, as far as brokers answer in time."""
        of_brokers: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for name, brokers in replicas.items():
            for broker_id in brokers:
                of_brokers[broker_id].append(name)
        answers = await asyncio.gather(*(self._ends_on(broker_id, names) for broker_id, names in of_brokers.items()))
        ends: dict[TopicPartition, dict[int, LogEnd]] = {}
        for broker_id, answer in zip(of_brokers, answers, strict=True):
            for name, end in answer.items():
                ends.setdefault(name, {})[broker_id] = end
        return ends

    async def _ends_on(self, broker_id: int, names: Sequence[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        if broker_id == self._channels.broker_id:
            return self._own_ends(names)
        indexes: defaultdict[str, list[int]] = defaultdict(list)
        for name in names:
            indexes[name.topic].append(name.partition)
        request = ListOffsetsRequest(
            replica_id=DEBUGGING_REPLICA,
            topics=tuple(
                ListOffsetsTopic(topic, tuple(ListOffsetsPartition(index, timestamp=LATEST) for index in some))
                for topic, some in indexes.items()
            ),
        )
        try:
            answer = await self._channels.request(broker_id, request, ListOffsetsResponse, timeout_ms=TIMEOUT_MS)
        except ClientError as error:
            logger.info("broker %d does not report its log end offsets: %s", broker_id, error)
            return {}
        return {
            TopicPartition(topic.name, each.partition_index): (each.leader_epoch, each.offset)
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE
        }

    def _own_ends(self, names: Sequence[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        ends: dict[TopicPartition, LogEnd] = {}
        for name in names:
            try:
                ends[name] = self._offsets.log_end(*name)
            except ApiError as error:
                logger.info("%s has no log end offset on this broker: %s", name, error)
        return ends
