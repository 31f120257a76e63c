"""WriteTxnMarkers (key 27), versions 1 and 2.

2 the version of the transaction, by which late markers are told from those of the transaction (KIP-1228). Sent by the
coordinators of transactions, and by `abortTransaction` of admin clients (KIP-664).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.runtime.turns import in_turns, next_turn

Errors = dict[TopicPartition, ErrorCode]


async def handle(ctx: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write every marker to its partitions; answer when all are committed or refused."""
    try:
        commits = any(marker.transaction_result for marker in request.markers)
        ctx.broker.transaction_markers.authorize(ctx.principal, commits=commits)
    except ApiError as error:
        ctx.note_refusal(error.code, error.message)
        return _response(request, [_all(marker, error.code) for marker in request.markers])
    written = [[write async for write in _writes(ctx, marker)] for marker in request.markers]
    errors = []
    for writes in written:
        merged: Errors = {}
        for write in writes:
            merged.update(await write)
        errors.append(merged)
    return _response(request, errors)


async def _writes(ctx: RequestContext, marker: WritableTxnMarker) -> AsyncIterator[asyncio.Future[Errors]]:
    """Write a marker to its partitions, some in a turn of the event loop; each is done when it is committed or not."""
    value = TransactionMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
    async for partitions in in_turns(_partitions(marker)):
        yield _write(ctx, value, partitions)
    await next_turn()


def _write(
    ctx: RequestContext, marker: TransactionMarker, partitions: Sequence[TopicPartition]
) -> asyncio.Future[Errors]:
    written: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()

    def on_written(errors: Errors) -> None:
        if not written.done():
            written.set_result(errors)

    ctx.broker.transaction_markers.write(marker, partitions, on_written)
    return written


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]


def _all(marker: WritableTxnMarker, error: ErrorCode) -> Errors:
    return dict.fromkeys(_partitions(marker), error)


def _response(request: WriteTxnMarkersRequest, errors: list[Errors]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=tuple(
            WritableTxnMarkerResult(producer_id=marker.producer_id, topics=_results(_partitions(marker), found))
            for marker, found in zip(request.markers, errors, strict=True)
        )
    )


def _results(partitions: Iterable[TopicPartition], errors: Errors) -> tuple[WritableTxnMarkerTopicResult, ...]:
    by_topic: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for name in dict.fromkeys(partitions):
        result = WritableTxnMarkerPartitionResult(partition_index=name.partition, error_code=errors[name])
        by_topic.setdefault(name.topic, []).append(result)
    return tuple(
        WritableTxnMarkerTopicResult(name=topic, partitions=tuple(partitions)) for topic, partitions in by_topic.items()
    )


API = Api(ApiKey.WRITE_TXN_MARKERS, 1, 2, handle, is_async=True)
