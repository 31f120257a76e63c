"""Keeps the partitions of this broker in step with the metadata: what it is assigned exists, what it is not goes.

assigned here --> log made or found         --> Partition in the ReplicaManager --> leads or follows
leads no more --> who listens is told       --> Partition follows
leads         --> Partition leads           --> who listens is told
dropped       --> who listens is told       --> Partition stopped               --> log renamed, removed later

Dropped is what was deleted, and what was moved to other brokers.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from uuid import UUID

from msgspec.structs import replace

from ottla.broker.configs import ConfigService
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.replication.batch_decompressor import BatchDecompressor
from ottla.replication.leaderships import Leaderships
from ottla.replication.partition import Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.replication.roles import Roles
from ottla.runtime.environment import Environment
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.purgatory import Purgatory
from ottla.runtime.turns import in_turns
from ottla.server.log_configs import LogConfigs, TopicConfig
from ottla.server.replica_directory_assignments import ReplicaDirectoryAssignments
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.directory_logs import DirectoryLogs
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_manager import LogManager
from ottla.storage.partition_metadata import UNKNOWN_TOPIC_ID

logger = logging.getLogger(__name__)


class PartitionManager:
    """A subscriber of the metadata. Belongs to the event loop."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        configs: ConfigService,
        logs: LogManager,
        replicas: ReplicaManager,
        leaderships: Leaderships,
        fetch_purgatory: Purgatory,
        environment: Environment,
        opener: BatchDecompressor,
        places: ReplicaDirectoryAssignments,
        roles: Roles,
    ) -> None:
        """`leaderships` is told of every partition that is led here and that is given up."""
        self._node_id = settings.node_id
        self._flush_before_ack = settings.boolean("log.flush.before.ack")
        self._configs = configs
        self._log_configs = LogConfigs(configs, flush_before_ack=self._flush_before_ack)
        self._logs = logs
        self._replicas = replicas
        self._leaderships = leaderships
        self._fetch_purgatory = fetch_purgatory
        self._changed: dict[TopicPartition, None] = {}
        """The partitions of which readers are told in this turn of the loop."""
        self._environment = environment
        self._opener = opener
        self._places = places
        self._throttled = LogThrottle(logger, environment.clock)
        self._roles = roles
        self._image = MetadataImage("")
        self._strays: set[TopicPartition] = set()
        """What was left alone because the metadata may not be the one it belongs to."""
        self._lock = asyncio.Lock()
        """Whoever makes or drops partitions, or changes their roles, holds it: image after image."""
        self._is_trusted = False
        """Whether what no topic claims is nobody's."""
        self._is_closed = False
        logs.high_watermark_of = self._high_watermark_of
        logs.moves.hold_appends = self._hold_appends
        logs.moves.on_moved = self._has_moved

    async def load(self, image: MetadataImage, *, is_known: bool = True) -> None:
        """Serve everything the image assigns to this broker; for the start, when the logs have been loaded.

        Logs that no topic claims are strays: their topic was deleted while this broker was down, or is not in the
        metadata any more for a worse reason. They are set aside, and nobody removes them. Where the metadata knows no
        topic at all, or the data directory is new to it (not `is_known`), they may be all there is of the cluster: they
        stay as they are, and no retention goes over them.
        """
        self._image = image
        await self._settle_duplicates()
        is_trusted = self._is_trusted = is_known and bool(image.topics_by_id)
        if not is_trusted:
            self._strays = {log.topic_partition for log in self._logs.logs()}
        for topic in image.topics_by_id.values():
            await self._serve(topic, image)
        claimed = {partition.topic_partition for partition in self._replicas}
        self._strays -= claimed
        unclaimed = [log for log in self._logs.logs() if log.topic_partition not in claimed]
        if is_trusted:
            await self._set_aside(unclaimed)
        else:
            for log in unclaimed:
                log.config = replace(log.config, cleanup_policy=frozenset())
                logger.warning("%s belongs to no topic; it is not changed", log.directory)

    async def _settle_duplicates(self) -> None:
        """Have each log in one data directory."""

        def topic_id_of(name: TopicPartition) -> UUID | None:
            topic = self._image.topic(name.topic)
            return None if topic is None else topic.topic_id

        def is_used(log: Log) -> bool:
            partition = self._replicas.find(*log.topic_partition)
            return partition is not None and partition.log is log

        for path in await self._logs.settle_duplicates(topic_id_of, is_used):
            logger.warning(
                "%s is a second copy of a log in another data directory; delete it if you do not need it", path
            )

    async def _set_aside(self, logs: Sequence[Log]) -> None:
        sizes = {log.topic_partition: log.size for log in logs}
        for name, path in (await self._logs.set_aside(sizes)).items():
            logger.warning(
                "partition %s belongs to no topic: its %d bytes were moved to %s; delete them if you do not need them",
                name,
                sizes[name],
                path,
            )

    async def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Act on a change of the metadata; when this returns, the partitions are there.

        Each topic is acted on by itself: what fails for one is said in the log, and the others get what they need.
        """
        async with self._lock:
            if self._is_closed:
                return
            self._image = image
            await self._act_on(image, delta)

    async def _act_on(self, image: MetadataImage, delta: MetadataDelta) -> None:
        deleted = delta.deleted_topics
        for topic in deleted:
            try:
                await self._drop(topic, _partitions_of(topic))
            except Exception:
                logger.exception("could not delete all logs of the deleted topic %s", topic.name)
        for topic in (*delta.created_topics, *delta.changed_topics):
            before = delta.base.topic_by_id(topic.topic_id)
            await self._serve_or_say(topic, image, before, self._never_held(before))
        async for topics in in_turns(self._configs.topics_with_changed_settings(image, delta)):
            for topic in topics:
                try:
                    self._reconfigure(topic, image)
                except Exception:
                    logger.exception("could not apply the settings of %s", topic.name)

    def _never_held(self, before: TopicImage | None) -> Callable[[int], bool]:
        """Whether this broker had no replica of a partition `before`."""
        held = () if before is None else [self._node_id in partition.replicas for partition in before.partitions]
        return lambda index: index >= len(held) or not held[index]

    async def directory_is_back(self, directory: DirectoryLogs) -> None:
        """A data directory takes writes again, or was loaded: serve what lies in it, or could not be made.

        What lies in it and belongs to nobody any more is set aside, as at the start.
        """
        async with self._lock:
            if self._is_closed:
                return
            await self._settle_duplicates()
        await self.serve_missing()
        self.resume_moves()
        async with self._lock:
            if not self._is_closed and self._is_trusted and self._image.topics_by_id:
                claimed = {partition.topic_partition for partition in self._replicas}
                await self._set_aside([log for log in directory.logs() if not self._is_claimed(log, claimed)])

    def _is_claimed(self, log: Log, served: Collection[TopicPartition]) -> bool:
        """Whether a log is served, or may be: it was not made in time, say."""
        if log.topic_partition in served:
            return True
        partition = self._image.partition(*log.topic_partition)
        return partition is not None and self._node_id in partition.replicas

    def _hold_appends(self, log: Log) -> Callable[[], None]:
        """The files of a log are about to change places: what is appended meanwhile waits."""
        partition = self._replicas.find(*log.topic_partition)
        return partition.hold_appends() if partition is not None and partition.log is log else _nothing_waits

    def _has_moved(self, log: Log) -> None:
        self._places.tell(log.topic_id, [log.topic_partition])

    def resume_moves(self) -> None:
        """Go on with the moves to other data directories that the last broker did not finish."""
        self._logs.resume_moves(self._replicas.offline.__contains__)

    def stand_down(self) -> None:
        """Others have been elected, and the metadata that says so has not come: lead nothing that they may lead."""
        count = sum(map(self._roles.stand_down, self._replicas))
        if count:
            logger.warning(
                "this broker stops leading %d partitions: the controller has fenced it, and its metadata does not say "
                "so yet; is the metadata store within its reach?",
                count,
            )

    async def serve_missing(self) -> None:
        """Serve what could not be made when the image changed; what is being dropped meanwhile is not made again."""
        async with self._lock:
            if self._is_closed:
                return
            for topic in self._image.topics_by_id.values():
                await self._serve_or_say(topic, self._image)

    async def close(self) -> None:
        """Finish what was begun, and begin nothing any more: the logs are closed next.

        What is decided after this the next start finds in the metadata.
        """
        async with self._lock:
            self._is_closed = True

    def on_change(self, partition: Partition) -> None:
        """A reader may see something new of a partition: whoever waits for it gets it, once the producers have been
        answered that are answered now. To read it first would have them wait for that.
        """
        name = partition.topic_partition
        if self._fetch_purgatory.is_watched(name):
            if not self._changed:
                self._environment.defer(self._tell_readers)
            self._changed[name] = None

    def _tell_readers(self) -> None:
        changed, self._changed = self._changed, {}
        for name in changed:
            self._fetch_purgatory.check_and_complete(name)

    def fail_all(self, message: str, directory: DirectoryLogs) -> None:
        """A data directory is offline: answer everybody who waits for an acknowledgement of what lies in it."""
        for partition in self._replicas:
            if directory.holds(partition.log):
                partition.fail(message)

    def _reconfigure(self, topic: TopicImage, image: MetadataImage) -> None:
        config = self._log_configs.of(topic.name, image)
        for partition in topic.partitions:
            found = self._replicas.find(topic.name, partition.index)
            if found is not None:
                found.log.config = config.log
                self._configure(found, config)

    def _configure(self, partition: Partition, config: TopicConfig) -> None:
        partition.min_insync_replicas = config.min_insync_replicas
        leaders, followers = config.leader_throttled, config.follower_throttled
        partition.throttles_followers = leaders is not None and leaders.has(partition.index, self._node_id)
        partition.is_throttled = followers is not None and followers.has(partition.index, self._node_id)

    async def _serve_or_say(
        self,
        topic: TopicImage,
        image: MetadataImage,
        before: TopicImage | None = None,
        is_new: Callable[[int], bool] = lambda _index: False,
    ) -> None:
        """The topic is decided, whether or not this broker has room for it now."""
        try:
            await self._serve(topic, image, before, is_new)
        except ApiError as error:
            self._throttled.warning("topic %s is not served: %s", topic.name, error.message)
        except Exception:
            logger.exception("could not serve topic %s", topic.name)

    async def _serve(
        self,
        topic: TopicImage,
        image: MetadataImage,
        before: TopicImage | None = None,
        is_new: Callable[[int], bool] = lambda _index: False,
    ) -> None:
        """Have what is assigned to this broker here and in its role, and what was moved away no more.

        What is as it was `before` is left alone. `is_new`: whether this broker never had a replica of an index.
        """
        here: dict[TopicPartition, PartitionImage] = {}
        moved: list[TopicPartition] = []
        for partition in _changed_partitions(topic, before):
            name = TopicPartition(topic.name, partition.index)
            if self._node_id in partition.replicas:
                here[name] = partition
            elif self._replicas.find(*name) is not None and self._belongs_to(name, topic):
                moved.append(name)
        if moved:
            logger.info("deleting %s, which are now on other brokers", ", ".join(map(str, moved)))
            await self._drop(topic, moved)
        config = self._log_configs.of(topic.name, image)
        missing = [name for name in here if not self._replicas.find(*name)]
        for name in missing:
            await self._examine(topic, name, config.log)
        places = self._places.of(topic, missing, image, is_new)
        made = list(places)
        logs = await self._logs.create_logs(made, topic.topic_id, config.log, places)
        for name, log in zip(made, logs, strict=True):
            self._configure(self._add(topic, name, here[name], log), config)
        self._places.tell(topic.topic_id, made)
        for name, partition in here.items():
            if name in self._replicas.offline:
                continue
            try:
                await self._give_role(self._replicas.get(*name), partition)
            except Exception:
                logger.exception("%s could not become leader or follower as the metadata requires", name)

    async def _examine(self, topic: TopicImage, name: TopicPartition, config: LogConfig) -> None:
        """Say what is strange about a log that is there already, and remove one that is another topic's."""
        log = self._logs.log(name)
        if log is None or log.topic_id == topic.topic_id:
            return
        if log.topic_id == UNKNOWN_TOPIC_ID:
            logger.warning("%s has no topic id; it is used for topic %s", log.directory, topic.name)
            return
        if name in self._strays:
            self._strays.discard(name)
            await self._set_aside([log])
            return
        logger.warning("%s belongs to a deleted topic of the same name and is removed", log.directory)
        log.config = config  # it was loaded before anybody said what holds for it
        await self._logs.delete_log(name)

    def _add(self, topic: TopicImage, topic_partition: TopicPartition, image: PartitionImage, log: Log) -> Partition:
        is_alone = len(image.replicas) == 1
        known = self._roles.high_watermark_at_first(log) if is_alone else self._logs.high_watermark(topic_partition)
        partition = Partition(
            topic_partition,
            topic.topic_id,
            log,
            leader_epoch=image.leader_epoch,
            clock=self._environment.clock,
            tasks=self._environment.tasks,
            opener=self._opener,
            flush_before_ack=self._flush_before_ack,
            high_watermark=known,
        )
        partition.subscribe(self.on_change)
        self._replicas.add(partition)
        return partition

    async def _give_role(self, partition: Partition, image: PartitionImage) -> None:
        """Have a partition lead or follow as the image says, and tell who listens to its leadership."""
        leads = image.leader == self._node_id
        is_new = leads and self._leaderships.is_new(partition.topic_partition, image.leader_epoch)
        if is_new or not leads:
            self._leaderships.give_up(partition)
        await self._roles.apply(partition, image)
        if is_new:
            self._leaderships.take(partition, image.leader_epoch)

    def _high_watermark_of(self, log: Log) -> int:
        """What is committed: of a partition that is nowhere else what this replica counts as its own.

        Of a log that is not served, or not yet, no more than was known before: a start that fails commits nothing.
        """
        partition = self._replicas.find(*log.topic_partition)
        if partition is None:
            return self._logs.high_watermark(log.topic_partition)
        return self._roles.committed_end(partition)

    async def _drop(self, topic: TopicImage, names: Sequence[TopicPartition]) -> None:
        # Also a log that has no partition, because something failed when it was to get one.
        logs = [name for name in names if self._belongs_to(name, topic)]
        served = [partition for partition in (self._replicas.find(*name) for name in names) if partition is not None]
        for partition in served:
            self._leaderships.give_up(partition)
            await self._roles.leave(partition)
        self._replicas.remove(names)
        await self._logs.delete_logs(logs)

    def _belongs_to(self, name: TopicPartition, topic: TopicImage) -> bool:
        log = self._logs.log(name)
        return log is not None and log.topic_id == topic.topic_id


def _changed_partitions(topic: TopicImage, before: TopicImage | None) -> Iterable[PartitionImage]:
    """Those that are not the same objects as in an earlier image of the topic."""
    if before is None:
        return topic.partitions
    unchanged = set(map(id, before.partitions))
    return [partition for partition in topic.partitions if id(partition) not in unchanged]


def _nothing_waits() -> None:
    """Nobody appends to a log that is not served."""


def _partitions_of(topic: TopicImage) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition.index) for partition in topic.partitions]
