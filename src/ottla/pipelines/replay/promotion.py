"""Moves the committed offsets of production's consumer groups to the end of a replay."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.replay.ranges import places_of
from ottla.pipelines.replay.replayed import ReplayError, ReplayRange, streams
from ottla.pipelines.runner.checkpoint import directory_of, is_in_use
from ottla.pipelines.runner.positions import positions
from ottla.pipelines.runner.queries import group_of
from ottla.pipelines.spec.lineage import through
from ottla.pipelines.spec.model import PipelineSpec


class Promotion(Struct, frozen=True):
    """The offset at which a consumer group continues."""

    group: str
    offsets: dict[TopicPartition, int]


def promotions(spec: PipelineSpec, side: PipelineSpec, ranges: Mapping[str, ReplayRange]) -> list[Promotion]:
    """The offsets to commit for production. Raises ReplayError: while production or the replay runs, while the replay
    is not complete, and if a stream has no group.
    """
    for each in (spec, side):
        for sink in each.sinks:
            if is_in_use(_directory(each, sink.name)):
                raise ReplayError(f"{each.name} is running (sink {sink.name}): stop it first")
    without = [source.name for source in streams(spec) if source.group is None]
    if without:
        raise ReplayError(f"source {without[0]} has no `group`: there are no positions to move")
    ends = {place: at for each in ranges.values() for place, at in places_of(each.end).items()}
    for sink in side.sinks:
        there = positions(_directory(side, sink.name))
        missing = [place for place, end in ends.items() if place in there and there[place] < end]
        if missing or not there:
            where = f"{missing[0]}: it is at {there[missing[0]]} of {ends[missing[0]]}" if missing else "it has not run"
            raise ReplayError(f"the replay has not come to its end, sink {sink.name}, {where}; run it again")
    moved: dict[str, dict[TopicPartition, int]] = {}
    for sink in spec.sinks:
        for source in streams(spec):
            group = group_of(spec, sink, source) if source.name in through(spec, sink.name) else None
            if group is not None:
                moved.setdefault(group, {}).update(places_of(ranges[source.name].end))
    return [Promotion(group, offsets) for group, offsets in moved.items()]


def _directory(spec: PipelineSpec, sink_name: str) -> Path:
    directory = next(directory_of(spec, sink) for sink in spec.sinks if sink.name == sink_name)
    if "://" in directory:
        raise ReplayError(f"the checkpoints of {spec.name} are at {directory}: only directories can be looked into")
    return Path(directory)
