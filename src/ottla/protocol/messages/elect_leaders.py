"""ElectLeaders: elect leaders for partitions.

Written by tools/generate_protocol.py from schemas/messages/elect_leaders.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class TopicPartitions(Struct, frozen=True):
    """Stands in `ElectLeadersRequest.topic_partitions`."""

    topic: str = ""
    partitions: tuple[int, ...] = ()  # int32


class ElectLeadersRequest(ApiMessage, frozen=True):
    """The request, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 43
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    election_type: int = 0  # int8, 1+
    topic_partitions: tuple[TopicPartitions, ...] | None = ()
    timeout_ms: int = 60000  # int32


class PartitionResult(Struct, frozen=True):
    """Stands in `ReplicaElectionResult.partition_result`."""

    partition_id: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = ""


class ReplicaElectionResult(Struct, frozen=True):
    """Stands in `ElectLeadersResponse.replica_election_results`."""

    topic: str = ""
    partition_result: tuple[PartitionResult, ...] = ()


class ElectLeadersResponse(ApiMessage, frozen=True):
    """The response, versions 0-2, flexible from 2."""

    API_KEY: ClassVar[int] = 43
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16, 1+
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()
    error_message: str | None = None  # 2+
