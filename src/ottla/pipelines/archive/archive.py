"""An archive's directory: opened, locked, and its manifest replaced in one step."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from ottla.pipelines.archive.manifest import (
    FORMAT,
    ArchivedTopic,
    ArchiveError,
    ArchiveHeader,
    GroupPositions,
)
from ottla.pipelines.sealed import NotWholeError, seal, unseal
from ottla.runtime.disk import Disk, OsDisk

HEADER: Final = "archive.json"
GROUPS: Final = "groups.json"
TOPICS: Final = "topics"
TOPIC: Final = "topic.json"
LOCK: Final = "lock"

T = TypeVar("T", bound=Struct)


class Archive:
    """The directory of an archive. One process may write (`locked`) while others read.

    A manifest is replaced as a whole, and files that it no longer names stay for an hour.
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self.disk = disk

    @classmethod
    def open(cls, path: str, disk: Disk | None = None) -> "Archive":
        """Opens an existing archive. Raises ArchiveError."""
        archive = cls(Path(path).absolute(), disk or OsDisk())
        if not archive.disk.exists(archive.path / HEADER):
            reason = "there is no archive in it" if archive.disk.is_dir(archive.path) else "no such directory"
            raise ArchiveError(f"{path}: {reason}; `ottla archive run {path}` makes one")
        archive.header()
        return archive

    @classmethod
    def open_or_create(cls, path: str, cluster_id: str | None, disk: Disk | None = None) -> "Archive":
        """Opens or creates the archive of a cluster. Raises ArchiveError if the directory belongs to something else."""
        archive = cls(Path(path).absolute(), disk or OsDisk())
        if archive.disk.exists(archive.path / HEADER):
            found = archive.header().cluster_id
            if found != cluster_id:
                raise ArchiveError(
                    f"{path}: the archive of another cluster ({found}, this one is {cluster_id}); "
                    "choose another directory"
                )
            return archive
        if archive.disk.exists(archive.path):
            if not archive.disk.is_dir(archive.path):
                raise ArchiveError(f"{path}: a file; an archive needs a directory")
            names = archive.disk.list_dir(archive.path)
            if set(names) - {f"{HEADER}.tmp"}:
                raise ArchiveError(
                    f"{path}: holds other files ({names[0]}) and no archive; choose one that is empty or not there yet"
                )
        archive.disk.make_dir(archive.path)
        archive.disk.write_atomic(archive.path / HEADER, seal(ArchiveHeader(cluster_id)))
        return archive

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the write lock of the archive. Raises ArchiveError if another process holds it."""
        try:
            fd = self.disk.lock(self.path / LOCK)
        except BlockingIOError:
            raise ArchiveError(f"{self.path}: another `ottla archive` is changing it; wait until it is done") from None
        try:
            yield
        finally:
            self.disk.close(fd)

    def header(self) -> ArchiveHeader:
        """The cluster that the archive belongs to. Raises ArchiveError if it is damaged or newer."""
        path = self.path / HEADER
        try:
            return unseal(self.disk.read_bytes(path), ArchiveHeader, newest_format=FORMAT)
        except NotWholeError as error:
            raise ArchiveError(f"{path}: {error}") from None

    def topics(self) -> list[ArchivedTopic]:
        """All topics, by name. Raises ArchiveError for a manifest that is damaged."""
        directory = self.path / TOPICS
        names = self.disk.list_dir(directory) if self.disk.exists(directory) else []
        return [topic for name in names if (topic := self.topic(name)) is not None]

    def selected(self, names: tuple[str, ...]) -> list[ArchivedTopic]:
        """The topics with these names, or all if `names` is empty. Raises ArchiveError for one that is not archived."""
        found = {topic.name: topic for topic in self.topics()}
        missing = [name for name in names if name not in found]
        if missing:
            raise ArchiveError(
                f"{self.path}: topic {missing[0]!r} is not in the archive; `ottla archive list` shows all"
            )
        return [found[name] for name in dict.fromkeys(names)] if names else list(found.values())

    def topic(self, name: str) -> ArchivedTopic | None:
        """The topic, or None if it was never archived. Raises ArchiveError if its manifest is damaged or missing."""
        path = self.path / TOPICS / name / TOPIC
        found = self._read(path, ArchivedTopic)
        if found is None and self._has_files(path.parent):
            raise ArchiveError(f"{path}: it is missing, and only it says what the files beside it hold: put it back")
        return found

    def _has_files(self, directory: Path) -> bool:
        """Whether a partition of a topic has any: the manifest is there before the first of them."""
        partitions = self.disk.list_dir(directory) if self.disk.is_dir(directory) else []
        return any(self.disk.is_dir(directory / each) and self.disk.list_dir(directory / each) for each in partitions)

    def save(self, topic: ArchivedTopic) -> None:
        """Replaces the manifest of a topic. The files that it names must be durable."""
        directory = self.topic_directory(topic.name)
        self.disk.make_dir(directory)
        self.disk.write_atomic(directory / TOPIC, seal(topic))

    def groups(self) -> GroupPositions:
        """The committed offsets of consumer groups."""
        return self._read(self.path / GROUPS, GroupPositions) or GroupPositions()

    def save_groups(self, groups: GroupPositions) -> None:
        """Replaces the committed offsets of groups."""
        self.disk.write_atomic(self.path / GROUPS, seal(groups))

    def topic_directory(self, name: str) -> Path:
        """The directory of a topic's manifest and files. Topic names are valid directory names."""
        return self.path / TOPICS / name

    def _read(self, path: Path, kind: type[T]) -> T | None:
        try:
            return unseal(self.disk.read_bytes(path), kind)
        except FileNotFoundError:
            return None
        except NotWholeError as error:
            raise ArchiveError(f"{path}: {error}") from None
