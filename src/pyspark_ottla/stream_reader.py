"""`spark.readStream.format("ottla")`."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.runtime.clock import Clock, SystemClock
from pyspark_ottla.admission import limit_bytes, limit_rows
from pyspark_ottla.archived_log import with_archive
from pyspark_ottla.batch_reader import read_task
from pyspark_ottla.clients import reader_for
from pyspark_ottla.data_loss import LogState, report, resume
from pyspark_ottla.group_progress import GroupProgress
from pyspark_ottla.log_client import LogReader
from pyspark_ottla.offset_json import Offsets, joined
from pyspark_ottla.offset_range import ranges_between
from pyspark_ottla.plain_errors import plain_errors
from pyspark_ottla.read_options import ReadOptions
from pyspark_ottla.record_sizes import offset_bytes
from pyspark_ottla.stream_end import StreamEnd
from pyspark_ottla.stream_offset import StreamOffset
from pyspark_ottla.worker_socket import send_and_acknowledge_at_once


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reports the ends of the logs to Spark, and reads the ranges that Spark plans.

    One object lives as long as the query and plans all its micro-batches, in a process of its own beside the driver.
    `read` runs on the executors, on copies that were pickled before the first micro-batch: it uses the options alone.
    """

    def __init__(self, options: ReadOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._target: Offsets | None = None
        self._last_trigger_ms: int | None = None
        self._end = None if options.ending is None else StreamEnd(options.ending)
        self._group: GroupProgress | None = None

    @plain_errors()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a query without a checkpoint starts. Raises OptionError when a topic does not exist."""
        client = self._client()
        subscribed = self._options.subscription.resolve(client).require_all()
        starting = self._options.starting.resolve(client, subscribed.partitions)
        return StreamOffset(starting, subscribed.topic_ids).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of a micro-batch, unless the trigger sets another one."""
        admission = self._options.admission
        if admission.rows_max is not None:
            return ReadMaxRows(admission.rows_max)
        if admission.bytes_max is not None:
            return ReadMaxBytes(admission.bytes_max)
        return ReadMinRows(admission.rows_min) if admission.rows_min is not None else ReadAllAvailable()

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the stream: records that arrive later are not read."""
        self._target = self._latest(self._state())

    @plain_errors()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch; `start` if there is nothing new, or less than the minimum.

        Raises DataLossError when what comes after `start` is not there any more.
        """
        read, state = StreamOffset.from_json(start), self._state()
        # Spark asks for more when the micro-batch before has ended, so all up to here has been processed.
        self._show(read.offsets)
        starts, losses = resume(read, state)
        if self._options.fetch.fail_on_data_loss:
            report(losses, fail=True)
        end = self._latest(state)
        if self._target is not None:
            end = {each: min(offset, self._target[each]) for each, offset in end.items() if each in self._target}
        # A stream never goes back, not even where it was told to end before it began.
        end = {each: max(offset, starts[each]) for each, offset in end.items()}
        if self._waits_for_more(limit, starts, end):
            return start
        if isinstance(limit, ReadMaxRows):
            end = limit_rows(starts, end, limit.max_rows)
        bytes_max = self._bytes_max(limit)
        if bytes_max is not None:
            waiting = ranges_between(starts, end)
            end = limit_bytes(starts, end, bytes_max, offset_bytes(self._client(), waiting))
        return StreamOffset(end, {each.topic: state.subscribed.topic_ids[each.topic] for each in end}).to_json()

    @plain_errors()
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end offsets of the logs, from which the progress computes the lag."""
        return StreamOffset(self._latest(self._state())).to_json()

    @plain_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of each task of a micro-batch, the same after a restart if the records still exist."""
        state, until = self._state(), StreamOffset.from_json(end)
        starts, losses = resume(StreamOffset.from_json(start), state)
        gone = [each for each in until.offsets if _is_gone(each.topic, until, state) or each not in state.latest]
        if gone:
            losses.append(f"{joined(gone)} was deleted after a micro-batch had been planned to read it")
        report(losses, fail=self._options.fetch.fail_on_data_loss)
        ranges = ranges_between(starts, {each: offset for each, offset in until.offsets.items() if each not in gone})
        return [*self._options.plan(ranges)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of one task's ranges."""
        yield from read_task(self._options, partition)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy for a task knows the options and nothing of how far the query is."""
        return _of_a_task, (self._options,)

    def _client(self) -> LogReader:
        return with_archive(reader_for(self._options.connection, self._options.isolation), self._options.archive)

    def _state(self) -> LogState:
        client = self._client()
        return LogState.now(client, self._options.subscription.resolve(client))

    def _latest(self, state: LogState) -> Offsets:
        """The ends of the logs, or of the stream where it has an end before."""
        return state.latest if self._end is None else self._end.cut(self._client(), state.latest)

    def _show(self, offsets: Offsets) -> None:
        if self._options.group_id is not None:
            if self._group is None:
                self._group = GroupProgress(self._client(), self._options.group_id)
            self._group.done(offsets)

    def _bytes_max(self, limit: ReadLimit) -> int | None:
        if isinstance(limit, ReadMaxBytes):
            return limit.max_bytes
        return None if isinstance(limit, ReadAllAvailable) else self._options.admission.bytes_max

    def _waits_for_more(self, limit: ReadLimit, starts: Offsets, end: Offsets) -> bool:
        """Whether there is less than `minOffsetsPerTrigger`, and it has not been so for too long."""
        admission = self._options.admission
        # A run over what is available now must come to its end, and a limit of the trigger's own goes first.
        if admission.rows_min is None or self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        now_ms = self._clock.monotonic_ms()
        if self._last_trigger_ms is None:
            self._last_trigger_ms = now_ms
        enough = sum(each.count for each in ranges_between(starts, end)) >= admission.rows_min
        if enough or now_ms - self._last_trigger_ms >= admission.delay_max_ms:
            self._last_trigger_ms = now_ms
            return False
        return True


def _of_a_task(options: ReadOptions) -> OttlaStreamReader:
    """A copy, as the worker of a task unpickles it."""
    send_and_acknowledge_at_once()
    return OttlaStreamReader(options)


def _is_gone(topic: str, planned: StreamOffset, state: LogState) -> bool:
    """Whether the topic that a micro-batch was planned for has gone, perhaps for another one of its name."""
    topic_id = planned.topic_ids.get(topic)
    return topic_id is not None and state.subscribed.topic_ids.get(topic) != topic_id
