"""Share groups on a running broker, over the wire: each record to one member, until it is done (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.main import run as run_command
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages import alter_share_group_offsets as alter
from ottla.protocol.messages import describe_share_group_offsets as offsets
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker_process import BrokerProcess
from tests.hostile.raw_peer import RawPeer
from tests.system.share_member import ShareMember

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
WAIT_MS = 25_000
"""For what has to come. Less than the 30 s of a lock: what comes when one ends has not been released."""
NONE, STATE, EPOCH = (
    int(ErrorCode.NONE),
    int(ErrorCode.INVALID_RECORD_STATE),
    int(ErrorCode.INVALID_SHARE_SESSION_EPOCH),
)


@pytest.fixture
def name() -> str:
    return f"share-{uuid4().hex[:8]}"


def prepare(broker: BrokerProcess, name: str, partitions: int = 1, **settings: str) -> None:
    """A topic, and a group of the same name that begins at the beginning."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions)]).values():
        future.result(60)
    given = {"share.auto.offset.reset": "earliest", **{key.replace("_", "."): value for key, value in settings.items()}}
    pairs = [f"{key}={value}" for key, value in given.items()]
    assert run_command(["config", "set", "--bootstrap", broker.bootstrap, "--group", name, *pairs]) == 0


def produce(broker: BrokerProcess, topic: str, *values: str, transaction: str | None = None) -> None:
    """Records in partition 0, one batch for each call."""
    settings: dict[str, object] = {"bootstrap.servers": broker.bootstrap, "linger.ms": 50_000}
    if transaction is not None:
        settings["transactional.id"] = f"{topic}-{transaction}"
    producer = Producer(settings)
    if transaction is not None:
        producer.init_transactions(60)
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(60)
    if transaction == "commit":
        producer.commit_transaction(60)
    elif transaction == "abort":
        producer.abort_transaction(60)


def test_a_record_goes_to_one_member_until_it_is_accepted(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name)
    produce(broker, name, "a", "b", "c")
    one, other = (ShareMember(broker.port, name, name).join(1) for _ in range(2))
    got = one.fetch(max_wait_ms=WAIT_MS)
    assert got == {0: [(0, 2, 1)]}
    assert other.fetch(max_wait_ms=0) == {}
    assert one.settle((0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT)) == NONE
    assert other.fetch(max_wait_ms=WAIT_MS) == {0: [(1, 1, 2)]}
    assert one.settle((1, 1, ACCEPT)) == STATE, "another member has it"
    assert other.settle((1, 1, ACCEPT)) == NONE
    assert other.settle((1, 1, ACCEPT)) == NONE, "what lies below the start of the group is settled"
    produce(broker, name, "d")
    assert one.values(max_wait_ms=WAIT_MS) == [b"d"]


def test_a_consumer_does_not_take_the_name_of_a_share_group_without_members(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name)
    produce(broker, name, "a", "b")
    member = ShareMember(broker.port, name, name).join(1)
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 1, 1)]}
    assert member.settle((0, 1, ACCEPT)) == NONE
    assert member.heartbeat(-1).error_code == NONE
    for protocol, code in (("classic", 1), ("consumer", 4)):
        flags = ["--group", name, "--exit", "-X", f"group.protocol={protocol}"]
        assert run_command(["consume", "--bootstrap", broker.bootstrap, name, *flags]) == code
    assert start_of(broker, name) == 2


def test_what_a_member_holds_is_released_when_its_session_or_connection_ends(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name)
    produce(broker, name, "a")
    one, other = (ShareMember(broker.port, name, name).join(1) for _ in range(2))
    assert one.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 0, 1)]}
    one.fetch_raw(session_epoch=-1)
    assert other.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 0, 2)]}
    other.peer.sock.close()
    third = ShareMember(broker.port, name, name).join(1)
    assert third.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 0, 3)]}


def test_a_record_that_is_released_too_often_is_archived(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name, share_delivery_count_limit="2")
    produce(broker, name, "poison", "next")
    member = ShareMember(broker.port, name, name).join(1)
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 1, 1)]}
    assert member.settle((0, 0, RELEASE), (1, 1, ACCEPT)) == NONE
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 0, 2)]}
    assert member.settle((0, 0, RELEASE)) == NONE
    assert member.fetch(max_wait_ms=0) == {}
    assert start_of(broker, name) == 2


