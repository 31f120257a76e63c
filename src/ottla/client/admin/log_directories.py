"""The data directories of brokers: what lies in them, and moving replicas between those of one broker (KIP-113)."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.client.errors import NO_CONNECTION, BrokerError, broker_error
from ottla.client.io.brokers import RegisteredBroker, describe_cluster
from ottla.client.io.cluster import Cluster
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse


class ReplicaLog(NamedTuple):
    """A log in a directory; `is_future`: one that is being copied into it, which lacks `offset_lag` records."""

    topic_partition: TopicPartition
    size: int
    offset_lag: int
    is_future: bool


class LogDirectory(NamedTuple):
    """A data directory of a broker; bytes are None where the broker does not say. With an `error` it has no logs.

    The `path` is empty for a directory that holds replicas and does not belong to the broker, and for a broker that
    does not answer, whose `error` is BROKER_NOT_AVAILABLE.
    """

    broker_id: int
    path: str
    error: ErrorCode
    total_bytes: int | None
    usable_bytes: int | None
    logs: tuple[ReplicaLog, ...]
    reason: str | None = None
    """Why it is offline, from a broker that says so."""


async def describe_log_directories(
    cluster: Cluster, broker_ids: Collection[int] = (), *, with_logs: bool = True
) -> list[LogDirectory]:
    """The directories of some brokers, or of all, in the order of the brokers.

    Raises ClientError if one of the requested brokers does not exist or does not answer. Without a list, the brokers
    are all that are registered: one that does not answer has a single entry with the error BROKER_NOT_AVAILABLE.
    """
    if broker_ids:
        answers = await cluster.io.together([_describe(cluster, broker_id, with_logs) for broker_id in broker_ids])
        return [directory for answer in answers for directory in answer]
    registered = (await describe_cluster(cluster)).brokers
    await cluster.refresh(())
    answers = await cluster.io.together([_describe_if_there(cluster, each, with_logs) for each in registered])
    return [directory for answer in answers for directory in answer]


async def _describe_if_there(cluster: Cluster, broker: RegisteredBroker, with_logs: bool) -> list[LogDirectory]:
    if broker.is_fenced:
        return [_unanswered(broker, "it is fenced: it does not run, or the controller does not hear it")]
    try:
        return await _describe(cluster, broker.broker_id, with_logs)
    except NO_CONNECTION as error:
        return [_unanswered(broker, str(error))]


def _unanswered(broker: RegisteredBroker, reason: str) -> LogDirectory:
    return LogDirectory(broker.broker_id, "", ErrorCode.BROKER_NOT_AVAILABLE, None, None, (), reason)


async def _describe(cluster: Cluster, broker_id: int, with_logs: bool) -> list[LogDirectory]:
    request = DescribeLogDirsRequest(topics=None if with_logs else ())
    answer = await cluster.ask_node(broker_id, request, DescribeLogDirsResponse)
    if answer.error_code:
        raise broker_error(answer.error_code, f"the data directories of broker {broker_id}")
    reasons = {each.log_dir: each.message for each in answer.troubles if each.log_dir}
    directories = [
        LogDirectory(
            broker_id,
            result.log_dir,
            ErrorCode(result.error_code),
            result.total_bytes if result.total_bytes >= 0 else None,
            result.usable_bytes if result.usable_bytes >= 0 else None,
            tuple(
                ReplicaLog(
                    TopicPartition(topic.name, each.partition_index),
                    each.partition_size,
                    each.offset_lag,
                    each.is_future_key,
                )
                for topic in result.topics
                for each in topic.partitions
            ),
            reasons.get(result.log_dir),
        )
        for result in answer.results
    ]
    return directories + [
        LogDirectory(broker_id, "", ErrorCode.KAFKA_STORAGE_ERROR, None, None, (), each.message)
        for each in answer.troubles
        if not each.log_dir
    ]


async def alter_replica_log_directories(
    cluster: Cluster, broker_id: int, paths: Mapping[TopicPartition, str]
) -> dict[TopicPartition, BrokerError | None]:
    """Begin to move replicas of a broker to the directories with these paths; why not, for each that was refused.

    A replica that is already there stays, and a move in progress ends. LOG_DIR_NOT_FOUND: `log.dirs` of the broker
    does not contain it. KAFKA_STORAGE_ERROR: directory or partition are offline. REPLICA_NOT_AVAILABLE: not on this
    broker.
    """
    topics: dict[str, dict[str, list[int]]] = {}
    for (topic, index), path in paths.items():
        topics.setdefault(path, {}).setdefault(topic, []).append(index)
    dirs = [
        AlterReplicaLogDir(
            path, tuple(AlterReplicaLogDirTopic(topic, tuple(indexes)) for topic, indexes in of_path.items())
        )
        for path, of_path in topics.items()
    ]
    request = AlterReplicaLogDirsRequest(dirs=tuple(dirs))
    answer = await cluster.ask_node(broker_id, request, AlterReplicaLogDirsResponse)
    outcomes: dict[TopicPartition, BrokerError | None] = {}
    for result in answer.results:
        for each in result.partitions:
            name = TopicPartition(result.topic_name, each.partition_index)
            path = paths.get(name, "")
            error = broker_error(each.error_code, f"{name} cannot be moved to {path!r} of broker {broker_id}")
            outcomes[name] = error if each.error_code else None
    return outcomes
