"""The group coordinator: consumer groups and committed offsets, for whichever gateway asks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from ottla.coordination.key_partition import partition_of_key
from ottla.coordination.limits import CoordinatorLimits
from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.coordination.runtime import CoordinatorRuntime
from ottla.coordination.shard_state import ShardState
from ottla.groups.answers import (
    CommitAnswer,
    ConsumerDescribeAnswer,
    ConsumerHeartbeatAnswer,
    DeleteGroupAnswer,
    DeleteOffsetsAnswer,
    DescribeAnswer,
    FetchAnswer,
    GroupListing,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    SyncAnswer,
)
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group import GroupType
from ottla.groups.group_config import (
    GROUP_ID_BYTES_MAX,
    INSTANCE_ID_BYTES_MAX,
    MEMBER_METADATA_BYTES_MAX,
    PROTOCOL_NAME_BYTES_MAX,
    PROTOCOLS_PER_MEMBER_MAX,
    GroupConfig,
)
from ottla.groups.requests import (
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteOffsets,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    Sync,
)
from ottla.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.model.transaction_marker import TransactionMarker
from ottla.replication.partition import Partition
from ottla.runtime.environment import Environment
from ottla.runtime.turns import in_turns

if TYPE_CHECKING:
    from ottla.groups.group_shard import GroupShard
    from ottla.groups.share.exchange import (
        PartitionsInitialized,
        ShareDescribeAnswer,
        ShareHeartbeat,
        ShareHeartbeatAnswer,
        ShareOffsets,
        ShareOffsetsAnswer,
    )
    from ottla.groups.streams.exchange import StreamsDescribeAnswer, StreamsHeartbeat, StreamsHeartbeatAnswer

R = TypeVar("R")

_FEATURES: Final[Mapping[GroupType, str]] = {
    GroupType.CONSUMER: GROUP_VERSION,
    GroupType.STREAMS: STREAMS_VERSION,
    GroupType.SHARE: SHARE_VERSION,
}
"""The features that turn a kind of group on for the whole cluster."""

_AS_LEADER: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""What a transaction coordinator is told: that the marker is to be written again."""


