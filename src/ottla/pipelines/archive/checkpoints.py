"""Checks checkpoints against an archive before a restore: how far they have read, and whether they fit.

Every directory that has the file `metadata` and the directory `offsets` is a checkpoint. Sinks of a pipeline have one
each, like any other query on `format("ottla")`.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.archive.manifest import ArchivedTopic, ArchiveError
from ottla.pipelines.runner.checkpoint import Batch, CheckpointError, batches

_TOPIC_IDS = "#topicIds"


def read_up_to(topics: Sequence[ArchivedTopic], directories: Iterable[Path]) -> dict[TopicPartition, int]:
    """The furthest offset of each partition in all checkpoints below these directories, planned batches included.

    Raises CheckpointError where none is found, or one cannot be read; ArchiveError where one reads a topic that is not
    restored, or another topic of that name.
    """
    ids = {topic.name: topic.topic_id for topic in topics}
    found: dict[TopicPartition, int] = {}
    for directory in directories:
        checkpoints = [*_checkpoints(directory)]
        if not checkpoints:
            raise CheckpointError(f"{directory}: there is no checkpoint in it or below it")
        for checkpoint in checkpoints:
            for batch in batches(checkpoint):
                _require_ids(checkpoint, batch, ids)
                for place, offset in batch.places.items():
                    found[place] = max(offset, found.get(place, 0))
    return found


def _checkpoints(directory: Path) -> Iterator[Path]:
    if not directory.is_dir():
        raise CheckpointError(f"{directory}: no such directory")
    for offsets in sorted(directory.rglob("offsets")):
        if offsets.is_dir() and (offsets.parent / "metadata").is_file():
            yield offsets.parent


def _require_ids(checkpoint: Path, batch: Batch, ids: dict[str, str]) -> None:
    for topic in sorted({place.topic for place in batch.places}):
        if topic not in ids:
            raise ArchiveError(f"{checkpoint} reads topic {topic!r}, which is not restored: it is not in the archive")
    for end in batch.ends:
        for topic, topic_id in end.get(_TOPIC_IDS, {}).items():
            if topic in ids and ids[topic] != topic_id:
                raise ArchiveError(
                    f"{checkpoint} reads topic {topic!r} with the id {topic_id}, and the archive has the one with"
                    f" the id {ids[topic]}: it was deleted and created again in between"
                )
