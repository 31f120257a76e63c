"""Restores an archive as the data directory of a new broker: the same records at the same offsets.

Nothing in the protocol lets a client choose offsets. So a broker is started once on a directory that is not there yet,
to create the topics with their settings; it is stopped, the topics get the ids that they had, the segment files are
written, and it is started again, which checks them and makes their indexes. Then the positions of the groups are
committed, every record is read back from the broker and compared with the archive, and the directory gets its name:
before that nobody takes it for a restored one.

With equal ids and offsets, checkpoints of streams and pipelines fit, and their queries go on. A checkpoint may have
read records that came after the last run. Then the log ends where the checkpoint is: new records would otherwise get
offsets that the checkpoint has behind it, and would never be read.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Final, Protocol
from uuid import UUID

from msgspec import Struct

from ottla.client.admin.admin import CreatedTopic, NewTopic
from ottla.client.blocking import BlockingClient
from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.consuming.offsets import IsolationLevel, ListedOffset, OffsetAt
from ottla.metadata.store.interface import StoreError
from ottla.metadata.topic_ids import replace_topic_ids
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.archive.archive import Archive
from ottla.pipelines.archive.comparison import ComparedPartition, archived_records, compare
from ottla.pipelines.archive.log_reader import LogSource
from ottla.pipelines.archive.manifest import ArchivedPartition, ArchivedRange, ArchivedTopic, ArchiveError
from ottla.pipelines.archive.segments import SegmentWriter
from ottla.pipelines.archive.verification import verify

_READY: Final = re.compile(r"is ready: kafka (\S+:\d+)")
_SETTINGS: Final = {
    # Old records must not expire, nor be compacted, while they are restored and read back.
    "log.retention.check.interval.ms": "86400000000",
    "log.cleaner.threads": "0",
    "auto.create.topics.enable": "false",
}
_STOP_SECONDS: Final = 600
_OTTLA: Final = (
    "import ctypes, os, runpy, signal, sys\n"
    "if sys.platform == 'linux':\n"
    "    ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))\n"
    "if os.getppid() == int(sys.argv.pop(1)):\n"
    "    runpy.run_module('ottla.cli', run_name='__main__', alter_sys=True)\n"
)
"""`python -m ottla.cli` in a process that gets SIGTERM when its parent is gone (PR_SET_PDEATHSIG of prctl(2)), and does
nothing when that is gone already: the first argument is its number."""
_CHECKPOINTS: Final = (
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
)


class RestoredCluster(LogSource, Protocol):
    """The requests of a restore to its broker, such as `ottla.client.blocking.BlockingClient`."""

    def create_topic(self, topic: NewTopic) -> CreatedTopic:
        """Create a topic."""
        ...

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: IsolationLevel
    ) -> dict[TopicPartition, ListedOffset]:
        """The first and the end offsets of partitions."""
        ...

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> None:
        """Commit for a group."""
        ...


Run = Callable[[Path], AbstractContextManager[RestoredCluster]]
"""Starts a broker on a data directory, as a context manager that stops it cleanly."""


class Restored(Struct, frozen=True):
    """The result of a restore."""

    topic: str
    partitions: int
    rows: int
    beyond: int = 0
    """The number of offsets that checkpoints had read after the end of the archive; their records are lost."""

    compared: tuple[ComparedPartition, ...] | None = None
    """The comparison of each partition with the archive; None with `read_back=False`."""


class RestoreDiffersError(ArchiveError):
    """Restored records differ from the archive. `restored` names them."""

    def __init__(self, message: str, restored: list[Restored]) -> None:
        super().__init__(message)
        self.restored = restored


def restore(
    archive: Archive,
    topics: Sequence[ArchivedTopic],
    target: Path,
    run: Run,
    *,
    keep: bool = False,
    read_back: bool = True,
    read: Mapping[TopicPartition, int] | None = None,
) -> list[Restored]:
    """Make `target`, a new or empty directory, the data directory of a broker with these topics.

    With `keep`, they get settings by which nothing expires. `read` says up to where checkpoints have read: no log ends
    before that. With `read_back`, every record is read from the restored log and compared with the archive.

    Raises ArchiveError for an archive that is damaged, before anything is written; RestoreDiffersError, and `target` is
    not made; ClientError; OSError.
    """
    disk = archive.disk
    target = target.absolute()
    if disk.exists(target) and (not disk.is_dir(target) or disk.list_dir(target)):
        raise ArchiveError(f"{target}: restoring needs a directory that is empty or not there yet")
    making = target.with_name(target.name + ".restoring")
    if disk.exists(making):
        raise ArchiveError(f"{making}: left by a restore that did not come to its end; remove it, and restore again")
    damage = [line for each in verify(archive, list(topics)) for line in each.damage]
    if damage:
        raise ArchiveError(f"{archive.path}: damaged, nothing was restored: {damage[0]}")
    archived, topics = topics, [_reaching(topic, read or {}) for topic in topics]
    known = {topic.name: _id_of(archive, topic) for topic in topics}
    disk.make_dir(making)
    ids: dict[UUID, UUID] = {}
    with run(making) as cluster:
        for topic in topics:
            settings = topic.settings | ({"retention.ms": "-1", "retention.bytes": "-1"} if keep else {})
            created = cluster.create_topic(NewTopic(topic.name, _count(topic), 1, settings)).topic_id
            ids[created] = known[topic.name] or created
    try:
        replace_topic_ids(making, ids, disk)
    except StoreError as error:
        raise ArchiveError(str(error)) from error
    for name in _CHECKPOINTS:
        disk.remove(making / name)
    for topic in topics:
        for number in range(_count(topic)):
            _write_log(archive, topic, number, making / f"{topic.name}-{number}")
    with run(making) as cluster:
        _check(cluster, topics)
        _commit_groups(archive, cluster, topics)
        restored = [
            Restored(
                each.name,
                _count(each),
                sum(part.rows for part in each.partitions),
                _ends(each) - _ends(before),
                _compared(archive, cluster, each) if read_back else None,
            )
            for before, each in zip(archived, topics, strict=True)
        ]
    _refuse_differences(restored, making)
    if disk.exists(target):
        target.rmdir()
    disk.rename(making, target)
    return restored


def _reaching(topic: ArchivedTopic, read: Mapping[TopicPartition, int]) -> ArchivedTopic:
    """The topic with no partition that ends before it was read to, nor fewer partitions than were read."""
    for place, position in read.items():
        if place.topic == topic.name:
            partition = _partition(topic, place.partition)
            if position > partition.end:
                partition = partition.extended([ArchivedRange(partition.end, position, is_lost=True)])
            topic = topic.with_partition(partition)
    return topic


def _ends(topic: ArchivedTopic) -> int:
    return sum(each.end for each in topic.partitions)


def _id_of(archive: Archive, topic: ArchivedTopic) -> UUID | None:
    """The id that the topic had; None where its brokers knew none."""
    try:
        topic_id = UUID(topic.topic_id)
    except ValueError:
        raise ArchiveError(
            f"{archive.path}: topic {topic.name!r} has the id {topic.topic_id!r}, which is none"
        ) from None
    return topic_id if topic_id.int else None


@contextmanager
def broker_on(directory: Path) -> Iterator[RestoredCluster]:
    """`ottla serve` in a process of its own, and a client of it. Raises ArchiveError when it does not start or stop.

    It ends with this process, also when that is killed: nobody would know of it, and it writes below `directory`.
    """
    command = [sys.executable, "-c", _OTTLA, str(os.getpid())]
    command += ["serve", "--data", str(directory), "--kafka", "127.0.0.1:0"]
    for key, value in _SETTINGS.items():
        command += ["--set", f"{key}={value}"]
    with (
        # No pipe, which a broker of many partitions would fill and wait at.
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as process,  # noqa: S603
    ):
        assert process.stdout is not None
        try:
            ready = _READY.search(process.stdout.readline())
            if ready is None:
                process.wait(_STOP_SECONDS)
                raise ArchiveError(f"{directory}: a broker does not start on it: {_last_line(said)}")
            with BlockingClient(ready[1], client_id="ottla-restore") as client:
                yield client
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=_STOP_SECONDS)
            if process.returncode not in {0, 143, -signal.SIGTERM}:
                raise ArchiveError(f"{directory}: the broker on it did not end well: {_last_line(said)}")
        except BaseException:
            process.kill()
            raise


def _last_line(said: IO[str]) -> str:
    said.seek(0)
    lines = said.read().strip().splitlines()
    return lines[-1] if lines else "no reason given"


def _count(topic: ArchivedTopic) -> int:
    return max((each.partition for each in topic.partitions), default=0) + 1


def _partition(topic: ArchivedTopic, number: int) -> ArchivedPartition:
    return next((each for each in topic.partitions if each.partition == number), ArchivedPartition(number, 0))


def _write_log(archive: Archive, topic: ArchivedTopic, number: int, directory: Path) -> None:
    disk = archive.disk
    for name in disk.list_dir(directory):
        if name[:20].isdecimal():
            disk.remove(directory / name)
    partition = _partition(topic, number)
    writer = SegmentWriter(directory, partition.start, disk)
    for batch in archived_records(archive, topic.name, partition):
        writer.append(batch)
    writer.finish(partition.end)


def _check(cluster: RestoredCluster, topics: Sequence[ArchivedTopic]) -> None:
    for topic in topics:
        places = {TopicPartition(topic.name, number): _partition(topic, number) for number in range(_count(topic))}
        for what, at, wanted in (
            ("begin", OffsetAt.EARLIEST, {place: each.start for place, each in places.items()}),
            ("end", OffsetAt.LATEST, {place: each.end for place, each in places.items()}),
        ):
            found = cluster.list_offsets(dict.fromkeys(places, int(at)), isolation=IsolationLevel.READ_COMMITTED)
            for place, offset in wanted.items():
                if found[place].offset != offset:
                    raise ArchiveError(
                        f"{place} should {what} at offset {offset}, restored it is {found[place].offset}"
                    )


def _compared(archive: Archive, cluster: RestoredCluster, topic: ArchivedTopic) -> tuple[ComparedPartition, ...]:
    places = [TopicPartition(topic.name, number) for number in range(_count(topic))]
    starts, ends = (
        cluster.list_offsets(dict.fromkeys(places, int(at)), isolation=IsolationLevel.READ_UNCOMMITTED)
        for at in (OffsetAt.EARLIEST, OffsetAt.LATEST)
    )
    return tuple(
        compare(
            archive,
            topic.name,
            _partition(topic, place.partition),
            cluster,
            starts[place].offset,
            ends[place].offset,
        )
        for place in places
    )


def _refuse_differences(restored: list[Restored], making: Path) -> None:
    compared = [partition for topic in restored for partition in topic.compared or ()]
    differing = [each for each in compared if each.difference is not None]
    if differing:
        first = differing[0]
        raise RestoreDiffersError(
            f"{first.topic}-{first.partition}: {first.difference}; {len(differing)} of {len(compared)} partitions are "
            f"not restored as archived; remove {making}, and restore again",
            restored,
        )


def _commit_groups(archive: Archive, cluster: RestoredCluster, topics: Sequence[ArchivedTopic]) -> None:
    ends = {TopicPartition(topic.name, each.partition): each.end for topic in topics for each in topic.partitions}
    groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for position in archive.groups().positions:
        place = TopicPartition(position.topic, position.partition)
        if place in ends:
            # Without the leader epoch: the restored log begins with a new one.
            offset = min(position.offset, ends[place])
            groups.setdefault(position.group, {})[place] = CommittedOffset(offset, -1, position.metadata)
    for group, offsets in groups.items():
        cluster.commit_offsets(group, offsets)
