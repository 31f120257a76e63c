"""Topics, their settings, and the cluster, for people and programs that run it."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import Struct, field

from ottla.client.admin.configs import ConfigEntry, ConfigResource, alter_configs, describe_configs
from ottla.client.admin.delete_records import TO_THE_END, delete_records
from ottla.client.admin.features import FeatureListing, list_features, update_features
from ottla.client.admin.quotas import QuotaFilter, alter_quotas, describe_quotas
from ottla.client.arguments import (
    EARLIEST_SPECIAL_OFFSET,
    INT16_MAX,
    flag,
    instance_of,
    items_of,
    kind_name,
    member_of,
    offsets_of,
    pairs_of,
    text,
    topic_name,
    whole_number,
)
from ottla.client.consuming.offsets import IsolationLevel, ListedOffset, list_offsets
from ottla.client.errors import BrokerError, InvalidOptionError, TopicNotFoundError, broker_error
from ottla.client.io.cluster import Cluster
from ottla.client.io.cluster_metadata import ClusterMetadata, TopicMetadata
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
    CreatableTopicResult,
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

    def __post_init__(self) -> None:
        text("name", self.name)
        whole_number("partitions", self.partitions, BROKER_DEFAULT)
        whole_number("replication_factor", self.replication_factor, BROKER_DEFAULT, INT16_MAX)
        _settings("configs", self.configs)


def _resource(given: Any) -> ConfigResource:
    return instance_of("resource", given, ConfigResource, ": write ConfigResource.topic('orders')")


def _settings(name: str, given: Any, *, none_resets: bool = False) -> dict[str, Any]:
    settings = pairs_of(name, given, "settings and values, such as {'retention.ms': '60000'}")
    for key, value in settings.items():
        text("a name of a setting", key)
        if not isinstance(value, str) and not (none_resets and value is None):
            hint = ", or None to reset it" if none_resets else ""
            raise InvalidOptionError(f"the value of {key} must be a string{hint}, not {kind_name(value)}")
    return settings


class CreatedTopic(NamedTuple):
    """What was created; numbers are -1 when the broker is too old to say."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


