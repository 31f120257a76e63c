"""WriteTxnMarkers: write the markers that end transactions into partitions.

Written by tools/generate_protocol.py from schemas/messages/write_txn_markers.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import ApiMessage


class WritableTxnMarkerTopic(Struct, frozen=True):
    """Stands in `WritableTxnMarker.topics`."""

    name: str = ""
    partition_indexes: tuple[int, ...] = ()  # int32


class WritableTxnMarker(Struct, frozen=True):
    """Stands in `WriteTxnMarkersRequest.markers`."""

    producer_id: int = 0  # int64
    producer_epoch: int = 0  # int16
    transaction_result: bool = False
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: int = 0  # int32
    transaction_version: int = 0  # int8, 2+


class WriteTxnMarkersRequest(ApiMessage, frozen=True):
    """The request, versions 1-2, flexible from 1."""

    API_KEY: ClassVar[int] = 27
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    markers: tuple[WritableTxnMarker, ...] = ()


class WritableTxnMarkerPartitionResult(Struct, frozen=True):
    """Stands in `WritableTxnMarkerTopicResult.partitions`."""

    partition_index: int = 0  # int32
    error_code: int = 0  # int16


class WritableTxnMarkerTopicResult(Struct, frozen=True):
    """Stands in `WritableTxnMarkerResult.topics`."""

    name: str = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


class WritableTxnMarkerResult(Struct, frozen=True):
    """Stands in `WriteTxnMarkersResponse.markers`."""

    producer_id: int = 0  # int64
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


class WriteTxnMarkersResponse(ApiMessage, frozen=True):
    """The response, versions 1-2, flexible from 1."""

    API_KEY: ClassVar[int] = 27
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2

    markers: tuple[WritableTxnMarkerResult, ...] = ()
