"""The checkpoint of a sink: its owner, its lock, and its position.

```
checkpoints/flights/delays/
   metadata            Spark: the id of the query
   offsets/17          Spark: where micro-batch 17 ends, of each source a line; written before it runs
   commits/17          Spark: micro-batch 17 is done
   state/ sources/     Spark
   ottla-pipeline.json whose checkpoint it is
   ottla-pipeline.lock held by the driver that uses it, which it names
   ottla-pipeline.id   what the checkpoint is called in the brokers
```

The lock is one of the file system (flock): it ends with the process that holds it, and answers at once. It may not hold
between machines that share the directory, so a driver takes the checkpoint in the brokers too: `checkpoint_lease`.
"""

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from msgspec import Struct

from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.spec.event_time import ANY_YEAR
from ottla.pipelines.spec.lineage import shift_years
from ottla.pipelines.spec.model import Deduplicate, Join, PipelineSpec, Sink, State, TopicSink, Window
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.rng import Rng, SystemRng

OWNER: Final = "ottla-pipeline.json"
LOCK: Final = "ottla-pipeline.lock"
NAME: Final = "ottla-pipeline.id"


class CheckpointError(Exception):
    """A checkpoint cannot be used. The message is one line: which, why, what to do."""


class Owner(Struct, frozen=True):
    """The owner of a checkpoint: what must stay the same for a query to continue from it."""

    pipeline: str
    sink: str
    target: str
    sources: dict[str, str]
    """The topics of each source; Spark identifies sources by their order."""
    state: list[str]
    """The steps with state, and the columns or durations that define it."""


class Batch(Struct, frozen=True):
    """A micro-batch: its number, and the end offsets of each source."""

    number: int
    ends: tuple[dict[str, Any], ...]
    done: bool

    @property
    def places(self) -> dict[TopicPartition, int]:
        """The end offsets by partition."""
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for end in self.ends
            for topic, partitions in end.items()
            if not topic.startswith("#")
            for partition, offset in partitions.items()
        }


def directory_of(spec: PipelineSpec, sink: Sink) -> str:
    """The location of a sink's checkpoint: a path, or a URL that Spark supports."""
    return f"{spec.path(spec.checkpoints).rstrip('/')}/{spec.name}/{sink.name}"


def owner_of(spec: PipelineSpec, sink: Sink, through: frozenset[str]) -> Owner:
    """The owner of a checkpoint of this sink."""
    sources = {
        source.name: ",".join(source.topics) or f"pattern {source.pattern}"
        for source in spec.sources.values()
        if source.name in through and not source.table
    }
    state = [
        f"{step.name}: {_state_of(step.action)}{_times_of(spec, step.action)}"
        for step in spec.steps
        if step.name in through and _state_of(step.action) is not None
    ]
    target = f"topic {sink.topic}" if isinstance(sink, TopicSink) else f"{sink.format} {sink.path}"
    return Owner(spec.name, sink.name, target, sources, state)


def _times_of(spec: PipelineSpec, action: Any) -> str:
    """How the state holds event times: shifted ones are not those of a state that has them as they are."""
    years = 0 if isinstance(action, State) and action.time is None else shift_years(spec)
    if not years:
        return ""
    return ", times of any year" if years == ANY_YEAR else f", times {years} years later"


def _state_of(action: Any) -> str | None:
    match action:
        case Deduplicate():
            return f"deduplicate by {', '.join(action.by)}"
        case Window():
            return f"window of {action.every_ms} ms by {', '.join(action.by)}: {', '.join(action.aggregate)}"
        case Join() if action.within_ms is not None:
            return f"join on {action.on}"
        case State():
            return f"{action.python} by {', '.join(action.by)}"
    return None


def differences(kept: Owner, now: Owner) -> list[str]:
    """The differences between two owners, as text."""
    found = []
    if (kept.pipeline, kept.sink) != (now.pipeline, now.sink):
        found.append(f"it is of pipeline {kept.pipeline}, sink {kept.sink}")
    if kept.target != now.target:
        found.append(f"it wrote to {kept.target}, not to {now.target}")
    if [*kept.sources.items()] != [*now.sources.items()]:
        found.append(f"it read {_sources(kept)}, not {_sources(now)}")
    if kept.state != now.state:
        found.append(f"it keeps state for [{'; '.join(kept.state)}], not for [{'; '.join(now.state)}]")
    return found


def _sources(owner: Owner) -> str:
    return "; ".join(f"{name} ({topics})" for name, topics in owner.sources.items()) or "nothing"


