"""DescribeLogDirs: describe log directories and the replicas in them.

Written by tools/generate_protocol.py from schemas/messages/describe_log_dirs.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class DescribableLogDirTopic(Struct, frozen=True):
    """Stands in `DescribeLogDirsRequest.topics`."""

    topic: str = ""
    partitions: tuple[int, ...] = ()  # int32


class DescribeLogDirsRequest(ApiMessage, frozen=True):
    """The request, versions 1-5, flexible from 2."""

    API_KEY: ClassVar[int] = 35
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 5

    topics: tuple[DescribableLogDirTopic, ...] | None = ()


class DescribeLogDirsPartition(Struct, frozen=True):
    """Stands in `DescribeLogDirsTopic.partitions`."""

    partition_index: int = 0  # int32
    partition_size: int = 0  # int64
    offset_lag: int = 0  # int64
    is_future_key: bool = False


class DescribeLogDirsTopic(Struct, frozen=True):
    """Stands in `DescribeLogDirsResult.topics`."""

    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsResult(Struct, frozen=True):
    """Stands in `DescribeLogDirsResponse.results`."""

    error_code: int = 0  # int16
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: int = -1  # int64, 4+
    usable_bytes: int = -1  # int64, 4+
    is_cordoned: bool = False  # 5+


class DescribeLogDirsTrouble(Struct, frozen=True):
    """Stands in `DescribeLogDirsResponse.troubles`."""

    log_dir: str = ""
    message: str = ""


class DescribeLogDirsResponse(ApiMessage, frozen=True):
    """The response, versions 1-5, flexible from 2."""

    API_KEY: ClassVar[int] = 35
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 5

    throttle_time_ms: int = 0  # int32
    error_code: int = 0  # int16, 3+
    results: tuple[DescribeLogDirsResult, ...] = ()
    troubles: tuple[DescribeLogDirsTrouble, ...] = ()  # 2+
