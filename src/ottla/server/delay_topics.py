"""The delay topics of which this broker leads partitions: each partition has somebody who moves what is due."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.configs import ConfigService
from ottla.broker.topics import TopicService
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import ConfigResourceType, MetadataImage, topic_resource
from ottla.model.topic_partition import TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.environment import Environment
from ottla.server.log_configs import LogConfigs
from ottla.settings.topic_settings import DELIVER_DELAY_MS, DELIVER_TO
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.client.consuming.group_offsets import CommittedOffset
    from ottla.server.delay_mover import DelayMover
    from ottla.server.delay_outbox import Target
    from ottla.server.own_client_io import OwnClientIo

logger = logging.getLogger(__name__)

LOOK_MS: Final = 100
"""How often it is looked whether this broker leads a partition that the metadata says it leads."""

Moved = tuple[int, str, int]
"""Leader epoch, target and default delay: what somebody who moves was begun for."""


class DelayTopics:
    """A subscriber of the metadata. Belongs to the event loop."""

    def __init__(
        self,
        node_id: int,
        environment: Environment,
        replicas: ReplicaManager,
        configs: ConfigService,
        topics: TopicService,
        logs: LogManager,
        *,
        own_client: Callable[[], "OwnClientIo"],
    ) -> None:
        """`own_client` makes what connects this broker to its own cluster."""
        self._node_id = node_id
        self._environment = environment
        self._replicas = replicas
        self._log_configs = LogConfigs(configs, flush_before_ack=False)
        self._configs = configs
        self._topics = topics
        self._logs = logs
        self._own_client = own_client
        self._image = MetadataImage("")
        self._names: tuple[str, ...] = ()
        self._moving: dict[TopicPartition, tuple[Moved, asyncio.Task[None]]] = {}
        self._movers: dict[TopicPartition, DelayMover] = {}
        self._ending: dict[TopicPartition, list[asyncio.Task[None]]] = {}
        """Who was told to move no more and has not ended: may be at work on the files of the partition."""
        self._found_first: dict[TopicPartition, tuple[int, CommittedOffset | None]] = {}

    def load(self, image: MetadataImage) -> None:
        """Begin with what the image has."""
        self._look(image)

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata has changed."""
        if delta.changed_configs or any(
            topic is None or topic.name in self._names for topic in delta.touched_topics.values()
        ):
            self._look(image)
        self._image = image
        if self._names and delta.touched_topics:
            self._settle()

    def waiting_count(self, place: TopicPartition) -> int:
        """How many records wait in a partition of a delay topic, about; 0 where this broker does not lead it."""
        mover = self._movers.get(place)
        return 0 if mover is None else mover.waiting_count

    async def close(self) -> None:
        """Move nothing more."""
        self._names = ()
        tasks = [task for _, task in self._moving.values()]
        tasks += [task for ending in self._ending.values() for task in ending]
        self._moving.clear()
        self._ending.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _look(self, image: MetadataImage) -> None:
        self._image = image
        self._names = tuple(
            resource.name
            for resource, own in image.configs.items()
            if resource.type == ConfigResourceType.TOPIC and own.get(DELIVER_TO)
        )
        if self._names or self._moving:
            self._settle()

    def _settle(self) -> None:
        wanted = {}
        for name in self._names:
            topic = self._image.topic(name)
            own = self._image.config(topic_resource(name))
            for partition in () if topic is None else topic.partitions:
                if partition.leader == self._node_id:
                    delay_ms = int(own.get(DELIVER_DELAY_MS, "0"))
                    moved = (partition.leader_epoch, own[DELIVER_TO], delay_ms)
                    wanted[TopicPartition(name, partition.index)] = moved
        for place, (moved, task) in tuple(self._moving.items()):
            if wanted.get(place) != moved:
                task.cancel()
                del self._moving[place]
                self._ending[place] = [*self._still_ending(place), task]
        for place, moved in wanted.items():
            if place not in self._moving:
                ending = self._ending[place] = self._still_ending(place)
                task = self._environment.tasks.spawn(self._move(place, moved, ending), f"deliver {place}")
                self._moving[place] = (moved, task)

    async def _move(self, place: TopicPartition, moved: Moved, ending: list[asyncio.Task[None]]) -> None:
        if ending:
            await asyncio.wait(ending)
        from ottla.server.delay_mover import DelayMover  # the client, which most brokers never need
        from ottla.server.delay_producer import become_producer

        leader_epoch, target, delay_ms = moved
        while True:
            partition = self._replicas.find(*place)
            if partition is not None and partition.is_leader and partition.leader_epoch == leader_epoch:
                break
            await self._environment.timer.sleep(LOOK_MS)
        mover = DelayMover(
            partition,
            target,
            delay_ms,
            partial(become_producer, io=self._own_client()),
            self._environment,
            self._logs.disk,
            look_up=self._look_up,
            partition_count=lambda: self._partition_count(place.topic),
            ensure_topic=self._ensure,
            keep_log_start=self._keep_log_start,
            found_first=self._found_first,
        )
        self._movers[place] = mover
        try:
            await mover.run()
        finally:
            if self._movers.get(place) is mover:
                del self._movers[place]

    def _still_ending(self, place: TopicPartition) -> list[asyncio.Task[None]]:
        return [task for task in self._ending.pop(place, ()) if not task.done()]

    def _partition_count(self, name: str) -> int:
        topic = self._image.topic(name)
        return 0 if topic is None else len(topic.partitions)

    def _look_up(self, name: str) -> "Target | None":
        from ottla.server.delay_outbox import Target

        topic = self._image.topic(name)
        if topic is None:
            return None
        config = self._log_configs.of(name, self._image).log
        return Target(name, len(topic.partitions), config.topic_rules, config.retention_ms)

    async def _ensure(self, name: str, partition_count: int) -> None:
        await self._topics.ensure(NewTopic(name, partition_count))

    async def _keep_log_start(self, partition: Partition) -> None:
        await self._logs.checkpoint_log_starts([partition.topic_partition])