class GroupCoordinator:
    """All groups this broker coordinates.

    Every operation takes a `waiter`, which is called exactly once with the answer named in its docstring: at once when
    the request is refused, else when everything the answer rests on is committed, and for `join` and `sync` not before
    the rebalance has come that far. An answer's `error` is NOT_COORDINATOR when another broker coordinates the group,
    COORDINATOR_LOAD_IN_PROGRESS while this one is still reading it, and COORDINATOR_NOT_AVAILABLE when there is
    something to write and the partition of the offsets topic has not enough in-sync replicas. Members of classic groups
    cannot join, sync or leave then; nobody is put out for not being heard of.

    Belongs to the event loop; nothing here blocks.
    """

    __slots__ = (
        "_deleted_topics",
        "_ended_now",
        "_environment",
        "_image",
        "_offsets_topic_id",
        "_partitions",
        "_runtime",
        "config",
        "partition_count",
    )

    def __init__(self, config: GroupConfig, environment: Environment) -> None:
        self.config = config
        self.partition_count = config.offsets_topic_partitions
        """Over how many partitions groups are spread: as many as the offsets topic had when this broker first saw it. A
        topic that grows moves no group before the next start, as in Apache Kafka: its state would stay behind.
        """
        self._offsets_topic_id: UUID | None = None
        limits = CoordinatorLimits(load_chunk_bytes=config.load_buffer_bytes)
        self._image = MetadataImage("")
        self._deleted_topics: dict[int, DeletedTopics] = {}
        self._partitions: dict[int, Partition] = {}
        self._environment = environment
        self._ended_now: set[tuple[int, int]] = set()
        """The partitions and producers of the markers of this turn: they are not in the log yet."""
        self._runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(self._new_shard, environment, limits)

    # What the server says

    def elected(self, partition: Partition) -> None:
        """This broker leads a partition of the offsets topic from now on: load its groups in the background."""
        self._deleted_topics[partition.index] = DeletedTopics(self._topic_id)
        self._partitions[partition.index] = partition
        self._runtime.elected(partition)

    def resigned(self, partition: Partition) -> None:
        """This broker leads a partition of the offsets topic no longer."""
        self._deleted_topics.pop(partition.index, None)
        self._partitions.pop(partition.index, None)
        self._runtime.resigned(partition.index)

    def metadata_changed(self, image: MetadataImage, deleted_topics: Collection[str] = ()) -> None:
        """The topics there are now, and the names of those that are gone, and with them what groups committed to them.

        To be told before `elected` for the partitions of the same image. Nobody is shown an offset of a deleted topic
        from here on, nor can one be committed; a topic made again under its name begins without any. The records of the
        old ones are removed in the background.
        """
        self._image = image
        offsets_topic = image.topic(CONSUMER_OFFSETS_TOPIC)
        if offsets_topic is not None and offsets_topic.topic_id != self._offsets_topic_id:
            self._offsets_topic_id = offsets_topic.topic_id
            self.partition_count = len(offsets_topic.partitions)
        if not deleted_topics:
            return
        for deleted in self._deleted_topics.values():
            deleted.add(deleted_topics)
        self._runtime.step_all(lambda shard, now_ms: shard.handle_topics_deleted(now_ms, deleted_topics))

    def close(self) -> None:
        """The broker stops: everybody who waits is sent to look for another coordinator."""
        self._runtime.close()

    @property
    def is_loading(self) -> bool:
        """Whether the groups of some partition are still being read."""
        return self._runtime.is_loading

    def partition_of(self, group_id: str) -> int:
        """The partition of the offsets topic whose leader coordinates the group."""
        return partition_of_key(group_id, self.partition_count)

    def serves(self, group_type: GroupType) -> bool:
        """Whether groups of a kind may have members: by the settings, and by what the brokers agreed on."""
        feature = _FEATURES.get(group_type)
        is_agreed = feature is None or self._image.feature_level(feature) > 0
        # As in Kafka, only the feature switches share groups.
        return is_agreed and (group_type is GroupType.SHARE or group_type.value in self.config.protocols)

    # Members

    def join(self, request: Join, waiter: Waiter) -> None:
        """JoinGroup; answers with a JoinAnswer."""
        error = self._check_join(request)
        if error is not ErrorCode.NONE:
            waiter(JoinAnswer(error, member_id=request.member_id))
            return
        self._submit(
            request.group_id,
            lambda shard, *asked: shard.handle_join(*asked),
            request,
            waiter,
            JoinAnswer,
            needs_log=True,
        )

    def sync(self, request: Sync, waiter: Waiter) -> None:
        """SyncGroup; answers with a SyncAnswer."""
        if self._refuse_group_id(request.group_id, waiter, SyncAnswer):
            return
        self._submit(
            request.group_id,
            lambda shard, *asked: shard.handle_sync(*asked),
            request,
            waiter,
            SyncAnswer,
            needs_log=True,
        )

    def heartbeat(self, request: Heartbeat, waiter: Waiter) -> None:
        """Heartbeat; answers with a HeartbeatAnswer.

        While the group is being loaded every heartbeat is welcome: sessions begin anew when it is there.
        """
        if self._refuse_group_id(request.group_id, waiter, HeartbeatAnswer):
            return
        if self._runtime.state(self.partition_of(request.group_id)) is ShardState.LOADING:
            waiter(HeartbeatAnswer())
            return
        self._submit(
            request.group_id, lambda shard, *asked: shard.handle_heartbeat(*asked), request, waiter, HeartbeatAnswer
        )

    def leave(self, request: Leave, waiter: Waiter) -> None:
        """LeaveGroup; answers with a LeaveAnswer."""
        if self._refuse_group_id(request.group_id, waiter, LeaveAnswer):
            return
        self._submit(
            request.group_id,
            lambda shard, *asked: shard.handle_leave(*asked),
            request,
            waiter,
            LeaveAnswer,
            needs_log=True,
        )

    def consumer_heartbeat(self, request: ConsumerHeartbeat, waiter: Waiter) -> None:
        """ConsumerGroupHeartbeat; answers with a ConsumerHeartbeatAnswer."""
        if not self.serves(GroupType.CONSUMER):
            waiter(ConsumerHeartbeatAnswer(ErrorCode.UNSUPPORTED_VERSION, message="Consumer groups are turned off."))
            return
        if not request.group_id.strip():
            waiter(ConsumerHeartbeatAnswer(ErrorCode.INVALID_REQUEST, message="GroupId can't be empty."))
            return
        if self._refuse_group_id(request.group_id, waiter, ConsumerHeartbeatAnswer):
            return
        self._submit(
            request.group_id,
            lambda shard, *asked: shard.handle_consumer_heartbeat(*asked),
            request,
            waiter,
            ConsumerHeartbeatAnswer,
        )

    def streams_heartbeat(
        self, said: StreamsHeartbeat, waiter: Waiter, answer_type: type[StreamsHeartbeatAnswer]
    ) -> None:
        """StreamsGroupHeartbeat; answers with a StreamsHeartbeatAnswer. The type is given, so that it is read by those
        who need it.
        """
        group_id = said.request.group_id
        if not self.serves(GroupType.STREAMS):
            waiter(answer_type(ErrorCode.UNSUPPORTED_VERSION, message="Streams groups are turned off."))
        elif not self._refuse_group_id(group_id, waiter, answer_type, may_be_empty=True):
            self._submit(
                group_id, lambda shard, *asked: shard.handle_streams_heartbeat(*asked), said, waiter, answer_type
            )

    def share_heartbeat(self, said: ShareHeartbeat, waiter: Waiter, answer_type: type[ShareHeartbeatAnswer]) -> None:
        """ShareGroupHeartbeat; answers with a ShareHeartbeatAnswer. The type is given, as for streams groups."""
        group_id = said.request.group_id
        if not self.serves(GroupType.SHARE):
            waiter(answer_type(ErrorCode.UNSUPPORTED_VERSION, message="Share groups are turned off."))
        elif not self._refuse_group_id(group_id, waiter, answer_type, may_be_empty=True):
            self._submit(
                group_id, lambda shard, *asked: shard.handle_share_heartbeat(*asked), said, waiter, answer_type
            )

    def share_initialized(self, report: PartitionsInitialized, waiter: Waiter) -> None:
        """The delivery state of partitions exists; answers with an Answer."""
        self._submit(
            report.group_id, lambda shard, *asked: shard.handle_share_initialized(*asked), report, waiter, Answer
        )

    def share_offsets(self, request: ShareOffsets, waiter: Waiter, answer_type: type[ShareOffsetsAnswer]) -> None:
        """Describe, Alter or DeleteShareGroupOffsets of one group; answers with a ShareOffsetsAnswer."""
        if not self.serves(GroupType.SHARE):
            waiter(answer_type(ErrorCode.UNSUPPORTED_VERSION, message="Share groups are turned off."))
        elif not self._refuse_group_id(request.group_id, waiter, answer_type):
            self._submit(
                request.group_id, lambda shard, *asked: shard.handle_share_offsets(*asked), request, waiter, answer_type
            )

    # Offsets. The empty group id is a group like any other here: simple consumers of old use it.

    def commit_offsets(self, request: CommitOffsets, waiter: Waiter) -> None:
        """OffsetCommit; answers with a CommitAnswer. That the partitions exist is the caller's to check."""
        group_id = request.committer.group_id
        if self._refuse_group_id(group_id, waiter, CommitAnswer, may_be_empty=True):
            return
        producer = request.producer
        if producer is not None and (self.partition_of(group_id), producer.producer_id) in self._ended_now:
            # The log would refuse it behind the marker, and with it all that the shard writes in this turn.
            waiter(CommitAnswer(ErrorCode.INVALID_TXN_STATE))
            return
        self._submit(group_id, lambda shard, *asked: shard.handle_commit(*asked), request, waiter, CommitAnswer)

    def fetch_offsets(self, request: FetchOffsets, waiter: Waiter) -> None:
        """OffsetFetch of one group; answers with a FetchAnswer.

        It waits for the commits that came before it, whether the client asked for stable offsets or not: what it tells
        is committed in any case.
        """
        self._submit(request.group_id, lambda shard, *asked: shard.handle_fetch(*asked), request, waiter, FetchAnswer)

    def delete_offsets(self, request: DeleteOffsets, waiter: Waiter) -> None:
        """OffsetDelete; answers with a DeleteOffsetsAnswer."""
        self._submit(
            request.group_id,
            lambda shard, *asked: shard.handle_delete_offsets(*asked),
            request,
            waiter,
            DeleteOffsetsAnswer,
        )

    def end_transaction(
        self, partition_index: int, marker: TransactionMarker, on_written: Callable[[ErrorCode], None]
    ) -> None:
        """Write the marker of a producer's transaction to a partition of the offsets topic, behind the offsets that
        were committed in it: they hold from there on, or come to nothing.

        `on_written` is called exactly once: NONE when the marker is committed, NOT_LEADER_OR_FOLLOWER when this broker
        does not serve the partition now, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """

        def step(shard: GroupShard, now_ms: int, waiter: Waiter) -> Outcome:
            error = self._partitions[partition_index].check_marker(marker)
            if (partition_index, marker.producer_id) in self._ended_now:
                # Only behind the marker of this turn is known what becomes of another.
                error = ErrorCode.NOT_COORDINATOR
            if error is not ErrorCode.NONE:
                return Outcome(answers=[(waiter, Answer(error))])
            if not self._ended_now:
                self._environment.defer(self._ended_now.clear)
            self._ended_now.add((partition_index, marker.producer_id))
            return shard.handle_transaction_end(now_ms, marker, waiter)

        def answered(answer: Answer) -> None:
            on_written(_AS_LEADER.get(answer.error, answer.error))

        self._runtime.submit(partition_index, step, answered, Answer)

    # Groups

    def describe(self, group_id: str, waiter: Waiter) -> None:
        """DescribeGroups of one group; answers with a DescribeAnswer."""
        self._submit(group_id, lambda shard, *asked: shard.handle_describe(*asked), group_id, waiter, DescribeAnswer)

    def consumer_describe(self, group_id: str, waiter: Waiter) -> None:
        """ConsumerGroupDescribe of one group; answers with a ConsumerDescribeAnswer."""
        if self._refuse_group_id(group_id, waiter, ConsumerDescribeAnswer):
            return
        self._submit(
            group_id,
            lambda shard, *asked: shard.handle_consumer_describe(*asked),
            group_id,
            waiter,
            ConsumerDescribeAnswer,
        )

    def streams_describe(self, group_id: str, waiter: Waiter, answer_type: type[StreamsDescribeAnswer]) -> None:
        """StreamsGroupDescribe of one group; answers with a StreamsDescribeAnswer."""
        if not self.serves(GroupType.STREAMS):
            waiter(answer_type(ErrorCode.UNSUPPORTED_VERSION, message="Streams groups are turned off."))
            return
        if self._refuse_group_id(group_id, waiter, answer_type):
            return
        self._submit(
            group_id, lambda shard, *asked: shard.handle_streams_describe(*asked), group_id, waiter, answer_type
        )

    def share_describe(self, group_id: str, waiter: Waiter, answer_type: type[ShareDescribeAnswer]) -> None:
        """ShareGroupDescribe of one group; answers with a ShareDescribeAnswer."""
        if not self.serves(GroupType.SHARE):
            waiter(answer_type(ErrorCode.UNSUPPORTED_VERSION, message="Share groups are turned off."))
        elif not self._refuse_group_id(group_id, waiter, answer_type):
            self._submit(
                group_id, lambda shard, *asked: shard.handle_share_describe(*asked), group_id, waiter, answer_type
            )

    def is_share_group(self, group_id: str) -> bool:
        """Whether a group that this broker coordinates is a share group now."""
        shard = self._runtime.active_shard(self.partition_of(group_id))
        return shard is not None and shard.type_of(group_id) is GroupType.SHARE

    async def share_groups_of(self, topic_id: UUID) -> list[str]:
        """The share groups of this broker that have a state in a topic, by name. Raises as `list_groups`."""
        if self.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "groups are still being loaded")
        from ottla.groups.share.share_group import ShareGroup  # as the shards: read when there are any

        groups = [group for shard in self._runtime.active_shards() for group in shard.groups()]
        found: list[str] = []
        async for some in in_turns(groups):
            found += (each.group_id for each in some if isinstance(each, ShareGroup) and topic_id in each.initialized)
        return sorted(found)

    def delete(self, group_id: str, waiter: Waiter) -> None:
        """DeleteGroups of one group; answers with a DeleteGroupAnswer."""
        self._submit(group_id, lambda shard, *asked: shard.handle_delete(*asked), group_id, waiter, DeleteGroupAnswer)

    async def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """The groups this broker coordinates now, looked at some in a turn of the loop.

        Raises ApiError COORDINATOR_LOAD_IN_PROGRESS while some are still being read: the list would lack them.
        """
        if self.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "groups are still being loaded")
        from ottla.groups import inspection  # as the shards: read when there are any

        groups = [group for shard in self._runtime.active_shards() for group in shard.groups()]
        listed: list[GroupListing] = []
        async for some in in_turns(groups):
            listed += (inspection.listing(group) for group in some if inspection.matches(group, states, types))
        return listed

    def _new_shard(self, index: int) -> GroupShard:
        """A broker that leads no partition of the offsets topic never reads the file."""
        from ottla.groups.group_shard import GroupShard

        return GroupShard(self.config, self._deleted_topics[index], lambda: self._image)

    def _topic_id(self, name: str) -> UUID | None:
        topic = self._image.topic(name)
        return None if topic is None else topic.topic_id

    def _submit(
        self,
        group_id: str,
        handle: Callable[[GroupShard, int, R, Waiter], Outcome],
        request: R,
        waiter: Waiter,
        answer_type: type[Answer],
        *,
        needs_log: bool = False,
    ) -> None:
        self._runtime.submit(
            self.partition_of(group_id),
            lambda shard, now_ms, once: handle(shard, now_ms, request, once),
            waiter,
            answer_type,
            needs_log=needs_log,
        )

    def _check_join(self, request: Join) -> ErrorCode:
        if not request.group_id or len(request.group_id.encode()) > GROUP_ID_BYTES_MAX:
            return ErrorCode.INVALID_GROUP_ID
        if not self.config.min_session_timeout_ms <= request.session_timeout_ms <= self.config.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        names = [protocol.name for protocol in request.protocols]
        if (
            len(request.protocols) > PROTOCOLS_PER_MEMBER_MAX
            or any(len(name.encode()) > PROTOCOL_NAME_BYTES_MAX for name in (*names, request.protocol_type))
            or len((request.instance_id or "").encode()) > INSTANCE_ID_BYTES_MAX
            or sum(len(protocol.metadata) for protocol in request.protocols) > MEMBER_METADATA_BYTES_MAX
        ):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    @staticmethod
    def _refuse_group_id(
        group_id: str, waiter: Waiter, answer_type: type[Answer], *, may_be_empty: bool = False
    ) -> bool:
        if (group_id or may_be_empty) and len(group_id.encode()) <= GROUP_ID_BYTES_MAX:
            return False
        waiter(answer_type(error=ErrorCode.INVALID_GROUP_ID))
        return True