def start_of(broker: BrokerProcess, group: str) -> int:
    """The stored start offset of partition 0."""
    asked = offsets.DescribeShareGroupOffsetsRequestGroup(group, None)
    member = ShareMember(broker.port, group, group)
    (found,) = member.peer.ask(offsets.DescribeShareGroupOffsetsRequest((asked,)), 1).groups
    assert found.error_code == NONE
    (topic,) = found.topics
    return int(topic.partitions[0].start_offset)


def test_at_most_so_many_records_are_delivered_where_the_member_asks_for_it(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name)
    produce(broker, name, *(str(number) for number in range(10)))
    member = ShareMember(broker.port, name, name).join(1)
    assert member.values(max_wait_ms=WAIT_MS, max_records=3, mode=1) == [b"0", b"1", b"2"]
    assert member.fetch(max_wait_ms=WAIT_MS, max_records=2, mode=1) == {0: [(3, 4, 1)]}
    assert member.fetch(max_wait_ms=WAIT_MS, max_records=1) == {0: [(5, 9, 1)]}, "whole batches by default"


def test_a_group_with_too_many_unfinished_records_gets_only_what_was_released(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name, share_partition_max_record_locks="100")
    for first in range(0, 150, 50):
        produce(broker, name, *(str(number) for number in range(first, first + 50)))
    member = ShareMember(broker.port, name, name).join(1)
    got: list[tuple[int, int, int]] = []
    while not got or got[-1][1] < 99:
        got += member.fetch(max_wait_ms=WAIT_MS)[0]
    assert member.fetch(max_wait_ms=0) == {}
    assert member.settle((99, 99, RELEASE)) == NONE
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(99, 99, 2)]}
    assert member.settle((0, 9, ACCEPT)) == NONE
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(100, 109, 1)]}


def test_aborted_records_and_markers_are_never_delivered(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name, share_isolation_level="read_committed")
    produce(broker, name, "first")
    produce(broker, name, "gone", transaction="abort")
    produce(broker, name, "kept", transaction="commit")
    produce(broker, name, "last")
    member = ShareMember(broker.port, name, name).join(1)
    values: list[bytes | None] = []
    while len(values) < 3:
        values += member.values(max_wait_ms=WAIT_MS)
    assert values == [b"first", b"kept", b"last"]
    assert member.settle((0, 0, ACCEPT), (3, 3, ACCEPT), (5, 5, ACCEPT)) == NONE
    assert start_of(broker, name) == 6


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_what_was_accepted_stays_so_over_a_restart(
    new_broker: Callable[..., BrokerProcess], name: str, how: str
) -> None:
    broker = new_broker()
    broker.start()
    prepare(broker, name)
    produce(broker, name, "a", "b", "c", "d")
    member = ShareMember(broker.port, name, name).join(1)
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 3, 1)]}
    assert member.settle((1, 1, ACCEPT), (2, 2, RELEASE)) == NONE
    getattr(broker, how)()
    broker.start()
    again = ShareMember(broker.port, name, name).join(1)
    assert sorted(again.fetch(max_wait_ms=WAIT_MS)[0])[0][:2] == (0, 0)
    got = {0, *(o for first, last, _ in again.fetch(max_wait_ms=0).get(0, []) for o in range(first, last + 1))}
    assert 1 not in got


def test_a_session_is_the_members_on_any_connection_and_goes_on_in_order(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name)
    produce(broker, name, "a")
    member = ShareMember(broker.port, name, name).join(1)
    assert member.fetch_raw(session_epoch=5).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 0, 1)]}
    assert member.fetch_raw(session_epoch=member.session_epoch + 5).error_code == EPOCH
    assert member.fetch_raw(session_epoch=member.session_epoch + 1).error_code == EPOCH
    stranger = ShareMember(broker.port, name, name)
    stranger.member_id, stranger.assigned = member.member_id, member.assigned
    assert stranger.fetch_raw(session_epoch=member.session_epoch).error_code == NONE
    member.session_epoch += 1
    assert stranger.settle((0, 0, ACCEPT), session_epoch=0) == EPOCH
    assert member.settle((5, 9, ACCEPT)) == ErrorCode.INVALID_REQUEST, "never delivered"
    assert member.settle((3, 2, ACCEPT)) == ErrorCode.INVALID_REQUEST
    assert member.settle((0, 0, 9)) == ErrorCode.INVALID_REQUEST
    assert member.settle((0, 0, ACCEPT), (0, 0, ACCEPT)) == STATE
    assert member.settle((0, 0, RENEW)) == NONE
    assert member.settle((0, 0, ACCEPT)) == NONE


