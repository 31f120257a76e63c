"""Topics, their settings, and the cluster, for people and programs that run it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct, field

from ottla.client.cluster import Cluster
from ottla.client.cluster_metadata import ClusterMetadata, TopicMetadata
from ottla.client.configs import ConfigEntry, ConfigResource, alter_configs, describe_configs
from ottla.client.delete_records import delete_records
from ottla.client.errors import BrokerError, TopicNotFoundError, broker_error
from ottla.client.features import FeatureListing, list_features, update_features
from ottla.client.offsets import IsolationLevel, ListedOffset, list_offsets
from ottla.client.quotas import QuotaFilter, alter_quotas, describe_quotas
from ottla.model.error_code import ErrorCode
from ottla.model.quota_entity import QuotaEntity
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

BROKER_DEFAULT = -1
"""As a number of partitions or replicas: what the broker is configured to give."""


class NewTopic(Struct, frozen=True):
    """A topic to create. `configs` are topic settings by Kafka's names, such as `cleanup.policy`."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


class CreatedTopic(NamedTuple):
    """What was created; numbers are -1 when the broker is too old to say."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


class Admin:
    """Manages a cluster. Each call sends its own requests and returns when the broker has answered.

    Calls raise subclasses of ClientError. It shares the cluster's connections and does not own them.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe_cluster(self) -> ClusterMetadata:
        """Id, controller and brokers, asked for now."""
        await self._cluster.refresh(())
        return self._cluster.metadata

    async def list_topics(self) -> list[TopicMetadata]:
        """All topics, internal ones included, by name."""
        await self._cluster.refresh(None)
        return sorted(self._cluster.metadata.topics.values(), key=lambda topic: topic.name)

    async def describe_topics(self, names: Iterable[str]) -> list[TopicMetadata]:
        """These topics, asked for now. Raises TopicNotFoundError."""
        names = list(names)
        errors = await self._cluster.refresh(names)
        for name, code in errors.items():
            _raise_for_topic(code, name, f"topic {name!r}")
        return [self._cluster.metadata.topics[name] for name in names]

    async def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> CreatedTopic:
        """Create a topic. Raises BrokerError, such as TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG."""
        request = CreateTopicsRequest(
            topics=(
                CreatableTopic(
                    name=topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()),
                ),
            ),
            timeout_ms=self._cluster.options.request_timeout_ms,
            validate_only=validate_only,
        )
        deadline = self._cluster.deadline()

        async def attempt() -> CreatedTopic:
            response = await self._cluster.ask_any(request, CreateTopicsResponse)
            [result] = response.topics
            if result.error_code:
                raise broker_error(result.error_code, f"topic {topic.name!r} was not created", result.error_message)
            return CreatedTopic(result.name, result.topic_id, result.num_partitions, result.replication_factor)

        return await self._cluster.retrying(attempt, deadline)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records. Raises TopicNotFoundError and BrokerError."""
        request = DeleteTopicsRequest(
            topic_names=(name,),
            timeout_ms=self._cluster.options.request_timeout_ms,
        )
        response = await self._cluster.ask_any(request, DeleteTopicsResponse)
        [result] = response.responses
        _raise_for_topic(ErrorCode(result.error_code), name, f"topic {name!r} was not deleted", result.error_message)
        self._cluster.metadata.forget_topic(name)

    async def create_partitions(self, name: str, count: int) -> None:
        """Raise a topic's number of partitions to `count`. Raises TopicNotFoundError and BrokerError."""
        request = CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name=name, count=count, assignments=None),),
            timeout_ms=self._cluster.options.request_timeout_ms,
        )
        response = await self._cluster.ask_any(request, CreatePartitionsResponse)
        [result] = response.results
        what = f"the partitions of topic {name!r} were not changed"
        _raise_for_topic(ErrorCode(result.error_code), name, what, result.error_message)
        self._cluster.metadata.forget_topic(name)

    async def describe_configs(
        self, resource: ConfigResource, names: Iterable[str] | None = None, *, with_documentation: bool = False
    ) -> list[ConfigEntry]:
        """Settings of a resource; see `ottla.client.configs.describe_configs`."""
        return await describe_configs(self._cluster, resource, names, with_documentation=with_documentation)

    async def alter_configs(self, resource: ConfigResource, changes: Mapping[str, str | None]) -> None:
        """Change settings of a resource; see `ottla.client.configs.alter_configs`."""
        await alter_configs(self._cluster, resource, changes)

    async def describe_quotas(
        self, filters: Iterable[QuotaFilter] = (), *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Quotas of clients by entity; see `ottla.client.quotas.describe_quotas`."""
        return await describe_quotas(self._cluster, filters, strict=strict)

    async def alter_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """Change quotas of clients; see `ottla.client.quotas.alter_quotas`."""
        await alter_quotas(self._cluster, entity, changes)

    async def list_features(self) -> list[FeatureListing]:
        """Features with their levels; see `ottla.client.features.list_features`."""
        return await list_features(self._cluster)

    async def update_features(self, levels: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Change levels of features; see `ottla.client.features.update_features`."""
        await update_features(self._cluster, levels, validate_only=validate_only)

    async def list_offsets(
        self, at: Mapping[TopicPartition, int], isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets by partition at a timestamp or at one of `OffsetAt`; see `ottla.client.offsets.list_offsets`."""
        return await list_offsets(self._cluster, at, self._cluster.deadline(), isolation)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | BrokerError]:
        """Delete the records before an offset of each partition; see `ottla.client.delete_records.delete_records`."""
        return await delete_records(self._cluster, before, self._cluster.deadline())


def _raise_for_topic(code: ErrorCode, name: str, what: str, message: str | None = None) -> None:
    if code == ErrorCode.NONE:
        return
    if code in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}:
        raise TopicNotFoundError(name)
    error: BrokerError = broker_error(code, what, message)
    raise error
