"""The committed offsets of the groups of a shard: by replay alone, in transactions too; fetched, deleted, expired."""

from collections.abc import Collection, Iterator

from ottla.coordination.outcome import Answer, TransactionEnd
from ottla.groups import group_config, offsets
from ottla.groups.answers import CommitAnswer, DeleteOffsetsAnswer, FetchAnswer
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group import Group
from ottla.groups.offset_store import OffsetStore
from ottla.groups.offset_sweep import SLICE_INTERVAL_MS, SLICE_ITEMS_MAX, OffsetSweep
from ottla.groups.pending_offsets import PendingOffsets
from ottla.groups.records import CommittedOffset, OffsetRecord
from ottla.groups.requests import CommitOffsets, DeleteOffsets, FetchOffsets
from ottla.groups.step import OffsetExpiryTimer, Step
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker


class GroupOffsets:
    """A part of `GroupShard`, whose groups it shares: an offset makes the group that it belongs to."""

    __slots__ = ("_check_interval_ms", "_deleted_topics", "_groups", "_pending", "_store", "_sweep", "_to_expire")

    def __init__(self, groups: dict[str, Group], deleted_topics: DeletedTopics, check_interval_ms: int) -> None:
        """Offsets are looked at for their age at each check interval."""
        self._groups = groups
        self._deleted_topics = deleted_topics
        self._check_interval_ms = check_interval_ms
        self._store = OffsetStore()
        self._pending = PendingOffsets()
        self._sweep = OffsetSweep(self._store, self._pending, deleted_topics)
        self._to_expire: Iterator[Group] | None = None
        """The groups whose offsets are still to be looked at, while that is going on."""

    def __len__(self) -> int:
        """How many offsets are stored."""
        return len(self._store)

    def has_any(self, group_id: str) -> bool:
        """Whether a group has offsets, those of open transactions included."""
        return group_id in self._store or group_id in self._pending

    # Records

    def replay(self, record: OffsetRecord) -> None:
        """Apply a record."""
        if record.committed is None:
            self._store.remove(record.group_id, record.partition)
            self._pending.discard(record.group_id, record.partition)
        else:
            self._pending.overtake(record.group_id, record.partition)
            self._put(record.group_id, record.partition, record.committed)

    def replay_transactional(self, record: OffsetRecord, producer_id: int) -> None:
        """Keep an offset that a producer committed until its transaction ends."""
        if record.committed is not None:
            self._make_group(record.group_id, record.committed)
            self._pending.add(producer_id, record.group_id, record.partition, record.committed)

    def replay_transaction_end(self, producer_id: int, *, committed: bool) -> None:
        """The offsets of a transaction hold, or come to nothing."""
        for group_id, partition, offset in self._pending.end(producer_id, committed=committed):
            self._put(group_id, partition, offset)

    def _put(self, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        self._make_group(group_id, committed)
        self._store.put(group_id, partition, committed)

    def _make_group(self, group_id: str, committed: CommittedOffset) -> None:
        if group_id not in self._groups:
            self._groups[group_id] = ClassicGroup(group_id, committed.commit_timestamp_ms)

    # Requests

    def commit(self, step: Step, request: CommitOffsets, *, has_room: bool) -> CommitAnswer:
        """OffsetCommit; `has_room` says whether there may be one more group."""
        group = self._groups.get(request.committer.group_id)
        has_pending_room = len(self._pending) < group_config.PENDING_OFFSETS_PER_SHARD_MAX
        if (group is None and not has_room) or (request.producer is not None and not has_pending_room):
            return CommitAnswer(ErrorCode.POLICY_VIOLATION)
        return offsets.commit_offsets(step, group, request, self._deleted_topics.id_of)

    def fetch(self, request: FetchOffsets) -> FetchAnswer:
        """OffsetFetch. A group that does not exist has no offsets, nor has any in a topic that is gone."""
        group = self._groups.get(request.group_id)
        error = ErrorCode.NONE if group is None else group.check_fetch(request.member_id, request.member_epoch)
        if error is not ErrorCode.NONE:
            return FetchAnswer(error)
        found: dict[TopicPartition, CommittedOffset | None]
        if request.partitions is None:
            found = {
                partition: committed
                for partition, committed in self._store.of_group(request.group_id).items()
                if not self._deleted_topics.is_orphaned(partition.topic, committed)
            }
        else:
            found = {each: self._offset(request.group_id, each) for each in request.partitions}
        unstable: frozenset[TopicPartition] = frozenset()
        if request.require_stable and request.group_id in self._pending:
            unstable = frozenset(each for each in found if self._pending.has(request.group_id, each))
        return FetchAnswer(offsets=found, unstable=unstable)

    def _offset(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        """The offset of a group in a partition, unless it was committed to a topic that is gone."""
        committed = self._store.get(group_id, partition)
        if committed is None or self._deleted_topics.is_orphaned(partition.topic, committed):
            return None
        return committed

    def end_transaction(self, step: Step, marker: TransactionMarker) -> Answer:
        """The marker of a transaction: its offsets hold from here on, or come to nothing."""
        step.outcome.write(TransactionEnd(marker))
        return Answer()

    def delete(self, step: Step, request: DeleteOffsets) -> DeleteOffsetsAnswer:
        """OffsetDelete."""
        group = self._groups.get(request.group_id)
        if group is None:
            return DeleteOffsetsAnswer(ErrorCode.GROUP_ID_NOT_FOUND)
        return offsets.delete_offsets(step, group, self._store, self._pending, request)

    def delete_group(self, step: Step, group: Group) -> None:
        """A group is deleted, with its offsets."""
        offsets.delete_group(step, group, self._store, self._pending)

    # What time does

    def begin(self, step: Step) -> None:
        """The shard was loaded: look for old offsets from time to time, and for those in topics that are gone."""
        step.outcome.set_timer(OffsetExpiryTimer(), self._check_interval_ms)
        self._sweep.begin_all(step)

    def begin_sweep(self, step: Step, topics: Collection[str]) -> None:
        """Topics are gone, as `DeletedTopics` knows already: so are the offsets in them, a slice at a time."""
        self._sweep.begin(step, topics)

    def go_on_sweeping(self, step: Step) -> None:
        """The next slice."""
        self._sweep.go_on(step)

    def expire(self, step: Step) -> None:
        """Look through all groups, a slice in a turn of the loop; what one group has is one piece of work."""
        if self._to_expire is None:
            self._to_expire = iter(tuple(self._groups.values()))
        looked_at = 0
        for group in self._to_expire:
            if self._groups.get(group.group_id) is not group:
                continue
            looked_at += 1 + self._store.count(group.group_id)
            nothing_left = offsets.expire_offsets(step, group, self._store, self._pending)
            is_awaited = isinstance(group, ClassicGroup) and group.members.pending
            if nothing_left and group.is_empty and not is_awaited:
                for record in group.tombstones():
                    step.outcome.write(record)
            if looked_at >= SLICE_ITEMS_MAX:
                step.outcome.set_timer(OffsetExpiryTimer(), SLICE_INTERVAL_MS)
                return
        self._to_expire = None
        step.outcome.set_timer(OffsetExpiryTimer(), self._check_interval_ms)
