"""Derives the pipeline of a replay: the same steps over past records, with separate outputs."""

import json
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, structs

from ottla.pipelines.spec.model import PipelineSpec, Sink, Source, TopicSink

SUFFIX: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,38}[a-z0-9])?")
"""The pattern of names of replays: they become part of names of topics, groups and directories."""

Offsets = Mapping[str, Mapping[int, int]]
"""Topic to partition to offset."""


class ReplayError(ValueError):
    """A replay is not possible. The message is one line."""


class ReplayRange(Struct, frozen=True):
    """The offsets that a replay reads: for each partition the first one, and the end, which is excluded."""

    start: dict[str, dict[int, int]]
    end: dict[str, dict[int, int]]


def replayed(spec: PipelineSpec, ranges: Mapping[str, ReplayRange], suffix: str) -> PipelineSpec:
    """The pipeline `NAME-SUFFIX`, which reads a range of each stream and writes beside production.

    `ranges` has one for every source that is a stream, with all its partitions: the range is fixed before it runs, so
    that a replay that was interrupted goes on to the same end. Topics become `TOPIC.SUFFIX`, tables `PATH.SUFFIX`,
    groups `GROUP-SUFFIX`, transactional ids `ID.SUFFIX`; checkpoints lie under the new name. Tables that are joined
    with are read as they are now. Raises ReplayError.
    """
    if not SUFFIX.fullmatch(suffix):
        raise ReplayError(
            f"{suffix!r} cannot be part of a topic's name: up to 40 of a-z 0-9 . _ -, beginning and ending with a"
            " letter or a digit"
        )
    return structs.replace(
        spec,
        name=f"{spec.name}-{suffix}",
        sources={name: _source(source, ranges, suffix) for name, source in spec.sources.items()},
        sinks=tuple(_sink(sink, suffix) for sink in spec.sinks),
        dead_letters=spec.dead_letters
        and structs.replace(spec.dead_letters, topic=f"{spec.dead_letters.topic}.{suffix}"),
        audit=spec.audit and structs.replace(spec.audit, topic=f"{spec.audit.topic}.{suffix}"),
    )


def streams(spec: PipelineSpec) -> list[Source]:
    """The sources that are streams; tables are not replayed."""
    return [source for source in spec.sources.values() if not source.table]


def side_path(path: str, suffix: str) -> str:
    """The path of a replay's table."""
    return f"{path.rstrip('/')}.{suffix}"


def _source(source: Source, ranges: Mapping[str, ReplayRange], suffix: str) -> Source:
    if source.table:
        return source
    found = ranges.get(source.name)
    if found is None:
        raise ReplayError(f"no range of source {source.name} is given")
    if found.start.keys() != found.end.keys():
        raise ReplayError(f"the range of source {source.name} begins and ends in different topics")
    for topic, starts in found.start.items():
        ends = found.end[topic]
        if starts.keys() != ends.keys():
            raise ReplayError(f"the range of source {source.name} begins and ends in different partitions of {topic}")
        for partition, start in starts.items():
            if start > ends[partition]:
                raise ReplayError(
                    f"{topic}-{partition}: the range ends at {ends[partition]}, before it begins at {start}"
                )
    kept = {name: value for name, value in source.options.items() if not _is_position(name)}
    given = {"startingOffsets": _json(found.start), "endingOffsets": _json(found.end)}
    return structs.replace(
        source,
        topics=tuple(sorted(found.start)),
        pattern=None,
        start="earliest",
        group=source.group and f"{source.group}-{suffix}",
        options={**kept, **given},
    )


def _is_position(option: str) -> bool:
    """Whether an option of the data source says where to begin or to end; they are known in any case of letters."""
    return option.lower().startswith(("starting", "ending")) or option.lower() == "groupid"


def _json(offsets: Offsets) -> str:
    return json.dumps({topic: {str(number): at for number, at in parts.items()} for topic, parts in offsets.items()})


def _sink(sink: Sink, suffix: str) -> Sink:
    if isinstance(sink, TopicSink):
        transactional_id = f"{sink.transactional_id}.{suffix}"
        return structs.replace(sink, topic=f"{sink.topic}.{suffix}", transactional_id=transactional_id)
    return structs.replace(sink, path=side_path(sink.path, suffix), compact=None)
