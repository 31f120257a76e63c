"""The start offsets of a checkpoint after `reset`, which also removes its state.

```
checkpoints/flights/hourly/
   ottla-pipeline-begin.json   {"offsets": {"flights.events": {"0": 120}}, "ready": true}
```

State does not go back with offsets. So the query begins again as another one, with an empty checkpoint, from the
offsets of this file. What is removed and what is written stands in this order, so that a crash anywhere leaves either
the old checkpoint, or one that is refused until the reset is done:

    ready = false │ offsets removed, then all else │ transactional ids released │ ready = true

The offsets go first, in one step: a query that has none goes on from nothing. The transactional ids are released last,
as the query that was here could otherwise write a micro-batch a second time.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import MsgspecError, Struct, json

from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.runner.checkpoint import CheckpointError, directory_of
from ottla.pipelines.spec.model import PipelineSpec, Sink, Source, TopicSink
from ottla.runtime.disk import Disk, OsDisk

BEGIN: Final = "ottla-pipeline-begin.json"
_KEPT: Final = "ottla-pipeline"
"""Names of files that are ours begin so; what else is there is Spark's."""
_REMOVED: Final = "removed"


class Beginning(Struct, frozen=True):
    """The start offsets of the first micro-batch. `ready` is False until the reset is complete."""

    offsets: dict[str, dict[str, int]]
    ready: bool

    @property
    def places(self) -> dict[TopicPartition, int]:
        """The start offsets by partition."""
        return {
            TopicPartition(topic, int(number)): offset
            for topic, partitions in self.offsets.items()
            for number, offset in partitions.items()
        }

    def options(self, source: Source, options: Mapping[str, str]) -> dict[str, str]:
        """The options of a source with these start offsets, for a query without a checkpoint."""
        kept = {name: value for name, value in options.items() if not name.lower().startswith("starting")}
        if source.pattern is None:
            read = {topic: self.offsets[topic] for topic in source.topics if topic in self.offsets}
        else:
            read = {topic: each for topic, each in self.offsets.items() if re.fullmatch(source.pattern, topic)}
        return {**kept, "startingOffsets": json.encode(read).decode()}


def beginning_of_sink(spec: PipelineSpec, sink: Sink) -> Beginning | None:
    """The start offsets of a sink's checkpoint; None if it was not reset, or is at a URL."""
    directory = directory_of(spec, sink)
    return None if "://" in directory else beginning_of(Path(directory))


def beginning_of(directory: Path) -> Beginning | None:
    """The start offsets of a checkpoint; None if it was not reset. Raises CheckpointError for an invalid file."""
    file = directory / BEGIN
    try:
        return json.decode(file.read_bytes(), type=Beginning)
    except FileNotFoundError:
        return None
    except MsgspecError as error:
        raise CheckpointError(f"{file} does not say where the checkpoint begins: {error}") from None


def require_begun(directory: Path) -> None:
    """Raises CheckpointError where a reset was interrupted."""
    found = beginning_of(directory)
    if found is not None and not found.ready:
        raise CheckpointError(
            f"a reset of the checkpoint {directory} was begun and has not come to its end: run `ottla pipeline reset`"
            " once more"
        )


def begin_anew(
    directory: Path, offsets: Mapping[TopicPartition, int], release: Callable[[], None], disk: Disk | None = None
) -> None:
    """Empty the checkpoint, except for its owner, and set its start offsets. The caller holds its lock."""
    disk = disk or OsDisk()
    begin: dict[str, dict[str, int]] = {}
    for place, offset in sorted(offsets.items()):
        begin.setdefault(place.topic, {})[str(place.partition)] = offset
    disk.write_atomic(directory / BEGIN, json.encode(Beginning(begin, ready=False)))
    removed = directory / _REMOVED
    disk.remove_tree(removed)
    if disk.exists(directory / "offsets"):
        disk.rename(directory / "offsets", removed)
    for name in disk.list_dir(directory):
        if name.startswith(_KEPT):
            continue
        if disk.is_dir(directory / name):
            disk.remove_tree(directory / name)
        else:
            disk.remove(directory / name)
    release()
    disk.write_atomic(directory / BEGIN, json.encode(Beginning(begin, ready=True)))


def transactional_ids(spec: PipelineSpec, sink: Sink) -> list[str]:
    """The transactional ids of a sink: its own, and those of dead letters that are written apart from its rows."""
    found = [sink.transactional_id] if isinstance(sink, TopicSink) and sink.mode == "exactly-once" else []
    if spec.dead_letters is None:
        return found
    if not isinstance(sink, TopicSink):
        found.append(letters_id(spec, sink.name))
    return [*found, raised_id(spec, sink.name)]


def letters_id(spec: PipelineSpec, sink: str) -> str:
    """The transactional id for the dead letters of a table."""
    return f"{spec.name}.{sink}.dead-letters"


def raised_id(spec: PipelineSpec, sink: str) -> str:
    """The transactional id for dead letters of records for which an expression failed."""
    return f"{spec.name}.{sink}.raised"
