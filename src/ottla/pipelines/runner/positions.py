"""Reads the positions of sinks from their checkpoints, and moves checkpoints to other offsets.

Nothing here needs Spark. A checkpoint is moved by writing other ends into its last micro-batch that is done: the next
one begins there.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from ottla.client.consuming.fetch import FetchedBatches
from ottla.client.consuming.offsets import IsolationLevel, ListedOffset, OffsetAt
from ottla.client.errors import ClientError
from ottla.model.topic_partition import TopicPartition
from ottla.native import walk_batches
from ottla.pipelines.runner.beginning import beginning_of
from ottla.pipelines.runner.checkpoint import Batch, CheckpointError, batches, rewritten
from ottla.runtime.disk import OsDisk

_PEEK_BYTES = 64 * 1024
"""Of the first records that wait: their batch is as much as is looked at."""


class Cluster(Protocol):
    """The client that looks up offsets, such as `ottla.client.blocking.BlockingClient`."""

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: IsolationLevel = ...
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets at times."""
        ...

    def fetch_raw(
        self, topic: str, partition: int, offset: int, *, max_bytes: int = ..., max_wait_ms: int = ...
    ) -> FetchedBatches:
        """Batches from an offset on."""
        ...


class Behind(Struct, frozen=True):
    """The position and lag of a sink in a partition. `position` is None before the first micro-batch."""

    sink: str
    topic: str
    partition: int
    position: int | None
    end: int
    lag: int | None
    seconds: float | None
    """The age of the first record that was not read yet; 0.0 if there is none."""


def positions(directory: Path) -> dict[TopicPartition, int]:
    """The start offsets of the next micro-batch. Empty before the first one is done, unless the checkpoint was reset.

    Raises CheckpointError.
    """
    done = [each for each in batches(directory) if each.done]
    if done:
        return done[-1].places
    beginning = beginning_of(directory)
    return {} if beginning is None else beginning.places


def behind(
    sink: str, read: Mapping[TopicPartition, int], partitions: list[TopicPartition], client: Cluster, now_ms: int
) -> list[Behind]:
    """The lag of a sink in each partition. Records of open transactions do not count."""
    isolation = IsolationLevel.READ_COMMITTED
    ends = client.list_offsets(dict.fromkeys(partitions, OffsetAt.LATEST), isolation=isolation)
    found = []
    for place in sorted(partitions):
        position, end = read.get(place), ends[place].offset
        lag = None if position is None else max(end - position, 0)
        seconds = None if not lag or position is None else _age(place, position, client, now_ms)
        found.append(Behind(sink, *place, position, end, lag, 0.0 if lag == 0 else seconds))
    return found


def _age(place: TopicPartition, position: int, client: Cluster, now_ms: int) -> float | None:
    """How old the batch is that the first waiting record lies in; None where it cannot be read any more."""
    try:
        answer = client.fetch_raw(*place, position, max_bytes=_PEEK_BYTES, max_wait_ms=0)
    except ClientError:
        return None
    waiting = [each for each in walk_batches(answer.records, check_crc=False)[0] if each.last_offset >= position]
    return max(now_ms - waiting[0].base_timestamp, 0) / 1000 if waiting else None


class Move(Struct, frozen=True):
    """A change of a checkpoint: the micro-batch with new end offsets, and what to do with an unfinished one."""

    batch: int
    ends: tuple[dict[str, Any], ...]
    forgets: int | None = None
    """An unfinished micro-batch that was not published: it is planned again."""
    finishes: int | None = None
    """An unfinished micro-batch that was published: it is marked as done."""


def plan_move(
    known: list[Batch], to: Mapping[TopicPartition, int], published: Callable[[int], bool]
) -> tuple[Move, dict[TopicPartition, int]]:
    """Plan a move to `to`. Returns it with the old offsets. `published` tells whether the sink has a micro-batch.

    Of a topic of which all partitions are moved the id is forgotten: it is the topic of that name as it is now, also
    where it was deleted and created again.

    Raises CheckpointError where no micro-batch is there to be written anew, or where a partition is not of it.
    """
    if not known:
        raise CheckpointError("there is no micro-batch yet: `start` of the sources decides where the first one begins")
    last, forgets, finishes = known[-1], None, None
    if not last.done:
        if published(last.number):
            finishes = last.number
        elif len(known) > 1:
            last, forgets = known[0], last.number
        else:
            raise CheckpointError("its first micro-batch was begun and is not done: let it run once before it is moved")
    places = last.places
    require_known(places, to)
    moved = {place.topic for place in places} - {place.topic for place in places if place not in to}
    ends = tuple(
        {
            topic: {name: each for name, each in value.items() if name not in moved}
            if topic.startswith("#")
            else {number: to.get(TopicPartition(topic, int(number)), offset) for number, offset in value.items()}
            for topic, value in end.items()
        }
        for end in last.ends
    )
    return Move(last.number, ends, forgets, finishes), places


def require_known(places: Mapping[TopicPartition, int], to: Mapping[TopicPartition, int]) -> None:
    """Raises CheckpointError for a partition that is not read."""
    strange = sorted(set(to) - set(places))
    if strange:
        raise CheckpointError(f"{strange[0]} is not read by it: it reads {', '.join(map(str, sorted(places)))}")


def execute(directory: Path, move: Move) -> None:
    """Carry out a move. The caller holds the lock. After a crash the position is the old or the new one."""
    disk = OsDisk()
    file = directory / "offsets" / str(move.batch)
    text = rewritten(file.read_text(), {index: end for index, end in enumerate(move.ends) if end})
    if move.forgets is not None:
        _remove(directory / "offsets" / str(move.forgets), disk)
    if move.finishes is not None:
        done = json.dumps({"nextBatchWatermarkMs": 0}, separators=(",", ":"))
        disk.write_atomic(directory / "commits" / str(move.finishes), f"v1\n{done}".encode())
    # Spark's checksum of the file would not fit any more; without one it reads the file as it is.
    disk.remove(file.with_name(f".{file.name}.crc"))
    disk.write_atomic(file, text.encode())


def _remove(file: Path, disk: OsDisk) -> None:
    disk.remove(file)
    disk.remove(file.with_name(f".{file.name}.crc"))
