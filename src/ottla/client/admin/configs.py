"""Settings of topics, brokers, groups and client metrics: what they are, where they come from, and changing them."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.errors import TopicNotFoundError, broker_error
from ottla.client.io.client_io import R
from ottla.client.io.cluster import Cluster
from ottla.model.error_code import ErrorCode
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPICS_AT_ONCE: Final = 1_000
"""Topics of one request."""


class ResourceType(IntEnum):
    """What settings belong to."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where the value of a setting comes from; the strongest that has one wins."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does with one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEntry(NamedTuple):
    """One setting of a topic or broker. `value` is None for a secret, `documentation` where none was asked for."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str | None = None


class ConfigResource(NamedTuple):
    """A topic, group or subscription by its name, a broker by its number, or all brokers at once: what they have in
    common (KIP-226)."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> "ConfigResource":
        """The settings of a topic."""
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> "ConfigResource":
        """The settings that one broker runs with."""
        return cls(ResourceType.BROKER, str(node_id))

    @classmethod
    def all_brokers(cls) -> "ConfigResource":
        """What was set for all brokers while they ran; nothing else is listed of it."""
        return cls(ResourceType.BROKER, "")

    @classmethod
    def group(cls, group_id: str) -> "ConfigResource":
        """The settings of a group, be it there or not."""
        return cls(ResourceType.GROUP, group_id)

    @classmethod
    def client_metrics(cls, name: str) -> "ConfigResource":
        """A subscription to metrics of clients (KIP-714)."""
        return cls(ResourceType.CLIENT_METRICS, name)

    def __str__(self) -> str:
        """As a message names it."""
        if self.type is not ResourceType.BROKER:
            return f"{self.type.name.lower().replace('_', ' ')} {self.name!r}"
        return f"broker {self.name}" if self.name else "all brokers"


async def describe_configs(
    cluster: Cluster, resource: ConfigResource, names: Iterable[str] | None = None, *, with_documentation: bool = False
) -> list[ConfigEntry]:
    """Settings, with None all of them, with where each comes from. Raises TopicNotFoundError and BrokerError."""
    keys = None if names is None else tuple(names)
    request = DescribeConfigsRequest(
        resources=(
            DescribeConfigsResource(resource_type=resource.type, resource_name=resource.name, configuration_keys=keys),
        ),
        include_documentation=with_documentation,
    )
    response = await _ask(cluster, resource, request, DescribeConfigsResponse)
    [result] = response.results
    _check(resource, result.error_code, f"settings of {resource}", result.error_message)
    return [
        ConfigEntry(
            each.name,
            each.value,
            _source(each.config_source),
            each.read_only,
            each.is_sensitive,
            each.documentation,
        )
        for each in result.configs
    ]


async def describe_setting_of_topics(cluster: Cluster, topics: Sequence[str], name: str) -> dict[str, str | None]:
    """One setting of many topics, in few requests; topics that do not exist have none. Raises BrokerError."""
    found: dict[str, str | None] = {}
    for first in range(0, len(topics), TOPICS_AT_ONCE):
        request = DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(
                    resource_type=ResourceType.TOPIC, resource_name=each, configuration_keys=(name,)
                )
                for each in topics[first : first + TOPICS_AT_ONCE]
            )
        )
        response = await cluster.ask_any(request, DescribeConfigsResponse)
        for result in response.results:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            _check(
                ConfigResource.topic(result.resource_name),
                result.error_code,
                "settings of topics",
                result.error_message,
            )
            for each in result.configs:
                if each.name == name:
                    found[result.resource_name] = each.value
    return found


async def alter_configs(cluster: Cluster, resource: ConfigResource, changes: Mapping[str, str | None]) -> None:
    """Set settings; None takes the resource's own value away. All or nothing.

    Raises TopicNotFoundError and BrokerError.
    """
    configs = tuple(
        AlterableConfig(
            name=key,
            config_operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET,
            value=value,
        )
        for key, value in changes.items()
    )
    await _alter(cluster, resource, configs)


async def alter_config_list(
    cluster: Cluster, resource: ConfigResource, operation: ConfigOperation, name: str, items: Iterable[str]
) -> None:
    """Add items to a setting that is a list (APPEND), or take some away (SUBTRACT), whatever others do with the rest.

    Raises TopicNotFoundError and BrokerError.
    """
    await _alter(cluster, resource, (AlterableConfig(name=name, config_operation=operation, value=",".join(items)),))


async def _alter(cluster: Cluster, resource: ConfigResource, configs: tuple[AlterableConfig, ...]) -> None:
    request = IncrementalAlterConfigsRequest(
        resources=(AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=configs),)
    )
    response = await _ask(cluster, resource, request, IncrementalAlterConfigsResponse)
    [result] = response.responses
    _check(resource, result.error_code, f"the settings of {resource} were not changed", result.error_message)


async def _ask(cluster: Cluster, resource: ConfigResource, request: ApiMessage, response: type[R]) -> R:
    """One attempt: a broker answers for itself, any broker for topics and for what all have in common."""
    if resource.type is ResourceType.BROKER and resource.name:
        return await cluster.ask_node(int(resource.name), request, response)
    return await cluster.ask_any(request, response)


def _check(resource: ConfigResource, number: int, what: str, message: str | None) -> None:
    if number in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}:
        raise TopicNotFoundError(resource.name)
    if number:
        raise broker_error(number, what, message)


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN
