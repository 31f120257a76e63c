"""`spark.read.format("ottla")`."""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pyspark_ottla.archived_log import with_archive
from pyspark_ottla.clients import reader_for
from pyspark_ottla.data_loss import LogState, deleted, report, truncated
from pyspark_ottla.log_client import LogReader
from pyspark_ottla.offset_json import Offsets
from pyspark_ottla.offset_range import OffsetRange, TaskRanges, ranges_between
from pyspark_ottla.options import OptionError
from pyspark_ottla.plain_errors import plain_errors
from pyspark_ottla.pushed_filters import PushedFilters
from pyspark_ottla.range_reader import RangeReader
from pyspark_ottla.read_options import ReadOptions
from pyspark_ottla.worker_heap import leave_modules_alone
from pyspark_ottla.worker_socket import send_and_acknowledge_at_once


class OttlaReader(DataSourceReader):
    """Reads the records between two positions, which are resolved to offsets when the job is planned.

    Planned on the driver; `read` runs on the executors, on a copy that was pickled.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._filters: PushedFilters | None = None

    @plain_errors()
    def partitions(self) -> list[InputPartition]:
        """The ranges of each task. Raises OptionError, and DataLossError for starting offsets that were deleted."""
        client = with_archive(reader_for(self._options.connection, self._options.isolation), self._options.archive)
        ranges = self._ranges(client)
        if self._filters is not None:
            ranges = self._filters.narrow(client, ranges)
        return [*self._options.plan(ranges)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of one task's ranges."""
        yield from read_task(self._options, partition)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy for a task, as its worker unpickles it."""
        send_and_acknowledge_at_once()
        self.__dict__.update(state)

    def _ranges(self, client: LogReader) -> list[OffsetRange]:
        assert self._options.ending is not None, "a batch has an end"
        subscribed = self._options.subscription.resolve(client).require_all()
        start = self._options.starting.resolve(client, subscribed.partitions)
        end = self._options.ending.resolve(client, subscribed.partitions)
        for each in subscribed.partitions:
            if start[each] > end[each]:
                raise OptionError(f"the read of {each} starts at offset {start[each]}, after its end at {end[each]}")
        # Only now: a log that grew meanwhile must not seem to end before a position that was just looked up.
        start, end, losses = _within_logs(start, end, LogState.now(client, subscribed))
        report(losses, fail=self._options.fetch.fail_on_data_loss)
        return ranges_between(start, end)


class OttlaFilteringReader(OttlaReader):
    """The same with filters that Spark pushes down.

    A class of its own: Spark refuses a reader that has the method while `spark.sql.python.filterPushdown.enabled` is
    not set, which it is not by default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Use the filters that make the read smaller. Returns those that Spark must still apply to each row."""
        self._filters = PushedFilters()
        return self._filters.take(filters)


def _within_logs(start: Offsets, end: Offsets, state: LogState) -> tuple[Offsets, Offsets, list[str]]:
    """Both positions moved to where there are records, and a sentence for each partition where that leaves some out."""
    before = [each for each, offset in start.items() if offset < state.earliest[each]]
    beyond = [each for each, offset in end.items() if offset > state.latest[each]]
    losses = [deleted(each, start[each], state.earliest[each]) for each in before]
    losses += [truncated(each, end[each], state.latest[each]) for each in beyond]
    start = start | {each: state.earliest[each] for each in before}
    return start, end | {each: state.latest[each] for each in beyond}, losses


def read_task(options: ReadOptions, partition: InputPartition) -> Iterator[Any]:
    """The records of one task, of a batch or of a micro-batch, as Arrow record batches."""
    leave_modules_alone("read")
    # Spark makes up a partition of its own when a batch has none.
    if isinstance(partition, TaskRanges):
        with plain_errors():
            client = reader_for(options.connection, options.isolation, options.rack)
            reader = RangeReader(with_archive(client, options.archive), options.fetch)
            for each in partition.ranges:
                yield from reader.read(each)
