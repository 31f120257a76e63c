"""The groups of streams for those who know them as share groups: opened at the leader of the stream, and asked of it.

coordinator of the group --> initialize, summary, delete --> the broker that leads the stream --> the group in it
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from ottla.client.errors import ClientError
from ottla.gateways.redis import peer_messages as messages
from ottla.gateways.redis.entry_places import EntryPlaces
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.fetched import Fetched
from ottla.gateways.redis.group import UNKNOWN, Group
from ottla.gateways.redis.group_counts import deliveries_of, unread
from ottla.gateways.redis.group_registry import GroupRegistry
from ottla.gateways.redis.group_share import GroupShare
from ottla.gateways.redis.peer_messages import GroupAsked
from ottla.gateways.redis.placement import ElsewhereError
from ottla.gateways.redis.stream_id import ID_MAX, id_bytes
from ottla.gateways.redis.stream_log import are_lost
from ottla.gateways.redis.stream_records import GroupDestroyed, GroupSet, Mark, Released
from ottla.gateways.redis.transaction import MISSING
from ottla.metadata.image.image import NO_LEADER
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native.errors import KernelError
from ottla.queues.log_reader import LogReader
from ottla.queues.recent_reads import RecentReads
from ottla.queues.share_state import UNKNOWN_OFFSET, ShareKey, ShareState
from ottla.queues.share_state_shard import StateAnswer

if TYPE_CHECKING:
    from ottla.gateways.redis.gateway import RedisGateway
    from ottla.gateways.redis.stream import Stream
    from ottla.gateways.redis.stream_log import Flush
    from ottla.queues.deliveries import Deliveries
    from ottla.queues.surroundings import Surroundings
    from ottla.replication.partition import Partition

ASK_MS: Final = 10_000
_ELSEWHERE: Final = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads the stream")


class StreamGroups:
    """Satisfies `ottla.broker.redis_exchange.StreamGroups`. Belongs to the event loop."""

    def __init__(self, gateway: RedisGateway) -> None:
        self._gateway = gateway
        self._reads = RecentReads()
        self.registry = GroupRegistry(gateway)
        gateway.keyspace.on_groups = self.registry.note

    # --- at the leader ------------------------------------------------------------------------------------------------

    async def open(self, key: ShareKey, partition: Partition, around: Surroundings) -> GroupShare:
        """The group, made if need be where it begins by its `share.auto.offset.reset`. Raises ApiError."""
        name = key.group_id.encode()
        stream = await self._stream_of(partition.topic_partition.topic)
        if name not in stream.groups:
            await self._make(key, partition, stream)
        group = stream.groups.get(name)
        if group is None:
            raise _ELSEWHERE
        share = GroupShare(key, partition, stream, group, self._gateway, around)
        try:
            await share.learn()
        except BaseException:
            share.lose()
            raise
        return share

    def deliveries(self, group_id: str, partition: Partition) -> Deliveries | None:
        """How a group stands; None where there is none, or its stream is not read yet."""
        stream = self._gateway.keyspace.stream_of(partition.topic_partition.topic)
        group = None if stream is None else stream.groups.get(group_id.encode())
        if stream is None or group is None:
            return None
        return deliveries_of(stream, group, partition, self._gateway.broker.clock.now_ms())

    def consumers(self, group_id: str) -> int:
        """How many clients of Redis have something of a group that is pending."""
        name, count = group_id.encode(), 0
        for database in self._gateway.keyspace.databases:
            for stream in database.values():
                group = stream.groups.get(name)
                if group is not None:
                    count += sum(not each.is_worker and each.pending_count > 0 for each in group.consumers.values())
        return count

    async def begin_at(self, key: ShareKey, offset: int) -> None:
        """Nothing is pending in a group, and it begins at an offset. Raises ApiError."""
        partition = self._partition(key)
        stream = await self._stream_of(partition.topic_partition.topic)
        last_id = await self._id_before(key, partition, stream, offset)
        await self._gateway.keyspace.until_free_of(stream)
        name = key.group_id.encode()
        marks: list[Mark] = []
        group = stream.groups.get(name)
        if group is not None and group.pending:
            marks.append(Released(name, [id_bytes(each) for each, _ in group.pending_from(0, ID_MAX)]))
        entries_read = 0 if not last_id else stream.entries_added if last_id == stream.last_id else UNKNOWN
        await self._change(stream, [*marks, GroupSet(name, id_bytes(last_id), entries_read)])

    async def _make(self, key: ShareKey, partition: Partition, stream: Stream) -> None:
        share_partitions = self._gateway.broker.share_fetches.partitions
        offset = await share_partitions.first_offset(key.group_id, partition)
        if key.group_id.encode() not in stream.groups:
            await self.begin_at(key, offset)

    async def _initialize(self, key: ShareKey, offset: int) -> StateAnswer:
        # Without an offset it is made when the first worker reads it: the stream may have been told meanwhile that it
        # is gone.
        if offset != UNKNOWN_OFFSET:
            await self.begin_at(key, offset)
        return StateAnswer()

    async def _ensure(self, key: ShareKey, offset: int) -> StateAnswer:
        partition = self._partition(key)
        stream = await self._stream_of(partition.topic_partition.topic)
        if key.group_id.encode() not in stream.groups:
            await self.begin_at(key, partition.high_watermark if offset == UNKNOWN_OFFSET else offset)
        return StateAnswer()

    async def _delete(self, key: ShareKey, offset: int) -> StateAnswer:
        del offset
        if key in self.registry.forgetting:
            return StateAnswer()
        stream = await self._stream_of(self._partition(key).topic_partition.topic)
        name = key.group_id.encode()
        if name in stream.groups:
            await self._change(stream, [GroupDestroyed(name)])
        return StateAnswer()

    async def _summary(self, key: ShareKey, offset: int) -> StateAnswer:
        del offset
        partition = self._partition(key)
        stream = await self._stream_of(partition.topic_partition.topic)
        group = stream.groups.get(key.group_id.encode())
        if group is None:
            return StateAnswer(state=ShareState(leader_epoch=partition.leader_epoch))
        start = await self._start_of(key, partition, stream, group)
        left = unread(stream, group) + len(group.pending)
        state = ShareState(
            leader_epoch=partition.leader_epoch,
            start_offset=start,
            complete_count=max(0, partition.high_watermark - start - left),
        )
        return StateAnswer(state=state)

    async def _start_of(self, key: ShareKey, partition: Partition, stream: Stream, group: Group) -> int:
        """The offset of the first entry that is not done."""
        first = group.first_pending if group.pending else group.last_id + 1
        end = partition.high_watermark
        if not stream.length or first > stream.last_id:
            return end
        found = await self._places(key, partition, stream).offset_of(first)
        return end if found is None else found

    async def _id_before(self, key: ShareKey, partition: Partition, stream: Stream, offset: int) -> int:
        try:
            return await self._places(key, partition, stream).id_before(offset)
        except KernelError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def _places(self, key: ShareKey, partition: Partition, stream: Stream) -> EntryPlaces:
        tasks = self._gateway.broker.tasks
        return EntryPlaces(stream, partition, LogReader(partition, key, partition.leader_epoch, self._reads, tasks))

    def _partition(self, key: ShareKey) -> Partition:
        return self._gateway.broker.replicas.get_by_id(key.topic_id, key.partition)

    async def _stream_of(self, topic: str) -> Stream:
        """The stream of a topic, read from its log if need be. Raises ApiError."""
        gateway, keyspace = self._gateway, self._gateway.keyspace
        fetched = Fetched()
        while True:
            await gateway.until_free()
            stream = keyspace.stream_of(topic)
            place = keyspace.placement.key_of(topic) if stream is None else (stream.database, stream.key or b"")
            if place is None or place[0] >= len(keyspace.databases):
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} is no stream")
            outside, keyspace.awaited = keyspace.awaited, set()
            try:
                found = keyspace.find(*place, gateway.broker.clock.now_ms())
            except ElsewhereError as error:
                raise _ELSEWHERE from error
            except MISSING as error:
                missing = error
            else:
                if found is None or found.log.topic != topic:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no key has the stream of topic {topic}")
                return found
            finally:
                keyspace.awaited = outside
            try:
                await gateway.fetch(missing, fetched, gateway.peer_commands.own)
            except RedisError as error:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, error.line.decode(errors="replace")) from error

    async def _change(self, stream: Stream, marks: list[Mark]) -> None:
        """Make changes to a stream, and wait until they are on disk. Raises ApiError."""
        keyspace, now_ms = self._gateway.keyspace, self._gateway.broker.clock.now_ms()
        if not stream.log.is_current or not keyspace.serves(stream):
            raise _ELSEWHERE
        outside, keyspace.awaited = keyspace.awaited, set()
        try:
            for mark in marks:
                stream.mark(now_ms, mark)
            keyspace.changed(stream)
            keyspace.on_groups(stream)
        finally:
            keyspace.awaited = outside
        flush: Flush | None = stream.log.latest
        self._gateway.serve_waiters()
        if flush is not None and await are_lost({flush}):
            raise _ELSEWHERE

    # --- at any broker ------------------------------------------------------------------------------------------------

    async def initialize(self, key: ShareKey, start_offset: int) -> StateAnswer:
        """Have a group begin at an offset; UNKNOWN_OFFSET: all stays as it is."""
        return await self._ask("initialize", key, start_offset)

    async def ensure(self, key: ShareKey, start_offset: int) -> StateAnswer:
        """Have a group begin at an offset, at UNKNOWN_OFFSET at the end, if there is no such group yet."""
        return await self._ask("ensure", key, start_offset)

    async def delete(self, key: ShareKey) -> StateAnswer:
        """Destroy a group."""
        return await self._ask("delete", key, UNKNOWN_OFFSET)

    async def summary(self, key: ShareKey) -> StateAnswer:
        """Where a group is."""
        return await self._ask("summary", key, UNKNOWN_OFFSET)

    async def _ask(self, verb: str, key: ShareKey, offset: int) -> StateAnswer:
        image = self._gateway.broker.image
        topic = image.topic_by_id(key.topic_id)
        if topic is None:
            return StateAnswer() if verb == "delete" else StateAnswer(ErrorCode.UNKNOWN_TOPIC_ID)
        leader = topic.partitions[key.partition].leader
        asked = GroupAsked(verb, key.group_id.encode(), key.topic_id.bytes, offset)
        try:
            if leader == self._gateway.broker.config.node_id:
                return await self._answer(key, asked)
            if leader == NO_LEADER:
                return StateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, message="nobody leads the stream")
            data = await self._gateway.forwarding.ask(leader, asked, timeout_ms=ASK_MS)
        except ApiError as error:
            return StateAnswer(error.code, message=error.message)
        except ClientError as error:
            return StateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, message=str(error))
        told = messages.decode_group_told(data)
        state = ShareState(
            leader_epoch=told.leader_epoch, start_offset=told.start_offset, complete_count=told.complete_count
        )
        return StateAnswer(ErrorCode(told.error), message=told.message or None, state=state)

    async def answer(self, asked: GroupAsked) -> bytes:
        """What another broker is told."""
        try:
            key = ShareKey(asked.group.decode(), messages.topic_id_of(asked), 0)
        except ValueError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"no group of a stream: {error}") from error
        try:
            answer = await self._answer(key, asked)
        except ApiError as error:
            answer = StateAnswer(error.code, message=error.message)
        state = answer.state
        told = messages.GroupTold(
            int(answer.error), answer.message or "", state.leader_epoch, state.start_offset, state.complete_count
        )
        return messages.encode(told)

    async def _answer(self, key: ShareKey, asked: GroupAsked) -> StateAnswer:
        verbs: dict[str, Callable[[ShareKey, int], Awaitable[StateAnswer]]] = {
            "initialize": self._initialize,
            "ensure": self._ensure,
            "delete": self._delete,
            "summary": self._summary,
        }
        if asked.verb not in verbs:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"groups of streams are not asked for {asked.verb}")
        return await verbs[asked.verb](key, asked.offset)
