"""Where reading starts and ends: an edge of the log, given offsets, or points in time.

Each side has four options. The most specific wins, as in Spark's Kafka source: `startingTimestamp`, then
`startingOffsetsByTimestamp`, then `startingOffsets`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.client.consuming.offsets import NO_OFFSET, OffsetAt
from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.log_client import LogReader
from pyspark_ottla.offset_json import Offsets, joined, offsets_from_json
from pyspark_ottla.options import OptionError, Options

STARTING_OPTIONS = (
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
)
ENDING_OPTIONS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")

_EDGES = {"earliest": OffsetAt.EARLIEST, "latest": OffsetAt.LATEST}


class Position(Protocol):
    """A rule that gives each partition an offset."""

    def resolve(self, client: LogReader, partitions: Sequence[TopicPartition]) -> Offsets:
        """One offset for each of the partitions. Raises OptionError when the rule does not fit them."""
        ...


@dataclass(frozen=True, slots=True)
class Edge:
    """The first offset that is still there, or the end."""

    at: OffsetAt

    def resolve(self, client: LogReader, partitions: Sequence[TopicPartition]) -> Offsets:
        """The edge of each partition as it is now."""
        return look_up(client, dict.fromkeys(partitions, int(self.at)))


@dataclass(frozen=True, slots=True)
class GivenOffsets:
    """Offsets from an option, one for each partition; -2 stands for earliest and -1 for latest."""

    offsets: Mapping[TopicPartition, int]
    option: str

    def resolve(self, client: LogReader, partitions: Sequence[TopicPartition]) -> Offsets:
        """The given numbers; -1 and -2 are looked up now."""
        _require_same(self.offsets, partitions, f"option {self.option}", "(-2 stands for earliest, -1 for latest)")
        edges = look_up(client, {each: offset for each, offset in self.offsets.items() if offset < 0})
        return {each: edges.get(each, self.offsets[each]) for each in partitions}


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after a timestamp, in milliseconds since 1970: one for all partitions, or one for each."""

    timestamps: int | Mapping[TopicPartition, int]
    option: str
    or_latest: bool
    """Whether a partition without a record of that time or later starts at its end; otherwise that is an error."""

    def resolve(self, client: LogReader, partitions: Sequence[TopicPartition]) -> Offsets:
        """The offsets that the broker finds for the timestamps."""
        if isinstance(self.timestamps, int):
            wanted = dict.fromkeys(partitions, self.timestamps)
        else:
            _require_same(self.timestamps, partitions, f"option {self.option}", "")
            wanted = {each: self.timestamps[each] for each in partitions}
        found = look_up(client, wanted)
        without = [each for each, offset in found.items() if offset == NO_OFFSET]
        if without and not self.or_latest:
            raise OptionError(
                f"option {self.option}: {joined(without)} has no record at or after {wanted[without[0]]};"
                " set startingOffsetsByTimestampStrategy to latest to start at the end there"
            )
        return found | look_up(client, dict.fromkeys(without, int(OffsetAt.LATEST)))


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """The committed offsets of a consumer group; for partitions without one, `kafka.auto.offset.reset` decides."""

    group_id: str
    otherwise: OffsetAt | None
    """None: a partition without a committed offset is an error."""

    def resolve(self, client: LogReader, partitions: Sequence[TopicPartition]) -> Offsets:
        """The committed offsets."""
        found = {each: at.offset for each, at in client.committed_offsets(self.group_id, partitions).items()}
        without = [each for each in partitions if each not in found]
        if without and self.otherwise is None:
            raise OptionError(
                f"option startingOffsets: group {self.group_id!r} has committed no offset for {joined(without)};"
                " set kafka.auto.offset.reset to earliest or latest"
            )
        return found | look_up(client, dict.fromkeys(without, int(self.otherwise or OffsetAt.EARLIEST)))


def starting_position(options: Options, *, default: OffsetAt, streaming: bool) -> Position:
    """Where to start. A batch cannot start at the end of the log: it would always be empty."""
    if (options.text("startingOffsets") or "").lower() == "group" and not any(
        options.text(name) for name in ("startingTimestamp", "startingOffsetsByTimestamp")
    ):
        return _group_position(options)
    or_latest = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error") == "latest"
    position = _position(options, "starting", default, or_latest=or_latest)
    if not streaming and _mentions(position, OffsetAt.LATEST):
        raise OptionError("option startingOffsets: a batch cannot start at latest; give earliest, offsets or a time")
    return position


def _group_position(options: Options) -> GroupPosition:
    group_id = options.text("groupId")
    if group_id is None:
        raise OptionError("option startingOffsets: group needs option groupId, the group to begin from")
    reset = options.choice("kafka.auto.offset.reset", ("earliest", "latest", "none"), "earliest")
    return GroupPosition(group_id, _EDGES.get(reset))


def ending_position(options: Options) -> Position:
    """Where a batch or a stream ends, by default at the end of the log as it is now."""
    position = _position(options, "ending", OffsetAt.LATEST, or_latest=True)
    if _mentions(position, OffsetAt.EARLIEST):
        raise OptionError("option endingOffsets: a read cannot end at earliest; give latest, offsets or a time")
    return position


def look_up(client: LogReader, at: Mapping[TopicPartition, int]) -> Offsets:
    """The current offsets at timestamps or edges. Sends no request if there are none to look up."""
    return {each: listed.offset for each, listed in client.list_offsets(at).items()} if at else {}


def _position(options: Options, side: str, default: OffsetAt, *, or_latest: bool) -> Position:
    name = f"{side}Timestamp"
    if options.text(name) is not None:
        return AtTime(options.integer(name, 0, minimum=0), name, or_latest)
    name = f"{side}OffsetsByTimestamp"
    timestamps = options.json_object(name)
    if timestamps is not None:
        return AtTime(offsets_from_json(timestamps, option=name), name, or_latest)
    name = f"{side}Offsets"
    text = (options.text(name) or default.name).lower()
    if text in _EDGES:
        return Edge(_EDGES[text])
    if not text.startswith("{"):
        group = "group, " if side == "starting" else ""
        raise OptionError(
            f'option {name} must be {group}earliest, latest or as in {{"events": {{"0": 23}}}}, not {text!r}'
        )
    given = options.json_object(name) or {}
    return GivenOffsets(offsets_from_json(given, option=name, minimum=int(OffsetAt.EARLIEST)), name)


def _mentions(position: Position, edge: OffsetAt) -> bool:
    if isinstance(position, Edge):
        return position.at == edge
    return isinstance(position, GivenOffsets) and edge in position.offsets.values()


def _require_same(
    given: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition], what: str, hint: str
) -> None:
    missing, unknown = set(partitions) - given.keys(), given.keys() - set(partitions)
    if missing:
        raise OptionError(f"{what} must name every partition that is read; missing: {joined(missing)} {hint}".rstrip())
    if unknown:
        raise OptionError(f"{what} names partitions that are not read: {joined(unknown)}")
