"""The share coordinator: the delivery states of share partitions, for the brokers that lead these (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from ottla.coordination.key_partition import partition_of_key
from ottla.coordination.limits import CoordinatorLimits
from ottla.coordination.outcome import Outcome, Waiter
from ottla.coordination.runtime import CoordinatorRuntime
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.topic_name import SHARE_GROUP_STATE_TOPIC
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import ShareStateShard, StateAnswer, WriteState
from ottla.queues.state_pruner import StatePruner
from ottla.replication.partition import Partition
from ottla.runtime.environment import Environment

if TYPE_CHECKING:
    from ottla.settings.broker_settings import BrokerSettings

R = TypeVar("R")


class ShareCoordinator:
    """All states that this broker coordinates.

    Every operation takes a `waiter`, which is called exactly once with a StateAnswer: at once when it is refused, else
    when everything the answer rests on is committed. NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS as elsewhere.
    Belongs to the event loop; nothing here blocks.
    """

    __slots__ = ("_image", "_pruner", "_runtime", "_topic_id", "partition_count")

    def __init__(self, settings: BrokerSettings, environment: Environment) -> None:
        self.partition_count = settings.integer("share.coordinator.state.topic.num.partitions")
        self._topic_id: UUID | None = None
        self._image = MetadataImage("")
        limits = CoordinatorLimits(load_chunk_bytes=settings.integer("share.coordinator.load.buffer.size"))
        self._runtime: CoordinatorRuntime[ShareStateShard] = CoordinatorRuntime(
            lambda index: ShareStateShard(), environment, limits, every_record=True
        )
        self._pruner = StatePruner(self._runtime, environment.timer)

    # What the server says

    def elected(self, partition: Partition) -> None:
        """This broker leads a partition of the state topic from now on: load its states in the background."""
        self._runtime.elected(partition)
        self._pruner.elected(partition)

    def resigned(self, partition: Partition) -> None:
        """This broker leads a partition of the state topic no longer."""
        self._pruner.resigned(partition.index)
        self._runtime.resigned(partition.index)

    def metadata_changed(self, image: MetadataImage, deleted_topics: Collection[str] = ()) -> None:
        """The topics there are now; states of deleted ones are deleted. To be told before `elected` for the partitions
        of the same image.
        """
        before, self._image = self._image, image
        topic = image.topic(SHARE_GROUP_STATE_TOPIC)
        if topic is not None and topic.topic_id != self._topic_id:
            self._topic_id = topic.topic_id
            self.partition_count = len(topic.partitions)
        known = (before.topic(name) for name in deleted_topics)
        gone = frozenset(topic.topic_id for topic in known if topic is not None)
        if gone:
            self._runtime.step_all(lambda shard, now_ms: shard.handle_topics_deleted(now_ms, gone))

    def close(self) -> None:
        """The broker stops: everybody who waits is sent to look for another coordinator."""
        self._pruner.close()
        self._runtime.close()

    def partition_of(self, key: str) -> int:
        """The partition of the state topic whose leader coordinates a share partition (`ShareKey.text`)."""
        return partition_of_key(key, self.partition_count)

    # Requests

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, waiter: Waiter) -> None:
        """Make a state, or begin it anew. UNKNOWN_TOPIC_OR_PARTITION where there is no such partition (any more):
        nobody would delete its state.
        """
        topic = self._image.topic_by_id(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            message = "This server does not host this topic-partition."
            waiter(StateAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=message))
            return
        request = (key, state_epoch, start_offset)
        self._submit(lambda shard, *asked: shard.handle_initialize(*asked), key, request, waiter)

    def read(self, key: ShareKey, leader_epoch: int, waiter: Waiter) -> None:
        """Read a state for the leader of an epoch, -1 for nobody's."""
        self._submit(lambda shard, *asked: shard.handle_read(*asked), key, (key, leader_epoch), waiter)

    def summary(self, key: ShareKey, waiter: Waiter) -> None:
        """Read a state for whoever describes it."""
        self._submit(lambda shard, *asked: shard.handle_summary(*asked), key, key, waiter)

    def write(self, request: WriteState, waiter: Waiter) -> None:
        """Write what changed."""
        self._submit(lambda shard, *asked: shard.handle_write(*asked), request.key, request, waiter)

    def delete(self, key: ShareKey, waiter: Waiter) -> None:
        """Delete a state."""
        self._submit(lambda shard, *asked: shard.handle_delete(*asked), key, key, waiter)

    def _submit(
        self,
        handle: Callable[[ShareStateShard, int, R, Waiter], Outcome],
        key: ShareKey,
        request: R,
        waiter: Waiter,
    ) -> None:
        self._runtime.submit(
            self.partition_of(key.text),
            lambda shard, now_ms, once: handle(shard, now_ms, request, once),
            waiter,
            StateAnswer,
        )
