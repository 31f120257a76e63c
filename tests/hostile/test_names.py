"""Names that cannot be: refused with Kafka's error where it has one, and never more than one line in the log."""

from __future__ import annotations

from uuid import uuid4

import pytest
from msgspec.structs import replace

from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.sync_group import SyncGroupRequest
from tests.broker_process import LOG_LINE, BrokerProcess
from tests.hostile.raw_peer import RawPeer, framed, header

FORGED = "g\nottla: a forged line\r\x1b[2J\u202e\u2028"
ILLEGAL_TOPICS = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\\b",
    "a b",
    "a\0",
    "a\nb",
    "\x1b[31m",
    "caf\u00e9",
    "x" * 250,
    "x" * 32_000,
]
LONGEST_STRING = 32_767


@pytest.mark.parametrize("name", ILLEGAL_TOPICS, ids=lambda name: ascii(name)[:20])
def test_topics_of_illegal_names_are_neither_created_nor_found(broker: BrokerProcess, peer: RawPeer, name: str):
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    (created,) = peer.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7).topics
    assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    wanted = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=True)
    (found,) = peer.ask(wanted, 9).topics
    assert found.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert {path.name for path in broker.data_dir.parent.iterdir()} <= {"data", "data.stderr"}


def join(group: str, *, member: str = "", instance: str | None = None, protocol: str = "range", version: int = 9):
    return JoinGroupRequest(
        group_id=group,
        member_id=member,
        group_instance_id=instance,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name=protocol, metadata=b""),),
    )


@pytest.fixture
def member(broker: BrokerProcess, peer: RawPeer) -> RawPeer:
    """A connection to a broker that coordinates groups already."""
    while peer.ask(FindCoordinatorRequest(coordinator_keys=("g",)), 6).coordinators[0].error_code:
        pass
    while peer.ask(HeartbeatRequest(group_id="g", member_id="m"), 4).error_code in (14, 15, 16):
        pass
    return peer


@pytest.mark.parametrize("group", ["", "x" * 1025, "x" * LONGEST_STRING], ids=["empty", "long", "longest"])
def test_groups_of_impossible_names_are_refused(member: RawPeer, group: str):
    for request, version in (
        (join(group), 9),
        (HeartbeatRequest(group_id=group, member_id="m"), 4),
        (SyncGroupRequest(group_id=group, member_id="m", protocol_type="consumer", protocol_name="range"), 5),
        (LeaveGroupRequest(group_id=group, members=(MemberIdentity(member_id="m"),)), 5),
    ):
        assert member.ask(request, version).error_code == ErrorCode.INVALID_GROUP_ID, request


@pytest.mark.parametrize(
    "request_",
    [join("g", instance="x" * 2_000), join("g", protocol="x" * 2_000)],
    ids=["instance id", "protocol name"],
)
def test_members_that_would_be_kept_with_giant_names_are_refused(member: RawPeer, request_: JoinGroupRequest):
    assert member.ask(request_, 9).error_code == ErrorCode.INVALID_REQUEST


def test_a_giant_member_id_is_unknown(member: RawPeer):
    assert member.ask(join("g", member="x" * LONGEST_STRING), 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_giant_client_id_becomes_a_short_member_id(member: RawPeer):
    answer = member.ask(join(f"g-{uuid4()}"), 9, client_id="c" * LONGEST_STRING)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert len(answer.member_id) < 300


def test_a_giant_group_is_not_found(member: RawPeer):
    (group,) = member.ask(DescribeGroupsRequest(groups=("x" * LONGEST_STRING,)), 6).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (group,) = member.ask(ConsumerGroupDescribeRequest(group_ids=("x" * LONGEST_STRING,)), 1).groups
    assert group.error_code == ErrorCode.INVALID_GROUP_ID


def consumer(group: str, **values: object) -> ConsumerGroupHeartbeatRequest:
    """A first request of a member of a consumer group."""
    first = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    return replace(first, **values)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": "x" * LONGEST_STRING}, ErrorCode.INVALID_GROUP_ID),
        ({"member_id": "x" * LONGEST_STRING}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": "x" * LONGEST_STRING}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": "x" * LONGEST_STRING}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "x" * LONGEST_STRING}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_names": tuple(f"{each:0249}" for each in range(3_000))}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_regex": "x" * LONGEST_STRING}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "((a{1000}){1000}){1000}"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(" * 4_000}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": FORGED + "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": -(2**31)}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 2**31 - 1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_members_of_consumer_groups_that_cannot_be_are_refused(member: RawPeer, values: dict[str, object], error):
    assert member.ask(consumer(f"g-{uuid4()}", **values), 1).error_code == error
    assert member.is_served()


def test_an_expression_that_others_never_come_back_from_is_matched_at_once(member: RawPeer):
    names = ("a" * 200, "b")
    topics = tuple(CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names)
    member.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
    for regex in ("(a+)+b?=", "(a|aa)*=", "(.*.*.*.*.*)="):
        request = consumer(f"g-{uuid4()}", subscribed_topic_names=None, subscribed_topic_regex=regex)
        answer = member.ask(request, 1)
        assert (answer.error_code, answer.assignment.topic_partitions) == (0, ())


@pytest.mark.parametrize("api_key", [0, 3, 9, 11, 19, 32])
def test_a_name_that_is_not_utf8_closes_the_connection(broker: BrokerProcess, peer: RawPeer, api_key: int):
    with RawPeer(broker.port) as stranger:
        stranger.send(framed(header(api_key, 3, b"\xc3\x28")))
        assert stranger.closed_with() == b""
    assert peer.is_served()


def test_whatever_a_stranger_calls_itself_the_log_has_only_lines_of_the_broker(quiet_broker: BrokerProcess):
    with RawPeer(quiet_broker.port) as peer:
        for request, version in (
            (CreateTopicsRequest(topics=(CreatableTopic(name=FORGED, num_partitions=1),), timeout_ms=1_000), 7),
            (MetadataRequest(topics=(MetadataRequestTopic(name=FORGED),)), 9),
            (HeartbeatRequest(group_id=FORGED * 200, member_id=FORGED), 4),
            (
                CreateTopicsRequest(
                    topics=(
                        CreatableTopic(
                            name="t",
                            num_partitions=1,
                            replication_factor=1,
                            configs=(CreatableTopicConfig(name=FORGED, value=FORGED),),
                        ),
                    )
                ),
                7,
            ),
        ):
            peer.ask(request, version, client_id=FORGED)
    lines = quiet_broker.stopped_log()
    assert all(LOG_LINE.match(line) and line.isprintable() for line in lines)
    assert len(lines) == 4


@pytest.mark.parametrize("replica_id", [0, 1, 2**31 - 1])
def test_who_calls_itself_a_replica_reads_nothing(broker: BrokerProcess, peer: RawPeer, topic: str, replica_id: int):
    wanted = (FetchTopic(topic=topic, partitions=(FetchPartition(partition_max_bytes=1 << 20),)),)
    for version, request in (
        (4, FetchRequest(replica_id=replica_id, topics=wanted)),
        (12, FetchRequest(replica_id=replica_id, topics=wanted)),
        (18, FetchRequest(replica_state=ReplicaState(replica_id=replica_id))),
    ):
        answer = peer.ask(request, version)
        partitions = [partition for each in answer.responses for partition in each.partitions]
        assert not any(partition.records for partition in partitions)
        codes = {partition.error_code for partition in partitions} | ({answer.error_code} if version >= 7 else set())
        assert codes == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
