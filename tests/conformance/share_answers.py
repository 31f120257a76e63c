"""What a broker answers to the requests of share groups, as values that can be compared with another broker's.

Each answer is given a label. Ids that a broker draws are replaced by names; leader ids and addresses are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from ottla.native import build_batch, walk_batches
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages import (
    alter_share_group_offsets,
    create_topics,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_share_group_offsets,
    end_txn,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_groups,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.hostile.raw_peer import RawPeer

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GAP = 0
BATCH, LIMIT = 0, 1
"""The acquire modes."""
PATIENCE_S = 60
UNKNOWN_TOPIC_OR_PARTITION = 3
RETRIABLE = {UNKNOWN_TOPIC_OR_PARTITION, 5, 6, 14, 15, 16, 51}
GROUP_RESOURCE = 32
UNKNOWN_TOPIC = UUID("00112233-4455-6677-8899-aabbccddeeff")

Place = tuple[str, int]
Acks = Sequence[tuple[int, int, Sequence[int]]]


class ShareScript:
    """Asks one broker, and keeps what it answered."""

    def __init__(self, port: int, tag: str) -> None:
        """`tag` makes names that no other run uses."""
        self.port = port
        self.tag = tag
        self.answers: list[tuple[str, object]] = []
        self._peers: dict[str, RawPeer] = {}
        self._ids: dict[str, UUID] = {"?": UNKNOWN_TOPIC}

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()

    def peer(self, name: str = "a") -> RawPeer:
        """A connection."""
        if name not in self._peers:
            self._peers[name] = RawPeer(self.port)
        return self._peers[name]

    def hang_up(self, name: str) -> None:
        """Close a connection."""
        self._peers.pop(name).close()

    def name(self, short: str) -> str:
        """The name of a topic or group in this run."""
        return f"{short}-{self.tag}"

    def note(self, label: str, answer: object) -> Any:
        """Keep an answer."""
        self.answers.append((label, answer))
        return answer

    def wait_until_ready(self) -> None:
        """Have the coordinators there be."""
        for key_type in (0, 1):
            request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=("any",))
            self.until(partial(self.peer().ask, request, 4), lambda answer: [answer.coordinators[0].error_code])

    # --- what has to be there -----------------------------------------------------------------------------------

    def until(self, ask: Callable[[], Any], codes: Callable[[Any], Iterable[int]]) -> Any:
        """The first answer without an error that passes."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = ask()
            if not RETRIABLE & set(codes(answer)) or time.monotonic() > deadline:
                return answer

    def make_topic(self, short: str, partitions: int = 1) -> UUID:
        topic = create_topics.CreatableTopic(self.name(short), partitions, 1)
        response = self.peer().ask(create_topics.CreateTopicsRequest((topic,), 30_000), 7)
        assert response.topics[0].error_code == 0, response
        self._ids[short] = response.topics[0].topic_id
        return self._ids[short]

    def drop_topic(self, short: str) -> None:
        topic = delete_topics.DeleteTopicState(self.name(short))
        response = self.peer().ask(delete_topics.DeleteTopicsRequest(topics=(topic,), timeout_ms=30_000), 6)
        assert response.responses[0].error_code == 0, response

    def produce(self, short: str, *counts: int, partition: int = 0, **batch: Any) -> int:
        """One batch of each count; the offset of the last."""
        offset = -1
        for count in counts:
            records = bytes(build_batch([(1, None, b"v", ())] * count, **batch))
            data = PartitionProduceData(index=partition, records=records)
            transactional_id = self.name("tx") if batch.get("is_transactional") else None
            request = ProduceRequest(
                transactional_id=transactional_id,
                acks=-1,
                timeout_ms=30_000,
                topic_data=(TopicProduceData(name=self.name(short), partition_data=(data,)),),
            )
            answer = self.until(
                partial(self._produced, request),
                lambda answer: [answer.error_code],
            )
            assert answer.error_code == 0, answer
            offset = answer.base_offset
        return offset

    def _produced(self, request: ProduceRequest) -> Any:
        return self.peer().ask(request, 12).responses[0].partition_responses[0]

    def transaction(self, short: str, count: int, *, commits: bool) -> None:
        """A transaction of one batch, with its marker."""
        name = self.name("tx")
        self.until(
            lambda: self.peer().ask(find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=(name,)), 4),
            lambda answer: [answer.coordinators[0].error_code],
        )
        began = self.until(
            lambda: self.peer().ask(init_producer_id.InitProducerIdRequest(name, 60_000), 4),
            lambda answer: [answer.error_code],
        )
        self.produce(
            short,
            count,
            producer_id=began.producer_id,
            producer_epoch=began.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        request = end_txn.EndTxnRequest(name, began.producer_id, began.producer_epoch, commits)
        self.until(lambda: self.peer().ask(request, 5), lambda answer: [answer.error_code])
        self.until(  # is answered when the markers are there
            lambda: self.peer().ask(init_producer_id.InitProducerIdRequest(name, 60_000), 4),
            lambda answer: [answer.error_code],
        )

    def delete_before(self, short: str, offset: int) -> None:
        partition = delete_records.DeleteRecordsPartition(0, offset)
        topic = delete_records.DeleteRecordsTopic(self.name(short), (partition,))
        response = self.peer().ask(delete_records.DeleteRecordsRequest((topic,), 30_000), 2)
        assert response.topics[0].partitions[0].error_code == 0, response

    def configure(self, group: str, **settings: str) -> None:
        """Settings of a group, with `_` for dots."""
        entries = tuple(
            incremental_alter_configs.AlterableConfig(key.replace("_", "."), 0, value)
            for key, value in settings.items()
        )
        resource = incremental_alter_configs.AlterConfigsResource(GROUP_RESOURCE, self.name(group), entries)
        response = self.peer().ask(incremental_alter_configs.IncrementalAlterConfigsRequest((resource,)), 1)
        assert response.responses[0].error_code == 0, response

    # --- membership ---------------------------------------------------------------------------------------------

    def heartbeat(
        self,
        label: str,
        group: str,
        member: str,
        epoch: int,
        topics: Sequence[str] | None = None,
        rack: str | None = None,
    ) -> Any:
        names = None if topics is None else tuple(map(self.name, topics))
        request = share_group_heartbeat.ShareGroupHeartbeatRequest(self._group(group), member, epoch, rack, names)
        response = self.until(lambda: self.peer().ask(request, 1), lambda answer: [answer.error_code])
        assignment = None
        if response.assignment is not None:
            assignment = sorted(
                (self._short(each.topic_id), tuple(sorted(each.partitions)))
                for each in response.assignment.topic_partitions
            )
        answer = (
            response.error_code,
            response.error_message,
            response.member_id,
            response.member_epoch,
            response.heartbeat_interval_ms,
            assignment,
        )
        return self.note(f"heartbeat {label}", self._plain(answer))

    def join(self, group: str, member: str, *topics: str, partitions: int) -> None:
        """Join, and stay until so many partitions are assigned; nothing of it is compared."""
        names = tuple(map(self.name, topics))
        epoch, deadline = 0, time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            request = share_group_heartbeat.ShareGroupHeartbeatRequest(
                self._group(group), member, epoch, None, names if epoch == 0 else None
            )
            response = self.until(partial(self.peer().ask, request, 1), lambda answer: [answer.error_code])
            assert response.error_code == 0, response
            epoch = response.member_epoch
            assignment = response.assignment
            if assignment and sum(len(each.partitions) for each in assignment.topic_partitions) == partitions:
                return
        raise AssertionError(f"{group}: never assigned")

    def leave(self, group: str, member: str) -> None:
        request = share_group_heartbeat.ShareGroupHeartbeatRequest(self._group(group), member, -1)
        assert self.peer().ask(request, 1).error_code == 0

    def describe(self, label: str, *groups: str) -> None:
        request = share_group_describe.ShareGroupDescribeRequest(tuple(map(self._group, groups)), False)
        response = self.until(
            lambda: self.peer().ask(request, 1), lambda answer: [each.error_code for each in answer.groups]
        )
        answer = [
            (
                group.error_code,
                group.error_message,
                group.group_id,
                group.group_state,
                group.group_epoch,
                group.assignment_epoch,
                group.assignor_name,
                sorted(
                    (
                        member.member_id,
                        member.rack_id,
                        member.member_epoch,
                        member.client_id,
                        member.client_host,
                        tuple(sorted(member.subscribed_topic_names)),
                        sorted(
                            (each.topic_name, tuple(sorted(each.partitions)))
                            for each in member.assignment.topic_partitions
                        ),
                    )
                    for member in group.members
                ),
                group.authorized_operations,
            )
            for group in response.groups
        ]
        self.note(f"describe {label}", self._plain(answer))

    # --- records ------------------------------------------------------------------------------------------------

    def fetch(
        self,
        label: str | None,
        group: str | None,
        member: str | None,
        epoch: int,
        places: Sequence[Place] = (),
        acks: dict[Place, Acks] | None = None,
        forgotten: Sequence[Place] = (),
        *,
        peer: str = "a",
        wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        max_records: int = 500,
        batch_size: int = 500,
        mode: int = BATCH,
        renews: bool = False,
        version: int = 2,
    ) -> Any:
        given = acks or {}
        topics: dict[str, list[share_fetch.FetchPartition]] = {}
        for place in dict.fromkeys((*places, *given)):
            batches = tuple(
                share_fetch.AcknowledgementBatch(first, last, tuple(types))
                for first, last, types in given.get(place, ())
            )
            topics.setdefault(place[0], []).append(share_fetch.FetchPartition(place[1], batches))
        request = share_fetch.ShareFetchRequest(
            group_id=self._group(group),
            member_id=member,
            share_session_epoch=epoch,
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_records=max_records,
            batch_size=batch_size,
            share_acquire_mode=mode if version > 1 else 0,
            is_renew_ack=renews,
            topics=tuple(
                share_fetch.FetchTopic(self._ids[short], tuple(partitions)) for short, partitions in topics.items()
            ),
            forgotten_topics_data=tuple(
                share_fetch.ForgottenTopic(self._ids[short], (partition,)) for short, partition in forgotten
            ),
        )
        answer = self._fetched(self._asked(peer, request, version), given)
        return answer if label is None else self.note(f"fetch {label}", answer)

    def fetch_all(self, label: str, group: str, member: str, place: Place, *, until: int) -> int:
        """Fetch until a record is delivered, and compare what was delivered by then; the epoch that follows."""
        delivered: set[int] = set()
        epoch, deadline = 0, time.monotonic() + PATIENCE_S
        while until not in delivered and time.monotonic() < deadline:
            _, rows = self.fetch(None, group, member, epoch, [place] if epoch == 0 else [], wait_ms=1_000)
            epoch += 1
            for row in rows:
                delivered.update(offset for first, last, _ in row[5] for offset in range(first, last + 1))
        self.note(f"fetch all {label}", sorted(delivered))
        return epoch

    def fetch_some(self, label: str, group: str, member: str, epoch: int, places: Sequence[Place] = ()) -> int:
        """Fetch until something is delivered, which is compared; the epoch that follows.

        Kafka answers some fetches that wait while records are given back with nothing, when the machine is busy.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.fetch(None, group, member, epoch, places, wait_ms=5000)
            epoch, places = epoch + 1, ()
            if answer[1] or time.monotonic() > deadline:
                self.note(f"fetch {label}", answer)
                return epoch

    def _asked(self, peer: str, request: ApiMessage, version: int) -> Any:
        try:
            return self.peer(peer).ask(request, version)
        except ConnectionError:
            self.hang_up(peer)
            return None

    def _fetched(self, response: Any, given: dict[Place, Acks]) -> object:
        """Rows that say nothing are left out: Kafka gives some, some times."""
        if response is None:
            return "the connection was closed"
        partitions = sorted(
            (
                self._short(topic.topic_id),
                each.partition_index,
                each.error_code,
                each.acknowledge_error_code,
                [
                    (batch.base_offset, batch.last_offset)
                    for batch in walk_batches(bytes(each.records or b""), check_crc=True)[0]
                ],
                _joined([(run.first_offset, run.last_offset, run.delivery_count) for run in each.acquired_records]),
            )
            for topic in response.responses
            for each in topic.partitions
            if (self._short(topic.topic_id), each.partition_index) in given or each.error_code or each.records
        )
        head = response.error_code, response.acquisition_lock_timeout_ms
        return head, partitions

    def acknowledge(
        self,
        label: str | None,
        group: str | None,
        member: str | None,
        epoch: int,
        acks: dict[Place, Acks],
        *,
        peer: str = "a",
        renews: bool = False,
        version: int = 2,
    ) -> Any:
        topics: dict[str, list[share_acknowledge.AcknowledgePartition]] = {}
        for (short, partition), given in acks.items():
            batches = tuple(
                share_acknowledge.AcknowledgementBatch(first, last, tuple(types)) for first, last, types in given
            )
            topics.setdefault(short, []).append(share_acknowledge.AcknowledgePartition(partition, batches))
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=self._group(group),
            member_id=member,
            share_session_epoch=epoch,
            is_renew_ack=renews,
            topics=tuple(
                share_acknowledge.AcknowledgeTopic(self._ids[short], tuple(partitions))
                for short, partitions in topics.items()
            ),
        )
        response = self._asked(peer, request, version)
        answer: object = "the connection was closed"
        if response is not None:
            head = response.error_code, response.acquisition_lock_timeout_ms
            answer = (
                head,
                sorted(
                    (self._short(topic.topic_id), each.partition_index, each.error_code)
                    for topic in response.responses
                    for each in topic.partitions
                ),
            )
        return answer if label is None else self.note(f"acknowledge {label}", answer)

    def settled(self, short: str, first: int, last: int, *types: int) -> dict[Place, Acks]:
        """One batch of acknowledgements of partition 0."""
        return {(short, 0): [(first, last, types)]}

    # --- offsets ------------------------------------------------------------------------------------------------

    def offsets(
        self, label: str, group: str, topics: Sequence[tuple[str, Sequence[int]]] | None, *, version: int = 1
    ) -> None:
        asked = None
        if topics is not None:
            asked = tuple(
                describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(self.name(short), tuple(partitions))
                for short, partitions in topics
            )
        one = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(self._group(group), asked)
        request = describe_share_group_offsets.DescribeShareGroupOffsetsRequest((one,))
        made = {self.name(short) for short in self._ids}

        def codes(response: Any) -> Iterator[int]:
            for each in response.groups:
                yield each.error_code
                for topic in each.topics:
                    # Kafka's coordinator learns of a topic later than its broker.
                    if topic.topic_name in made and not topic.topic_id.int:
                        yield UNKNOWN_TOPIC_OR_PARTITION

        response = self.until(lambda: self.peer().ask(request, version), codes)
        answer = [
            (
                each.group_id,
                each.error_code,
                each.error_message,
                sorted(
                    (
                        topic.topic_name,
                        self._short(topic.topic_id),
                        sorted(
                            (row.partition_index, row.start_offset, row.lag, row.error_code, row.error_message)
                            for row in topic.partitions
                        ),
                    )
                    for topic in each.topics
                ),
            )
            for each in response.groups
        ]
        self.note(f"offsets {label}", self._plain(answer))

    def alter(self, label: str, group: str, *starts: tuple[str, int, int]) -> None:
        topics: dict[str, list[Any]] = {}
        for short, partition, offset in starts:
            row = alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(partition, offset)
            topics.setdefault(short, []).append(row)
        request = alter_share_group_offsets.AlterShareGroupOffsetsRequest(
            self._group(group),
            tuple(
                alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(self.name(short), tuple(rows))
                for short, rows in topics.items()
            ),
        )
        response = self.until(lambda: self.peer().ask(request, 0), lambda answer: [answer.error_code])
        answer = (
            response.error_code,
            response.error_message,
            sorted(
                (
                    topic.topic_name,
                    self._short(topic.topic_id),
                    sorted((row.partition_index, row.error_code, row.error_message) for row in topic.partitions),
                )
                for topic in response.responses
            ),
        )
        self.note(f"alter {label}", self._plain(answer))

    def delete_offsets(self, label: str, group: str, *shorts: str) -> None:
        request = delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
            self._group(group),
            tuple(delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(self.name(short)) for short in shorts),
        )
        response = self.until(lambda: self.peer().ask(request, 0), lambda answer: [answer.error_code])
        answer = (
            response.error_code,
            response.error_message,
            sorted(
                (topic.topic_name, self._short(topic.topic_id), topic.error_code, topic.error_message)
                for topic in response.responses
            ),
        )
        self.note(f"delete offsets {label}", self._plain(answer))

    def delete_group(self, label: str, group: str) -> None:
        response = self.peer().ask(delete_groups.DeleteGroupsRequest((self._group(group),)), 2)
        self.note(f"delete group {label}", [each.error_code for each in response.results])

    def listed(self, label: str) -> None:
        response = self.peer().ask(list_groups.ListGroupsRequest(types_filter=("share",)), 5)
        rows = sorted(
            (self._plain(each.group_id), each.protocol_type, each.group_state, each.group_type)
            for each in response.groups
            if self.tag in each.group_id
        )
        self.note(f"list {label}", rows)

    # --- names --------------------------------------------------------------------------------------------------

    def _group(self, group: str | None) -> Any:
        return group if not group else self.name(group)

    def _short(self, topic_id: UUID) -> str:
        return next((short for short, known in self._ids.items() if known == topic_id), str(topic_id))

    def _plain(self, value: Any) -> Any:
        """Without what differs from run to run."""
        if isinstance(value, str):
            value = value.replace(f"-{self.tag}", "")
            for short, topic_id in self._ids.items():
                value = value.replace(str(topic_id), short)
            return value
        if isinstance(value, tuple):
            return tuple(map(self._plain, value))
        return [self._plain(each) for each in value] if isinstance(value, list) else value


def _joined(runs: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Neighbours that were delivered as often are one: a broker may say them in pieces."""
    found: list[tuple[int, int, int]] = []
    for first, last, count in runs:
        if found and found[-1][1] + 1 == first and found[-1][2] == count:
            found[-1] = found[-1][0], last, count
        else:
            found.append((first, last, count))
    return found


def new_tag() -> str:
    """Of a run."""
    return uuid4().hex[:8]