class CheckpointLock:
    """The lock of the driver that uses a checkpoint, as a context manager.

    Raises CheckpointError when another one has it, or when it is the checkpoint of something else.
    """

    def __init__(self, directory: Path, owner: Owner) -> None:
        self._directory = directory
        self._owner = owner
        self._disk = OsDisk()
        self._fd: int | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        lock = self._directory / LOCK
        try:
            self._fd = self._disk.lock(lock)
        except BlockingIOError:
            raise in_use(str(self._directory), lock.read_text().strip()) from None
        self._check()
        lock.write_text(driver_text(socket.gethostname(), os.getpid(), SystemClock().now_ms()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _check(self) -> None:
        file = self._directory / OWNER
        if not file.exists():
            if (self._directory / "metadata").exists():
                self.__exit__(None, None, None)
                raise CheckpointError(
                    f"the checkpoint {self._directory} is of a query that no pipeline made: give this pipeline another"
                    " directory of checkpoints"
                )
            self._disk.write_atomic(file, json.dumps(_plain(self._owner), indent=1).encode())
            return
        found = differences(_owner(file), self._owner)
        if found:
            self.__exit__(None, None, None)
            raise CheckpointError(
                f"the checkpoint {self._directory} does not fit: {'; '.join(found)}. Put it back as it was, or give the"
                " sink another name to begin a new checkpoint"
            )


def driver_text(host: str, pid: int, since_ms: int) -> str:
    """The text that identifies a driver."""
    since = datetime.fromtimestamp(since_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"process {pid} on {host}, since {since}"


def in_use(directory: str, driver: str) -> CheckpointError:
    """The error for a checkpoint in use; `driver` identifies its driver, and is empty if it is not known yet."""
    return CheckpointError(
        f"the checkpoint {directory} is in use by another driver{f' ({driver})' if driver else ''}: stop that one, or"
        " give this pipeline another name or another directory of checkpoints"
    )


def name_of(directory: str, rng: Rng | None = None) -> str:
    """The name of a checkpoint in the brokers, the same on all machines, whatever its path there.

    Kept in the checkpoint; for a URL, into which nothing is written here, it is the URL.
    """
    if "://" in directory:
        return directory
    file = Path(directory) / NAME
    with suppress(FileNotFoundError):
        return file.read_text().strip()
    name = (rng or SystemRng()).token_bytes(16).hex()
    # A link is made by one of two drivers, with the whole name in it.
    own = file.with_name(f".{NAME}.{name}")
    OsDisk().write(own, name.encode())
    try:
        with suppress(FileExistsError):
            os.link(own, file)
    finally:
        own.unlink()
    return file.read_text().strip()


def is_in_use(directory: Path) -> bool:
    """Whether a driver of this machine runs on the checkpoint now."""
    if not (directory / LOCK).exists():
        return False
    disk = OsDisk()
    try:
        os.close(disk.lock(directory / LOCK))
    except BlockingIOError:
        return True
    return False


def batches(directory: Path) -> list[Batch]:
    """The last two micro-batches of the checkpoint, oldest first. Raises CheckpointError for a file that is none."""
    offsets = directory / "offsets"
    numbers = sorted(int(each.name) for each in offsets.iterdir() if each.name.isdecimal()) if offsets.is_dir() else []
    return [_batch(directory, number) for number in numbers[-2:]]


def query_id(directory: Path) -> str | None:
    """The id that Spark gave the query; None before its first micro-batch."""
    try:
        return str(json.loads((directory / "metadata").read_text())["id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{directory / 'metadata'} holds no id of a query") from None


def _batch(directory: Path, number: int) -> Batch:
    file = directory / "offsets" / str(number)
    lines = file.read_text().splitlines()
    try:
        if lines[0] != "v1":
            raise ValueError(lines[0])
        ends = tuple({} if line == "-" else _object(line) for line in lines[2:])
    except (ValueError, IndexError):
        raise CheckpointError(f"{file} is not written as this version of Spark writes it") from None
    return Batch(number, ends, (directory / "commits" / str(number)).exists())


def _object(line: str) -> dict[str, Any]:
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError(line)
    return found


def rewritten(text: str, ends: Mapping[int, Mapping[str, Any]]) -> str:
    """The text of an offsets file with other end offsets, by the number of the source."""
    lines = text.splitlines()
    for source, end in ends.items():
        lines[2 + source] = json.dumps(end, separators=(",", ":"))
    return "\n".join(lines)


def _plain(owner: Owner) -> dict[str, Any]:
    from msgspec import to_builtins

    made = to_builtins(owner)
    assert isinstance(made, dict)
    return made


def _owner(file: Path) -> Owner:
    from msgspec import MsgspecError, json

    try:
        return json.decode(file.read_bytes(), type=Owner)
    except MsgspecError as error:
        raise CheckpointError(f"{file} does not say whose checkpoint it is: {error}") from None