def test_a_group_is_described_and_deleted_with_its_state(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name, 2)
    produce(broker, name, "a")
    member = ShareMember(broker.port, name, name).join(2)
    assert member.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 0, 1)]}
    assert member.settle((0, 0, ACCEPT)) == NONE
    (group,) = member.peer.ask(ShareGroupDescribeRequest((name,)), 1).groups
    assert (group.group_state, group.assignor_name, len(group.members)) == ("Stable", "simple", 1)
    (topic,) = group.members[0].assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == (name, (0, 1))
    delete = DeleteGroupsRequest((name,))
    assert member.peer.ask(delete, 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    member.heartbeat(-1)
    member.fetch_raw(session_epoch=-1)
    assert member.peer.ask(delete, 2).results[0].error_code == NONE
    again = ShareMember(broker.port, name, name).join(2)
    assert again.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 0, 1)]}, "a new group of the name begins anew"


def test_names_of_groups_are_of_one_kind(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name)
    ShareMember(broker.port, name, name).join(1)
    peer = ShareMember(broker.port, name, name).peer
    listed = {each.group_id: (each.group_type, each.protocol_type) for each in peer.ask(ListGroupsRequest(), 5).groups}
    assert listed[name] == ("share", "share")
    shares = peer.ask(ListGroupsRequest((), ("share",)), 5).groups
    assert name in {each.group_id for each in shares}
    assert {each.group_type for each in shares} == {"share"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    consumers = admin.list_consumer_groups().result(60).valid
    assert name not in {each.group_id for each in consumers}
    unknown = ShareMember(broker.port, f"{name}-c", name)
    assert unknown.heartbeat(5).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_that_waits_gets_what_another_releases_or_makes_room_for(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name, share_partition_max_record_locks="100")
    produce(broker, name, *(str(number) for number in range(100)))
    one, other = (ShareMember(broker.port, name, name).join(1) for _ in range(2))
    (got,) = one.fetch(max_wait_ms=WAIT_MS).values()
    assert other.fetch(max_wait_ms=0) == {}
    later = other.begin_fetch()
    assert one.settle((0, 0, RELEASE)) == NONE
    assert later() == {0: [(0, 0, 2)]}
    produce(broker, name, "more")
    later = other.begin_fetch()
    assert one.settle(*((max(first, 1), last, ACCEPT) for first, last, _ in got)) == NONE
    assert later() == {0: [(100, 100, 1)]}


def test_a_fetch_of_a_session_that_is_over_delivers_nothing(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name)
    gone = ShareMember(broker.port, name, name).join(1)
    assert gone.fetch(max_wait_ms=0) == {}
    later = gone.begin_fetch()
    again = ShareMember(broker.port, name, name)
    again.member_id, again.assigned = gone.member_id, gone.assigned
    assert again.fetch(max_wait_ms=0) == {}
    assert later() == {}, "another session has taken its place"
    produce(broker, name, "a")
    assert again.fetch(max_wait_ms=WAIT_MS) == {0: [(0, 0, 1)]}


def test_nothing_is_delivered_to_a_group_that_does_not_exist(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name)
    produce(broker, name, "a")
    member = ShareMember(broker.port, name, name).join(1)
    member.group = f"{name}-none"
    (topic,) = member.fetch_raw().responses
    assert [each.error_code for each in topic.partitions] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    for bad in ("", "m" * 37):
        member.member_id = bad
        assert member.fetch_raw(session_epoch=0).error_code == ErrorCode.INVALID_REQUEST


def test_the_offsets_of_a_group_are_set_before_it_has_members_and_deleted_once(
    broker: BrokerProcess, name: str
) -> None:
    prepare(broker, name)
    produce(broker, name, "a", "b", "c")
    member = ShareMember(broker.port, name, name)
    asked = offsets.DescribeShareGroupOffsetsRequestGroup(name, None)
    (found,) = member.peer.ask(offsets.DescribeShareGroupOffsetsRequest((asked,)), 1).groups
    assert (found.error_code, found.topics) == (NONE, ()), "as Kafka says of a group that does not exist"
    partition = alter.AlterShareGroupOffsetsRequestPartition(0, 2)
    topic = alter.AlterShareGroupOffsetsRequestTopic(name, (partition,))
    answer = member.peer.ask(alter.AlterShareGroupOffsetsRequest(name, (topic,)), 0)
    assert answer.error_code == NONE
    assert [each.error_code for each in answer.responses[0].partitions] == [NONE]
    assert member.join(1).fetch(max_wait_ms=WAIT_MS) == {0: [(2, 2, 1)]}
    member.heartbeat(-1)
    delete = DeleteShareGroupOffsetsRequest(name, (DeleteShareGroupOffsetsRequestTopic(name),))
    codes = [member.peer.ask(delete, 0).responses[0].error_code for _ in range(2)]
    assert codes == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_the_first_member_begins_epoch_2_and_loses_at_once_what_it_no_longer_asks_for(
    broker: BrokerProcess, name: str
) -> None:
    prepare(broker, name)
    with RawPeer(broker.port) as peer:
        assert peer.ask(FindCoordinatorRequest("", 0, (name,)), 4).coordinators[0].error_code == NONE
        joined = peer.ask(ShareGroupHeartbeatRequest(f"{name}-2", "a", 0, None, ("no-such-topic",)), 1)
        assert (joined.error_code, joined.member_epoch) == (NONE, 2)
    member = ShareMember(broker.port, name, name).join(1)
    answer = member.peer.ask(ShareGroupHeartbeatRequest(name, member.member_id, member.epoch, None, ()), 1)
    assert (answer.error_code, answer.assignment.topic_partitions) == (NONE, ())


def test_a_member_that_missed_an_answer_is_told_again_what_is_assigned_to_it(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name)
    member = ShareMember(broker.port, name, name).join(1)
    for names, told in ((None, None), ((name,), member.assigned)):
        answer = member.peer.ask(ShareGroupHeartbeatRequest(name, member.member_id, member.epoch, None, names), 1)
        assert answer.error_code == NONE
        assigned = answer.assignment and {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        assert assigned == told


def test_what_no_fetch_can_mean_is_refused_and_what_asks_for_nothing_gets_nothing(
    broker: BrokerProcess, name: str
) -> None:
    prepare(broker, name)
    produce(broker, name, "a", "b")
    member = ShareMember(broker.port, name, name).join(1)
    (topic_id,) = member.assigned
    topics = (FetchTopic(topic_id, (FetchPartition(0),)),)

    def ask(epoch: int, **more: Any) -> ShareFetchResponse:
        given: dict[str, Any] = {"max_records": 10, "batch_size": 10, "max_bytes": 1 << 20, "topics": topics, **more}
        answer: ShareFetchResponse = member.peer.ask(ShareFetchRequest(name, member.member_id, epoch, **given), 2)
        return answer

    assert ask(0, share_acquire_mode=2).error_code == ErrorCode.INVALID_REQUEST
    assert ask(0, max_records=0, forgotten_topics_data=(ForgottenTopic(topic_id, (0,)),)).responses == ()
    assert ask(1, is_renew_ack=True).error_code == ErrorCode.INVALID_REQUEST
    assert ask(1, max_bytes=0).responses == ()
    fetched = ask(2, topics=(), max_wait_ms=60_000)
    assert [(each.first_offset, each.last_offset) for each in fetched.responses[0].partitions[0].acquired_records] == [
        (0, 1)
    ]
    # Batches may touch, and say nothing of records that do not exist yet.
    batches = (AcknowledgementBatch(-5, 0, (ACCEPT,)), AcknowledgementBatch(1, 1, (ACCEPT,)))
    acknowledged = ask(3, topics=(FetchTopic(topic_id, (FetchPartition(0, batches),)),))
    assert acknowledged.responses[0].partitions[0].acknowledge_error_code == NONE


def test_lag_leaves_out_what_is_done_behind_the_start(broker: BrokerProcess, name: str) -> None:
    prepare(broker, name)
    produce(broker, name, "a", "b", "c", "d")
    member = ShareMember(broker.port, name, name).join(1)
    assert member.fetch(max_wait_ms=WAIT_MS)
    assert member.settle((1, 2, ACCEPT)) == NONE
    topic = offsets.DescribeShareGroupOffsetsRequestTopic(name, (0,))
    asked = offsets.DescribeShareGroupOffsetsRequestGroup(name, (topic,))
    answer = member.peer.ask(offsets.DescribeShareGroupOffsetsRequest((asked,)), 1)
    row = answer.groups[0].topics[0].partitions[0]
    assert (row.start_offset, row.lag) == (0, 2)