class Admin:
    """Manages a cluster. Each call sends its own requests and returns with the broker's response.

    Calls raise subclasses of ClientError. It shares the cluster's connections and does not own them.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = instance_of("cluster", cluster, Cluster)

    async def describe_cluster(self) -> ClusterMetadata:
        """The id, controller and brokers of the cluster, from a new request."""
        await self._cluster.refresh(())
        return self._cluster.metadata

    async def list_topics(self) -> list[TopicMetadata]:
        """All topics, internal ones included, by name."""
        await self._cluster.refresh(None)
        return sorted(self._cluster.metadata.topics.values(), key=lambda topic: topic.name)

    async def describe_topics(self, names: Iterable[str]) -> list[TopicMetadata]:
        """These topics, from a new request. Raises TopicNotFoundError."""
        names = [topic_name(each) for each in items_of("names", names, "topics", "['orders']")]
        errors = await self._cluster.refresh(names)
        for name, code in errors.items():
            _raise_for_topic(code, name, f"topic {name!r}")
        return [self._cluster.metadata.topics[name] for name in names]

    async def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> CreatedTopic:
        """Create a topic. Raises BrokerError, such as TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG."""
        instance_of("topic", topic, NewTopic, ": write NewTopic('orders')")
        flag("validate_only", validate_only)
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

        async def attempt() -> CreatableTopicResult:
            response = await self._cluster.ask_any(request, CreateTopicsResponse)
            [result] = response.topics
            if result.error_code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
                raise broker_error(result.error_code, f"topic {topic.name!r} was not created", result.error_message)
            return result

        result = await self._cluster.retrying(attempt, deadline)
        if result.error_code:  # the topic may be there later: who creates it again has to know
            raise broker_error(
                result.error_code, f"topic {topic.name!r} may not have been created", result.error_message
            )
        return CreatedTopic(result.name, result.topic_id, result.num_partitions, result.replication_factor)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records. Raises TopicNotFoundError and BrokerError."""
        request = DeleteTopicsRequest(
            topic_names=(topic_name(name),),
            timeout_ms=self._cluster.options.request_timeout_ms,
        )
        response = await self._cluster.ask_any(request, DeleteTopicsResponse)
        [result] = response.responses
        _raise_for_topic(ErrorCode(result.error_code), name, f"topic {name!r} was not deleted", result.error_message)
        self._cluster.metadata.forget_topic(name)

    async def create_partitions(self, name: str, count: int) -> None:
        """Raise a topic's number of partitions to `count`. Raises TopicNotFoundError and BrokerError."""
        whole_number("count", count, 1)
        request = CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name=topic_name(name), count=count, assignments=None),),
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
        """Settings of a resource; see `ottla.client.admin.configs.describe_configs`."""
        _resource(resource)
        flag("with_documentation", with_documentation)
        if names is not None:
            names = [
                text("a name of a setting", each) for each in items_of("names", names, "settings", "['retention.ms']")
            ]
        return await describe_configs(self._cluster, resource, names, with_documentation=with_documentation)

    async def alter_configs(self, resource: ConfigResource, changes: Mapping[str, str | None]) -> None:
        """Change settings of a resource; see `ottla.client.admin.configs.alter_configs`."""
        await alter_configs(self._cluster, _resource(resource), _settings("changes", changes, none_resets=True))

    async def describe_quotas(
        self, filters: Iterable[QuotaFilter] = (), *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Quotas of clients by entity; see `ottla.client.admin.quotas.describe_quotas`."""
        wanted = items_of("filters", filters, "filters", "[QuotaFilter('user', Match.ANY)]")
        for each in wanted:
            instance_of("a filter", each, QuotaFilter)
        return await describe_quotas(self._cluster, wanted, strict=flag("strict", strict))

    async def alter_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """Change quotas of clients; see `ottla.client.admin.quotas.alter_quotas`."""
        rates = pairs_of("changes", changes, "quotas and rates, such as {'producer_byte_rate': 1e6}")
        for name, rate in rates.items():
            text("a quota", name)
            if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float)):
                raise InvalidOptionError(
                    f"quota {name!r} must be a number, or None to remove it, not {kind_name(rate)}"
                )
        if not isinstance(entity, tuple) or not all(isinstance(each, tuple) and len(each) == 2 for each in entity):
            raise InvalidOptionError(
                f"entity must be pairs of kind and name, such as (('client-id', 'app'),), not {entity!r}"
            )
        await alter_quotas(self._cluster, entity, rates)

    async def list_features(self) -> list[FeatureListing]:
        """Features with their levels; see `ottla.client.admin.features.list_features`."""
        return await list_features(self._cluster)

    async def update_features(self, levels: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Change levels of features; see `ottla.client.admin.features.update_features`."""
        wanted = pairs_of("levels", levels, "features and levels, such as {'share.version': 1}")
        for name, level in wanted.items():
            whole_number(f"the level of {text('a feature', name)}", level, highest=INT16_MAX)
        await update_features(self._cluster, wanted, validate_only=flag("validate_only", validate_only))

    async def list_offsets(
        self, at: Mapping[TopicPartition, int], isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets at a timestamp or at one of `OffsetAt`; see `ottla.client.consuming.offsets.list_offsets`."""
        wanted = offsets_of("at", at, EARLIEST_SPECIAL_OFFSET)
        level = member_of(IsolationLevel, "isolation", isolation)
        return await list_offsets(self._cluster, wanted, self._cluster.deadline(), level)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | BrokerError]:
        """Delete the records before an offset of each partition; see `ottla.client.delete_records.delete_records`."""
        wanted = offsets_of("before", before, TO_THE_END)
        return await delete_records(self._cluster, wanted, self._cluster.deadline())


def _raise_for_topic(code: ErrorCode, name: str, what: str, message: str | None = None) -> None:
    if code == ErrorCode.NONE:
        return
    if code in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}:
        raise TopicNotFoundError(name)
    error: BrokerError = broker_error(code, what, message)
    raise error
