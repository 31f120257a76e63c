"""The range of a replay: words, times and offsets of the command line, resolved to offsets of each partition."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from ottla.client.consuming.offsets import IsolationLevel, ListedOffset, OffsetAt
from ottla.client.io.cluster_metadata import TopicMetadata
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.replay.replayed import ReplayError, ReplayRange, streams
from ottla.pipelines.spec.model import PipelineSpec, Source
from ottla.pipelines.spec.source_options import isolation_of
from ottla.runtime.disk import OsDisk

FILE: Final = "ottla-replay.json"
"""The file with the range of a replay, beside its checkpoints, so that its end stays the same when it is restarted."""

_OFFSETS = re.compile(r"([^:]+):((?:\d{1,10}=\d{1,19},?)+)", re.ASCII)
_WORDS: Final = {"earliest": OffsetAt.EARLIEST, "latest": OffsetAt.LATEST}


class Cluster(Protocol):
    """The client of a replay, such as `ottla.client.blocking.BlockingClient`."""

    def topics(self) -> dict[str, TopicMetadata]:
        """All topics."""
        ...

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: IsolationLevel = ...
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets at times and edges."""
        ...


class Place(Struct, frozen=True):
    """The start or end of a range: a time or edge for all partitions; offsets of single partitions take precedence."""

    at: int | None = None
    """ms since 1970, or one of `OffsetAt`; None: only the offsets are given, and each partition needs one."""
    offsets: dict[TopicPartition, int] = {}


def parse_place(texts: Sequence[str], default: OffsetAt) -> Place:
    """`earliest`, `latest`, a time (ISO 8601, UTC if not said, or ms since 1970), `TOPIC:PARTITION=OFFSET,...`.

    Several are taken together. Raises ReplayError.
    """
    at: int | None = None
    offsets: dict[TopicPartition, int] = {}
    for text in texts:
        match = _OFFSETS.fullmatch(text)
        if match is not None:
            for pair in match[2].rstrip(",").split(","):
                number, _, offset = pair.partition("=")
                offsets[TopicPartition(match[1], int(number))] = int(offset)
        elif at is None:
            at = _WORDS[text] if text in _WORDS else _milliseconds(text)
        else:
            raise ReplayError(f"{text!r} says a second time where: give one, and offsets of partitions beside it")
    return Place(at if at is not None or offsets else default, offsets)


def resolve(spec: PipelineSpec, start: Place, end: Place, client: Cluster) -> dict[str, ReplayRange]:
    """The range of every stream of a pipeline, with all partitions that its topics have now. Raises ReplayError."""
    topics = client.topics()
    found: dict[str, ReplayRange] = {}
    known: set[TopicPartition] = set()
    for source in streams(spec):
        places = [
            TopicPartition(name, each.partition) for name in _topics(source, topics) for each in topics[name].partitions
        ]
        known |= set(places)
        first = {each: at.offset for each, at in client.list_offsets(dict.fromkeys(places, OffsetAt.EARLIEST)).items()}
        # A replay that does not read what is open would never come to an end behind it.
        ends_now = client.list_offsets(dict.fromkeys(places, OffsetAt.LATEST), isolation=isolation_of(source))
        last = {each: at.offset for each, at in ends_now.items()}
        begins = _offsets(start, places, first, last, client, "--from")
        ends = _offsets(end, places, first, last, client, "--to")
        found[source.name] = ReplayRange(
            _nested(begins), _nested({each: max(ends[each], begins[each]) for each in ends})
        )
    strange = sorted((start.offsets.keys() | end.offsets.keys()) - known)
    if strange:
        raise ReplayError(f"{strange[0]} is not read by {spec.name}")
    return found


def remembered(directory: Path) -> dict[str, ReplayRange] | None:
    """The stored range of a replay; None for a new one. Raises ReplayError."""
    try:
        content = (directory / FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(content, type=dict[str, ReplayRange])
    except msgspec.DecodeError as error:
        raise ReplayError(f"{directory / FILE} does not say a range: {error}") from error


def remember(directory: Path, ranges: Mapping[str, ReplayRange]) -> None:
    """Store the range of a replay. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    OsDisk().write_atomic(directory / FILE, msgspec.json.encode(ranges))


def places_of(offsets: Mapping[str, Mapping[int, int]]) -> dict[TopicPartition, int]:
    """The offsets of a range by partition."""
    return {TopicPartition(topic, number): at for topic, parts in offsets.items() for number, at in parts.items()}


def _topics(source: Source, there: Mapping[str, TopicMetadata]) -> list[str]:
    if source.pattern is not None:
        names = sorted(name for name in there if re.fullmatch(source.pattern, name))
        if not names:
            raise ReplayError(f"source {source.name}: no topic matches {source.pattern!r}")
        return names
    missing = [name for name in source.topics if name not in there]
    if missing:
        raise ReplayError(f"source {source.name}: topic {missing[0]} does not exist")
    return list(source.topics)


def _offsets(
    place: Place,
    partitions: Iterable[TopicPartition],
    first: Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
    client: Cluster,
    option: str,
) -> dict[TopicPartition, int]:
    rest = [each for each in partitions if each not in place.offsets]
    if rest and place.at is None:
        raise ReplayError(f"{option}: no offset of {rest[0]} is given; add a time, earliest or latest for the others")
    listed = client.list_offsets(dict.fromkeys(rest, place.at)) if rest and place.at is not None else {}
    found = {each: min(at.offset, last[each]) if at.offset >= 0 else last[each] for each, at in listed.items()}
    for each in partitions:
        offset = place.offsets.get(each)
        if offset is None:
            continue
        if not first[each] <= offset <= last[each]:
            raise ReplayError(f"{option}: {each} has offsets {first[each]} to {last[each]}, and not {offset}")
        found[each] = offset
    return found


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for (topic, number), at in sorted(offsets.items()):
        found.setdefault(topic, {})[number] = at
    return found


def _milliseconds(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ReplayError(
            f"{text!r} is not a place: write earliest, latest, a time such as 2013-06-01T00:00:00Z, or"
            " TOPIC:PARTITION=OFFSET"
        ) from None
    return round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)
