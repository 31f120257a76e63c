"""Deleting the oldest records of partitions on request (KIP-107).

Nobody reads below the new log start from the moment it moves; it is on disk before the request is answered, so that
what was said to be deleted does not come back after a crash, and the other replicas that are alive begin there too, so
that it does not come back with another leader. Segments that lie below it as a whole go with the next round of
retention.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, require
from ottla.metadata.controller.decision import Outcome
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.topic_name import is_internal_topic
from ottla.model.topic_partition import TopicPartition
from ottla.replication.partition import NO_EPOCH
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

ALL_COMMITTED: Final = -1
"""The offset that stands for all committed records."""
FOLLOWED_POLL_MS: Final = 10
"""How long to wait before looking again whether the other replicas have followed."""


class RecordsBefore(NamedTuple):
    """The records of a partition before an offset."""

    topic: str
    partition: int
    offset: int


class RecordDeletion:
    """Belongs to the event loop."""

    __slots__ = ("_authorizer", "_replicas", "_timer", "_write_log_starts")

    def __init__(
        self,
        replicas: ReplicaManager,
        write_log_starts: Callable[[Iterable[TopicPartition]], Awaitable[None]],
        timer: Timer,
        authorizer: Authorizer = ALLOW_ALL,
    ) -> None:
        """`write_log_starts` makes the log starts of partitions durable; it raises OSError when it cannot."""
        self._replicas = replicas
        self._write_log_starts = write_log_starts
        self._timer = timer
        self._authorizer = authorizer

    async def delete(
        self, principal: Principal, wanted: Sequence[RecordsBefore], timeout_ms: int
    ) -> list[Outcome[int]]:
        """The new log start of each partition in the order of `wanted`, or why nothing was deleted.

        TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE (above the
        high watermark),
        INVALID_TOPIC_EXCEPTION (a coordinator's topic), POLICY_VIOLATION (a topic that is only compacted),
        KAFKA_STORAGE_ERROR (the log start could not be made durable), REQUEST_TIMED_OUT (a replica that is alive did
        not follow within `timeout_ms`; it still will).
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
            logger.error(
                "could not write the log start offsets; deleted records may come back after a restart: %s", error
            )
            failure = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log starts could not be written: {error}")
            return [outcome if isinstance(outcome, ApiError) else failure for outcome in outcomes]
        return await self._followed(wanted, outcomes, timeout_ms)

    async def _followed(
        self, wanted: Sequence[RecordsBefore], outcomes: list[Outcome[int]], timeout_ms: int
    ) -> list[Outcome[int]]:
        """The outcomes once every replica that is alive begins there, or the time is over."""
        found = list(outcomes)
        waiting = {index: outcome for index, outcome in enumerate(outcomes) if not isinstance(outcome, ApiError)}
        while True:
            for index, log_start_offset in tuple(waiting.items()):
                found[index] = low_watermark = self._low_watermark(wanted[index])
                if isinstance(low_watermark, ApiError) or low_watermark >= log_start_offset:
                    del waiting[index]
            if not waiting or timeout_ms <= 0:
                break
            await self._timer.sleep(FOLLOWED_POLL_MS)
            timeout_ms -= FOLLOWED_POLL_MS
        for index in waiting:
            where = f"{wanted[index].topic}-{wanted[index].partition}"
            message = f"the records of {where} are deleted here, and not yet on every replica that is alive"
            found[index] = ApiError(ErrorCode.REQUEST_TIMED_OUT, message)
        return found

    def _low_watermark(self, wanted: RecordsBefore) -> Outcome[int]:
        try:
            partition = self._replicas.get(wanted.topic, wanted.partition)
            partition.require_leader_epoch(NO_EPOCH)
        except ApiError as error:
            return error
        return partition.low_watermark

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
