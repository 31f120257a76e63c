"""Reads ranges of offsets as Arrow record batches."""

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ottla.client.consuming.offsets import OffsetAt
from ottla.client.consuming.visible_batches import visible_spans, whole_batches
from ottla.client.errors import OffsetOutOfRangeError, TopicNotFoundError
from ottla.native import decode_arrow
from ottla.native.errors import DecompressionLimitError
from pyspark_ottla.data_loss import deleted, report
from pyspark_ottla.fetch_size import FetchSize
from pyspark_ottla.log_client import LogReader
from pyspark_ottla.offset_range import OffsetRange
from pyspark_ottla.position import look_up
from pyspark_ottla.read_options import FetchOptions
from pyspark_ottla.record_columns import arrow_schema, decoded_arrow_schema

logger = logging.getLogger("pyspark_ottla")

EMPTY_ANSWERS_MAX = 60
"""Empty responses in a row before the read fails: 30 seconds, with the default wait of 500 ms."""


class RangeReader:
    """Fetches and decodes in the process that it is called in: a Spark task's worker.

    Memory is bounded by one answer of the broker (`max_bytes`, or one batch that is larger) and its decoded records.
    """

    def __init__(self, client: LogReader, options: FetchOptions) -> None:
        self._client = client
        self._options = options
        self._values = None
        if options.value_format is not None:
            told = decoded_arrow_schema(options.value_format, include_headers=options.include_headers)
            self._values = options.value_format.adder(told)
        self._headers = options.include_headers or (self._values is not None and self._values.needs_headers)
        self._schema = arrow_schema(include_headers=self._headers)

    def read(self, wanted: OffsetRange) -> Iterator[Any]:
        """The records of a range in their order, as `pyarrow.RecordBatch`es of the schema of `record_columns`.

        Raises DataLossError when some of them are gone and that is to fail the read.
        """
        size = FetchSize(self._options.max_bytes)
        offset, empty_answers = wanted.start, 0
        while offset < wanted.end:
            try:
                answer = self._client.fetch_raw(
                    *wanted.topic_partition,
                    offset,
                    max_bytes=size.next_bytes(wanted.end - offset),
                    max_wait_ms=self._options.max_wait_ms,
                )
            except (OffsetOutOfRangeError, TopicNotFoundError):
                offset = self._after_loss(wanted, offset)
                continue
            batches = whole_batches(answer.records)
            if not batches:
                empty_answers += 1
                if empty_answers > EMPTY_ANSWERS_MAX:
                    self._report(f"{wanted.topic_partition}: nothing comes from offset {offset} on")
                    return
                continue
            for span in visible_spans(answer, batches):
                yield from self._decode(span, wanted, offset)
            next_offset = batches[-1].last_offset + 1
            size.learn(next_offset - offset, batches[-1].position + batches[-1].size)
            offset, empty_answers = next_offset, 0

    def _decode(self, records: memoryview, wanted: OffsetRange, offset: int) -> Iterator[Any]:
        """Decodes a run of batches, in parts where all of it would expand beyond the limit."""
        topic, partition = wanted.topic_partition
        while records:
            part = records
            while True:
                try:
                    decoded = decode_arrow(
                        part,
                        max_decompressed_bytes=self._options.batch_bytes,
                        start_offset=offset,
                        end_offset=wanted.end,
                        topic=topic,
                        partition=partition,
                        include_headers=self._headers,
                    )
                    break
                except DecompressionLimitError as error:
                    if not error.position:
                        raise RuntimeError(
                            f"{wanted.topic_partition}: one batch at offset {error.base_offset} expands to more than"
                            f" maxBatchBytes ({self._options.batch_bytes}); raise that option"
                        ) from error
                    part = part[: error.position]
            yield from self._bounded(pa.record_batch(decoded, schema=self._schema))
            records = records[len(part) :]

    def _bounded(self, batch: Any) -> Iterator[Any]:
        """The batch in pieces of at most so many rows and, by the average of its rows, bytes; none when it is empty."""
        if not batch.num_rows:
            return
        rows = min(self._options.batch_rows, max(self._options.batch_bytes * batch.num_rows // batch.nbytes, 1))
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            yield part if self._values is None else self._values.add(part)

    def _after_loss(self, wanted: OffsetRange, offset: int) -> int:
        """Where to go on when the broker does not have `offset` any more: at its first record, or nowhere."""
        try:
            earliest = look_up(self._client, {wanted.topic_partition: int(OffsetAt.EARLIEST)})[wanted.topic_partition]
        except TopicNotFoundError:
            self._report(f"{wanted.topic_partition} was deleted while it was read, from offset {offset} on")
            return wanted.end
        if earliest <= offset:
            self._report(f"{wanted.topic_partition} ends before offset {offset}: the broker lost records")
            return wanted.end
        self._report(deleted(wanted.topic_partition, offset, earliest))
        return earliest

    def _report(self, loss: str) -> None:
        report([loss], fail=self._options.fail_on_data_loss)
