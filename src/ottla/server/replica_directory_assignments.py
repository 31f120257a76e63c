"""Where the replicas of this broker lie and where they belong, for one that has or had several data directories.

The metadata says which directory holds a replica (KIP-858). While that directory is not there the replica is offline:
made anew elsewhere it would be empty, and nobody would miss the records it holds until it is too late.

log is here                                       --> told to the controller, if it does not know
log is nowhere, its directory is there            --> made in it
log is nowhere, its directory is not              --> offline
log is nowhere, nobody knows its directory, and
    it is new, or all directories are there       --> made where the fewest are
    it may lie in one that is not there           --> offline
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.replica_directories import ReplicaPlace
from ottla.metadata.image.image import MetadataImage, TopicImage
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

RETRY_MS: Final = 1_000
"""How long after the controller could not be told it is told again."""

TOLD_AT_ONCE_MAX: Final = 1_000
"""How many places one record may have, so that no decision holds the controller up."""

Tell = Callable[[Sequence[ReplicaPlace]], Awaitable[list[Outcome[None]]]]


class ReplicaDirectoryAssignments:
    """Belongs to the event loop."""

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        replicas: ReplicaManager,
        current_image: Callable[[], MetadataImage],
        tell: Tell,
        timer: Timer,
        tasks: Tasks,
    ) -> None:
        """`tell` asks the controller to note where replicas lie; it raises ApiError while that cannot be."""
        self._node_id = node_id
        self._logs = logs
        self._replicas = replicas
        self._current_image = current_image
        self._tell = tell
        self._timer = timer
        self._tasks = tasks
        self._untold: dict[tuple[UUID, int], TopicPartition] = {}
        self._is_telling = False
        self._said: set[str] = set()

    def of(
        self, topic: TopicImage, names: Sequence[TopicPartition], image: MetadataImage, is_new: Callable[[int], bool]
    ) -> dict[TopicPartition, UUID | None]:
        """Which of `names`, partitions to be served, can be: each with the directory it belongs to, None for any.

        The others are offline from here on; the log says why, once for each reason. `is_new`: whether this broker never
        had a replica of an index.
        """
        found: dict[TopicPartition, UUID | None] = {}
        if not self._replicas.offline:
            self._said.clear()
        for name in names:
            place = image.replica_directory(topic.topic_id, name.partition, self._node_id)
            reason = self._why_offline(name, place, is_new(name.partition))
            if reason is None:
                found[name] = place
            elif name not in self._replicas.offline:
                self._replicas.offline[name] = reason
                if reason not in self._said:
                    self._said.add(reason)
                    logger.warning(
                        "%s, and every other replica in the same case, is offline: %s; `ottla log dirs` counts them",
                        name,
                        reason,
                    )
        return found

    def _why_offline(self, name: TopicPartition, place: UUID | None, is_new: bool) -> str | None:
        if self._logs.log(name) is not None:
            return None
        if place is not None:
            is_here = place in self._logs.directory_ids
            return (
                None
                if is_here
                else f"the data directory with the id {place} holds it, and no directory of log.dirs has that id"
            )
        missing = [directory.path for directory in self._logs.directories if not directory.is_loaded]
        return f"it may lie in {', '.join(missing)}, which cannot be read" if missing and not is_new else None

    def missing(self) -> frozenset[UUID]:
        """The directories that hold replicas of this broker and are not here."""
        if not self._replicas.offline:
            return frozenset()
        here, image = self._logs.directory_ids, self._current_image()
        return frozenset(
            directory_id
            for places in image.replica_directories.values()
            for (_, broker_id), directory_id in places.items()
            if broker_id == self._node_id and directory_id not in here
        )

    def tell(self, topic_id: UUID, names: Iterable[TopicPartition]) -> None:
        """Have the metadata say, soon, where these logs are; of a broker's only directory nothing is said."""
        if len(self._logs.directories) > 1:
            self._untold.update(((topic_id, name.partition), name) for name in names)
            if self._untold and not self._is_telling:
                self._is_telling = True
                self._tasks.spawn(self._tell_all(), "tell the controller where replicas lie")

    async def _tell_all(self) -> None:
        try:
            while self._untold:
                keys = list(self._untold)[:TOLD_AT_ONCE_MAX]
                places = self._unknown(keys)
                if places:
                    for outcome in await self._tell(places):
                        if isinstance(outcome, ApiError):
                            logger.debug("the controller does not note where a replica lies: %s", outcome.message)
                for key in keys:
                    self._untold.pop(key, None)
        except ApiError as error:
            logger.debug("the controller could not be told where replicas lie: %s", error.message)
            self._timer.schedule(RETRY_MS, self._try_again)
        else:
            self._is_telling = False

    def _try_again(self) -> None:
        self._tasks.spawn(self._tell_all(), "tell the controller where replicas lie")

    def _unknown(self, keys: Iterable[tuple[UUID, int]]) -> list[ReplicaPlace]:
        """What the metadata does not say, or says otherwise."""
        image = self._current_image()
        places = []
        for topic_id, index in keys:
            directory = self._logs.directory_of(self._untold[topic_id, index])
            directory_id = None if directory is None else directory.directory_id
            if directory_id is not None and directory_id != image.replica_directory(topic_id, index, self._node_id):
                places.append(ReplicaPlace(topic_id, index, directory_id))
        return places
