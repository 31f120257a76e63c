"""CreateTopics: create topics.

Written by tools/generate_protocol.py from schemas/messages/create_topics.schema.
Change the table, not this file.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from ottla.protocol.message import ZERO_UUID, ApiMessage


class CreatableReplicaAssignment(Struct, frozen=True):
    """Stands in `CreatableTopic.assignments`."""

    partition_index: int = 0  # int32
    broker_ids: tuple[int, ...] = ()  # int32


class CreatableTopicConfig(Struct, frozen=True):
    """Stands in `CreatableTopic.configs`."""

    name: str = ""
    value: str | None = ""


class CreatableTopic(Struct, frozen=True):
    """Stands in `CreateTopicsRequest.topics`."""

    name: str = ""
    num_partitions: int = 0  # int32
    replication_factor: int = 0  # int16
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


class CreateTopicsRequest(ApiMessage, frozen=True):
    """The request, versions 2-7, flexible from 5."""

    API_KEY: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 7

    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: int = 60000  # int32
    validate_only: bool = False


class CreatableTopicConfigs(Struct, frozen=True):
    """Stands in `CreatableTopicResult.configs`."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1  # int8
    is_sensitive: bool = False


class CreatableTopicResult(Struct, frozen=True):
    """Stands in `CreateTopicsResponse.topics`."""

    name: str = ""
    topic_id: UUID = ZERO_UUID  # 7+
    error_code: int = 0  # int16
    error_message: str | None = ""
    topic_config_error_code: int = 0  # int16, 5+
    num_partitions: int = -1  # int32, 5+
    replication_factor: int = -1  # int16, 5+
    configs: tuple[CreatableTopicConfigs, ...] | None = ()  # 5+


class CreateTopicsResponse(ApiMessage, frozen=True):
    """The response, versions 2-7, flexible from 5."""

    API_KEY: ClassVar[int] = 19
    MIN_VERSION: ClassVar[int] = 2
    MAX_VERSION: ClassVar[int] = 7

    throttle_time_ms: int = 0  # int32
    topics: tuple[CreatableTopicResult, ...] = ()
