"""Detects records that were deleted before they were read.

Offsets only grow and partitions do not disappear, unless records are deleted before they are read (retention), or the
topic is deleted. Then a stream either fails, which is the default, or continues with the remaining records and logs
it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.client.consuming.offsets import OffsetAt
from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.log_client import LogReader
from pyspark_ottla.offset_json import Offsets
from pyspark_ottla.position import look_up
from pyspark_ottla.stream_offset import StreamOffset
from pyspark_ottla.subscription import Subscribed

logger = logging.getLogger("pyspark_ottla")


class DataLossError(RuntimeError):
    """Records were deleted before they were read. The message names them, the reason, and how to continue."""


@dataclass(frozen=True, slots=True)
class LogState:
    """The partitions of a subscription at one moment, each with the first and the end offset of its log."""

    subscribed: Subscribed
    earliest: Offsets
    latest: Offsets

    @classmethod
    def now(cls, client: LogReader, subscribed: Subscribed) -> "LogState":
        """The current state. End offsets are read after start offsets, so no log seems to end before it begins."""
        earliest = look_up(client, dict.fromkeys(subscribed.partitions, int(OffsetAt.EARLIEST)))
        latest = look_up(client, dict.fromkeys(subscribed.partitions, int(OffsetAt.LATEST)))
        return cls(subscribed, earliest, latest)


def resume(read: StreamOffset, state: LogState) -> tuple[Offsets, list[str]]:
    """The next offset of each partition that exists, and the records that were deleted before it.

    A partition that is new begins with its first record.
    """
    starts, losses = dict(state.earliest), []
    recreated = {
        topic
        for topic, topic_id in read.topic_ids.items()
        if state.subscribed.topic_ids.get(topic, topic_id) != topic_id
    }
    for each, offset in sorted(read.offsets.items()):
        if each not in state.latest:
            losses.append(f"{each} does not exist any more; it had been read up to offset {offset}")
        elif each.topic in recreated:
            losses.append(
                f"{each} had been read up to offset {offset}, but topic {each.topic!r} was deleted and created again:"
                f" its id was {read.topic_ids[each.topic]} and is {state.subscribed.topic_ids[each.topic]}"
            )
        elif offset < state.earliest[each]:
            losses.append(deleted(each, offset, state.earliest[each]))
        elif offset > state.latest[each]:
            losses.append(truncated(each, offset, state.latest[each]))
            starts[each] = state.latest[each]
        else:
            starts[each] = offset
    return starts, losses


def truncated(topic_partition: TopicPartition, wanted: int, latest: int) -> str:
    """The message for a log that ends before an offset that was read or requested."""
    return (
        f"{topic_partition} ends at offset {latest}, before offset {wanted} that was to be read:"
        " the broker lost records, its data was replaced, or the offset is not right"
    )


def deleted(topic_partition: TopicPartition, wanted: int, earliest: int) -> str:
    """The message for records that were deleted before they were read."""
    return (
        f"{topic_partition}: offsets {wanted} to {earliest - 1} were deleted before they were read; the log begins at"
        f" {earliest} (a longer retention.ms or retention.bytes keeps more)"
    )


def report(losses: Sequence[str], *, fail: bool) -> None:
    """Raise DataLossError for lost records or, with `failOnDataLoss` off, log a warning for each partition."""
    if losses and fail:
        more = f" (and {len(losses) - 1} more partitions lost data)" if len(losses) > 1 else ""
        raise DataLossError(
            f"data was lost: {losses[0]}{more}. To go on with what is left, set option failOnDataLoss to false"
        )
    for loss in losses:
        logger.warning("data was lost; the read continues because failOnDataLoss is false: %s", loss)
