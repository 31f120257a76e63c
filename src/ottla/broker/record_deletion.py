"""Deleting the oldest records of partitions on request (KIP-107).

Nobody reads below the new log start from the moment it moves; it is on disk before the request is answered, so that
what was said to be deleted does not come back after a crash. Segments that lie below it as a whole go with the next
round of retention.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, require
from ottla.metadata.controller.decision import Outcome
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.topic_name import is_internal_topic
from ottla.model.topic_partition import TopicPartition
from ottla.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)


class RecordsBefore(NamedTuple):
    """The records of a partition before an offset, -1 for all that are committed."""

    topic: str
    partition: int
    offset: int


class RecordDeletion:
    """Belongs to the event loop."""

    __slots__ = ("_authorizer", "_replicas", "_write_log_starts")

    def __init__(
        self,
        replicas: ReplicaManager,
        write_log_starts: Callable[[Iterable[TopicPartition]], Awaitable[None]],
        authorizer: Authorizer = ALLOW_ALL,
    ) -> None:
        """`write_log_starts` makes the log starts of partitions durable; it raises OSError when it cannot."""
        self._replicas = replicas
        self._write_log_starts = write_log_starts
        self._authorizer = authorizer

    async def delete(self, principal: Principal, wanted: Sequence[RecordsBefore]) -> list[Outcome[int]]:
        """The new log start of each partition in the order of `wanted`, or why nothing was deleted.

        TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE (above the
        high watermark),
        INVALID_TOPIC_EXCEPTION (a coordinator's topic), POLICY_VIOLATION (a topic that is only compacted),
        KAFKA_STORAGE_ERROR (the log start could not be made durable).
        """
        outcomes: list[Outcome[int]] = []
        for each in wanted:
            try:
                require(self._authorizer, principal, Operation.DELETE, ResourceType.TOPIC, each.topic)
                outcomes.append(self._move_log_start(each))
            except ApiError as error:
                outcomes.append(error)
        if all(isinstance(outcome, ApiError) for outcome in outcomes):
            return outcomes
        try:
            await self._write_log_starts(TopicPartition(each.topic, each.partition) for each in wanted)
        except OSError as error:
            logger.error("the log starts could not be written, records that were to be deleted may return: %s", error)
            failure = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log starts could not be written: {error}")
            return [outcome if isinstance(outcome, ApiError) else failure for outcome in outcomes]
        return outcomes

    def _move_log_start(self, wanted: RecordsBefore) -> int:
        partition = self._replicas.get(wanted.topic, wanted.partition)
        if is_internal_topic(wanted.topic):
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{wanted.topic} holds a coordinator's state: it keeps its records"
            )
        policy = partition.log.config.cleanup_policy
        if "compact" in policy and "delete" not in policy:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, f"{wanted.topic} is compacted: add delete to its cleanup.policy first"
            )
        return partition.delete_records_before(wanted.offset)
