"""DescribeCluster: describe the cluster and its brokers.

Written by tools/generate_protocol.py from schemas/messages/describe_cluster.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class DescribeClusterRequest(ApiMessage, frozen=True):
    """The request, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 60
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1  # int8, 1+
    include_fenced_brokers: bool = False  # 2+


class DescribeClusterBroker(Struct, frozen=True):
    """Stands in `DescribeClusterResponse.brokers`."""

    broker_id: int = 0  # int32
    host: str = ""
    port: int = 0  # int32
    rack: str | None = None
    is_fenced: bool = False  # 2+


class DescribeClusterResponse(ApiMessage, frozen=True):
    """The response, versions 0-2, flexible from 0."""

    API_KEY: ClassVar[int] = 60
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16
    error_message: str | None = None
    endpoint_type: int = 1  # int8, 1+
    cluster_id: str = ""
    controller_id: int = -1  # int32
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: int = -2147483648  # int32
