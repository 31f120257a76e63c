"""Members of share groups that mean harm: nothing of another member is settled, nothing is kept, others are served."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.protocol.messages import share_acknowledge as ack
from ottla.protocol.messages import share_fetch as fetch
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.hostile.conftest import create_topic
from tests.hostile.raw_peer import RawPeer

COUNT = 10
GROUP_RESOURCE = 32
ACCEPT, RELEASE = 1, 2
RETRIABLE = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


class Group:
    """A share group whose member `good` has taken all records of a topic: ten."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.name = f"hostile-{uuid4().hex[:8]}"
        self.good = RawPeer(broker.port)
        create_topic(broker.port, self.name)
        self.topic_id = self._topic_id()
        settings = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "60000"}
        resource = AlterConfigsResource(
            GROUP_RESOURCE, self.name, tuple(AlterableConfig(name, 0, value) for name, value in settings.items())
        )
        assert self.good.ask(IncrementalAlterConfigsRequest((resource,)), 1).responses[0].error_code == 0
        records = bytes(build_batch([(time.time_ns() // 1_000_000, None, b"v", ())] * COUNT))
        data = PartitionProduceData(index=0, records=records)
        produced = ProduceRequest(
            acks=-1, timeout_ms=60_000, topic_data=(TopicProduceData(self.name, partition_data=(data,)),)
        )
        assert self.good.ask(produced, 9).responses[0].partition_responses[0].error_code == 0
        self.join("good")
        self.epoch = 0
        wait_until(lambda: self._take_all() == COUNT, "the good member to have all records")

    def _topic_id(self) -> UUID:
        (topic,) = self.good.ask(MetadataRequest(topics=(MetadataRequestTopic(name=self.name),)), 12).topics
        return topic.topic_id

    def _take_all(self) -> int:
        """How many records a fetch of the good member took."""
        answer = self.good.ask(self.fetching("good", self.epoch, max_wait_ms=1_000), 2)
        assert answer.error_code == 0, answer
        self.epoch += 1
        return sum(
            each.last_offset - each.first_offset + 1
            for topic in answer.responses
            for partition in topic.partitions
            for each in partition.acquired_records
        )

    def join(self, member: str) -> None:
        wanted = ShareGroupHeartbeatRequest(self.name, member, 0, None, (self.name,))
        finding = FindCoordinatorRequest(key_type=0, coordinator_keys=(self.name,))
        wait_until(lambda: self.good.ask(finding, 6).coordinators[0].error_code == 0, "a coordinator")
        wait_until(lambda: self.good.ask(wanted, 1).error_code not in RETRIABLE, "the coordinator to have loaded")

    def fetching(self, member: str, epoch: int, **fields: Any) -> fetch.ShareFetchRequest:
        said: dict[str, Any] = {"max_records": 100, "batch_size": 100, "min_bytes": 1, **fields}
        topics = () if epoch else (fetch.FetchTopic(self.topic_id, (fetch.FetchPartition(0),)),)
        said.setdefault("topics", topics)
        return fetch.ShareFetchRequest(self.name, member, epoch, **said)

    def settling(self, member: str, epoch: int, *batches: tuple[int, int, list[int]]) -> ack.ShareAcknowledgeRequest:
        said = tuple(ack.AcknowledgementBatch(first, last, tuple(types)) for first, last, types in batches)
        topic = ack.AcknowledgeTopic(self.topic_id, (ack.AcknowledgePartition(0, said),))
        return ack.ShareAcknowledgeRequest(self.name, member, epoch, topics=(topic,))

    def accept_all(self) -> int:
        """The good member accepts what it has: the error code of that."""
        answer = self.good.ask(self.settling("good", self.epoch, (0, COUNT - 1, [ACCEPT])), 1)
        self.epoch += 1
        assert answer.error_code == 0
        return int(answer.responses[0].partitions[0].error_code)


@pytest.fixture
def group(broker: BrokerProcess) -> Any:
    made = Group(broker)
    yield made
    made.good.close()


BATCHES: dict[str, list[tuple[int, int, list[int]]]] = {
    "backwards": [(5, 2, [ACCEPT])],
    "overlapping": [(0, 5, [ACCEPT]), (3, 7, [ACCEPT])],
    "not in order": [(5, 6, [ACCEPT]), (0, 1, [ACCEPT])],
    "negative": [(-1, 3, [ACCEPT])],
    "to the end of all numbers": [(0, INT64_MAX, [ACCEPT])],
    "beyond the log": [(1_000_000, 1_000_010, [ACCEPT])],
    "of no type": [(0, 1, [])],
    "of unknown types": [(0, 1, [17])],
    "of negative types": [(0, 1, [-3])],
    "with types for others": [(0, 1, [ACCEPT] * 50)],
    "by the ten thousand": [(number, number, [ACCEPT]) for number in range(10_000)],
    "the same by the thousand": [(0, 9, [RELEASE])] * 1_000,
}


@pytest.mark.parametrize("batches", BATCHES.values(), ids=list(BATCHES))
def test_nobody_settles_what_another_has(group: Group, batches: list[tuple[int, int, list[int]]]) -> None:
    group.join("bad")
    with RawPeer(int(group.good.sock.getpeername()[1])) as bad:
        assert bad.ask(group.fetching("bad", 0), 2).error_code == 0
        answer = bad.ask(group.settling("bad", 1, *batches), 1)
        assert answer.error_code or answer.responses[0].partitions[0].error_code
        assert bad.is_served()
    assert group.accept_all() == 0


@pytest.mark.parametrize("epoch", [0, 7, INT32_MAX, -2])
def test_a_session_is_not_gone_on_with_by_who_does_not_know_its_epoch(group: Group, epoch: int) -> None:
    with RawPeer(int(group.good.sock.getpeername()[1])) as bad:
        answer = bad.ask(group.settling("good", epoch, (0, COUNT - 1, [RELEASE])), 1)
        assert answer.error_code
        assert bad.is_served()
    assert group.accept_all() == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"max_records": -5},
        {"max_records": INT32_MAX, "batch_size": INT32_MAX, "max_bytes": INT32_MAX},
        {"batch_size": -1},
        {"max_bytes": -1, "min_bytes": INT32_MAX, "max_wait_ms": -1},
        {"topics": tuple(fetch.FetchTopic(UUID(int=number), (fetch.FetchPartition(0),)) for number in range(5_000))},
        {"topics": (fetch.FetchTopic(UUID(int=1), tuple(map(fetch.FetchPartition, range(5_000)))),)},
        {"topics": (fetch.FetchTopic(UUID(int=1), (fetch.FetchPartition(-1), fetch.FetchPartition(INT32_MAX))),)},
    ],
    ids=["negative records", "all there is", "negative size", "negative bytes", "topics", "partitions", "numbers"],
)
def test_a_fetch_that_asks_for_nonsense_is_answered_and_takes_nothing(group: Group, fields: dict[str, Any]) -> None:
    group.join("bad")
    with RawPeer(int(group.good.sock.getpeername()[1])) as bad:
        answer = bad.ask(group.fetching("bad", 0, **fields), 2)
        taken = [each for topic in answer.responses for part in topic.partitions for each in part.acquired_records]
        assert taken == []
        assert bad.is_served()
    assert group.accept_all() == 0


def test_names_that_nobody_has_make_no_groups(group: Group, broker: BrokerProcess) -> None:
    with RawPeer(broker.port) as bad:
        for name in ("x" * 30_000, "a\nb", "nobody"):
            request = fetch.ShareFetchRequest(name, "m", 0, max_records=1, batch_size=1)
            bad.ask(request, 2)
            bad.ask(ack.ShareAcknowledgeRequest(name, "m", 1), 1)
        listed = {each.group_id for each in bad.ask(ListGroupsRequest(), 5).groups}
    assert not listed & {"x" * 30_000, "a\nb", "nobody"}
    assert group.accept_all() == 0
