"""Reads the audit records of a pipeline."""

from collections.abc import AsyncIterator

from ottla.client.consuming.consumer import Consumer
from ottla.pipelines.audit.report import ForeignReportError, Report, decode_report
from ottla.pipelines.topic_range import edges, read_range


class Read:
    """Counts of records that are not reports of this pipeline."""

    def __init__(self) -> None:
        self.foreign = 0
        """Records that are no reports of a version that is known."""
        self.first_foreign = ""


async def reports(
    consumer: Consumer, topic: str, pipeline: str, read: Read, *, since_ms: int | None = None
) -> AsyncIterator[Report]:
    """The reports of one pipeline, of batches that began at a time or later. Raises TopicNotFoundError, ClientError."""
    starts, ends = await edges(consumer, topic)
    if since_ms is not None:
        found = await consumer.list_offsets(dict.fromkeys(starts, since_ms))
        starts = {place: at.offset if at.offset >= 0 else ends[place] for place, at in found.items()}
    async for records in read_range(consumer, starts, ends):
        for record in records:
            try:
                report = decode_report(record.value)
            except ForeignReportError as error:
                read.foreign += 1
                read.first_foreign = read.first_foreign or f"{record.topic_partition}@{record.offset}: {error}"
                continue
            if report.pipeline == pipeline and (since_ms is None or report.at_ms >= since_ms):
                yield report
