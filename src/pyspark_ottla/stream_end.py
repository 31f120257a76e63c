"""The end of a stream with an ending position."""

from collections.abc import Mapping

from ottla.client.consuming.offsets import NO_OFFSET
from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.log_client import LogReader
from pyspark_ottla.offset_json import Offsets
from pyspark_ottla.position import AtTime, Position, look_up


class StreamEnd:
    """The end offset of each partition of a stream, each looked up once and kept.

    With a point in time, a partition goes on until it has a record of that time or later: it ends before the first such
    record, and what comes after it is not read even if it is stamped earlier. The other positions, `latest` among them,
    are those of the moment when the query started. A partition that they do not name, or that came later, is not read.
    """

    def __init__(self, position: Position) -> None:
        self._position = position
        self._ends: Offsets | None = None

    def cut(self, client: LogReader, latest: Mapping[TopicPartition, int]) -> Offsets:
        """These end offsets, limited to the end of the stream. Raises OptionError for a position that does not fit."""
        if isinstance(self._position, AtTime):
            self._ends = (self._ends or {}) | self._at_time(self._position, client, latest)
            return {each: min(offset, self._ends.get(each, offset)) for each, offset in latest.items()}
        if self._ends is None:
            self._ends = self._position.resolve(client, sorted(latest))
        return {each: min(offset, self._ends.get(each, 0)) for each, offset in latest.items()}

    def _at_time(self, at: AtTime, client: LogReader, latest: Mapping[TopicPartition, int]) -> Offsets:
        open_still = [each for each in latest if each not in (self._ends or {})]
        if isinstance(at.timestamps, int):
            wanted = dict.fromkeys(open_still, at.timestamps)
        else:
            wanted = {each: at.timestamps[each] for each in open_still if each in at.timestamps}
        found = look_up(client, wanted)
        not_named = dict.fromkeys((each for each in open_still if each not in wanted), 0)
        return not_named | {each: offset for each, offset in found.items() if offset != NO_OFFSET}
