"""The consumer reads every record once and in order, moves with leaders and groups, and says what it cannot read."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions, OffsetReset
from ottla.client.consuming.offsets import OffsetAt
from ottla.client.errors import BrokerError, ClientError, InvalidOptionError, OffsetOutOfRangeError, TopicNotFoundError
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import assign_offsets, walk_batches
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.unit.client.readable_broker import ReadableBroker, numbered_log
from tests.unit.client.scripted_broker import CLOSE, ScriptedBroker, in_turn, topic_id

PLACE = TopicPartition("t", 0)
WAIT_MS = 60_000
"""Longer than anything takes that comes."""


def consumer(broker: ScriptedBroker, **settings: Any) -> Consumer:
    client = ClientOptions.of(broker.address, retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=60_000)
    defaults = {"fetch_max_wait_ms": 5, "auto_offset_reset": OffsetReset.EARLIEST}
    return Consumer(client, ConsumerOptions(**{**defaults, **settings}))


def fetch_answer(partition: PartitionData) -> FetchResponse:
    topic = FetchableTopicResponse(topic="t", topic_id=topic_id("t"), partitions=(partition,))
    return FetchResponse(responses=(topic,))


async def read(consuming: Consumer, count: int, at_a_time: int = 3) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        found += [record.value for record in await consuming.poll(min(at_a_time, count - len(found)), WAIT_MS)]
    return found


async def seen(condition: Callable[[], bool]) -> None:
    """Wait until the broker has seen something; fail when it does not within seconds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


@pytest.mark.parametrize("at_a_time", [1, 4, 100])
@pytest.mark.parametrize("fetch_bytes", [90, 300, 1 << 20])
async def test_every_record_is_given_once_and_in_order(at_a_time, fetch_bytes):
    with ReadableBroker(records=43) as broker:
        broker.fetch_bytes_max = max(fetch_bytes, 150)
        async with consumer(broker) as consuming:
            consuming.assign([PLACE])
            assert await read(consuming, 43, at_a_time) == numbers(0, 43)
            assert consuming.position(PLACE) == 43
            assert consuming.lag(PLACE) == 0
            assert await consuming.poll(10, 10) == []


async def test_the_position_is_behind_what_was_given_not_behind_what_was_fetched():
    with ReadableBroker(records=40) as broker:
        async with consumer(broker) as consuming:
            consuming.assign([PLACE])
            await read(consuming, 7)
            assert consuming.position(PLACE) == 7


async def test_seeking_goes_on_at_the_offset_even_within_a_batch():
    with ReadableBroker(records=40) as broker:
        async with consumer(broker) as consuming:
            consuming.assign([PLACE])
            await read(consuming, 3)
            consuming.seek(PLACE, 22)
            assert await read(consuming, 4) == numbers(22, 26)
            await consuming.seek_to({PLACE: OffsetAt.EARLIEST})
            assert await read(consuming, 2) == numbers(0, 2)


async def test_batches_are_given_as_they_lie_in_the_log():
    with ReadableBroker(records=10) as broker:
        async with consumer(broker) as consuming:
            consuming.assign([PLACE])
            [batches] = await consuming.poll_batches(WAIT_MS)
    assert bytes(batches.records) == bytes(broker.logs[0])


async def test_all_partitions_are_read():
    with ReadableBroker(partitions=3, records=10) as broker:
        async with consumer(broker) as consuming:
            consuming.assign(await consuming.partitions_of("t"))
            found = await read(consuming, 30)
    assert Counter(found) == Counter(numbers(0, 10) * 3)


async def test_what_is_paused_is_not_given_until_it_is_resumed():
    with ReadableBroker(partitions=2, records=5) as broker:
        async with consumer(broker) as consuming:
            consuming.assign([PLACE, TopicPartition("t", 1)])
            consuming.pause([PLACE])
            assert {record.partition for record in await consuming.poll(100, WAIT_MS)} == {1}
            assert await consuming.poll(100, 50) == []
            consuming.resume([PLACE])
            assert {record.partition for record in await consuming.poll(100, WAIT_MS)} == {0}


async def test_no_more_is_fetched_ahead_than_allowed():
    with ReadableBroker(records=100, per_batch=1) as broker:
        broker.fetch_bytes_max = 150
        async with consumer(broker, fetches_ahead_max=2) as consuming:
            consuming.assign([PLACE])
            await read(consuming, 1)
            for _ in range(20):  # round trips, in which a further fetch would be sent as well
                await consuming.list_offsets({PLACE: -1})
            assert len(broker.asked(FetchRequest)) <= 4


@pytest.mark.parametrize(
    ("reset", "begins"), [(OffsetReset.EARLIEST, numbers(10, 12)), (OffsetReset.LATEST, [])], ids=str
)
async def test_when_records_were_deleted_reading_goes_on_as_the_reset_says(reset, begins):
    with ReadableBroker(records=40) as broker:
        broker.start = 10
        async with consumer(broker, auto_offset_reset=reset) as consuming:
            consuming.assign([PLACE])
            consuming.seek(PLACE, 3)
            assert await read(consuming, len(begins)) == begins
            await consuming.poll(0, 1)
            await seen(lambda: consuming.position(PLACE) == (12 if begins else 40))


async def test_without_a_reset_deleted_records_are_an_error():
    with ReadableBroker(records=40) as broker:
        broker.start = 10
        async with consumer(broker, auto_offset_reset=OffsetReset.NONE) as consuming:
            consuming.assign([PLACE])
            consuming.seek(PLACE, 3)
            with pytest.raises(OffsetOutOfRangeError, match="offset 3 of t-0"):
                await consuming.poll(1, WAIT_MS)


async def test_without_a_reset_a_partition_without_an_offset_is_an_error():
    with ReadableBroker(records=4) as broker:
        async with consumer(broker, auto_offset_reset=OffsetReset.NONE) as consuming:
            consuming.assign([PLACE])
            with pytest.raises(BrokerError, match="no offset to begin at in t-0"):
                await consuming.poll(1, WAIT_MS)


async def test_reading_survives_moved_leaders_and_lost_connections():
    with ReadableBroker(records=20) as broker:
        moved = fetch_answer(PartitionData(partition_index=0, error_code=6))
        broker.handlers[FetchRequest] = in_turn(moved, CLOSE, moved, broker._fetch)
        async with consumer(broker) as consuming:
            consuming.assign([PLACE])
            assert await read(consuming, 20) == numbers(0, 20)


async def test_a_leader_that_is_away_is_no_trouble_any_more_when_another_leads():
    with ReadableBroker(records=20) as broker:
        leader = 2

        def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
            away = MetadataResponseBroker(node_id=2, host="127.0.0.1", port=1)
            answer = broker.metadata(request)
            topics = tuple(
                msgspec.structs.replace(
                    topic,
                    partitions=tuple(msgspec.structs.replace(each, leader_id=leader) for each in topic.partitions),
                )
                for topic in answer.topics
            )
            return msgspec.structs.replace(answer, brokers=(*answer.brokers, away), topics=topics)

        broker.handlers[MetadataRequest] = metadata
        async with consumer(broker) as consuming:
            consuming.assign([PLACE])
            consuming.seek(PLACE, 0)
            assert await consuming.poll(1, 5) == []
            await seen(lambda: consuming.troubles.longest() is not None)
            leader = 1
            assert await read(consuming, 20) == numbers(0, 20)
            await seen(lambda: consuming.troubles.longest() is None)


@pytest.mark.parametrize(("begins_near", "lost"), [(0, False), (10, False), (0, True)])
async def test_a_consumer_reads_from_the_replica_that_its_leader_names_and_from_the_leader_what_that_has_not(
    begins_near: int, lost: bool
):
    with ReadableBroker(records=20) as leader, ReadableBroker(records=20) as near:
        near.start = begins_near

        def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
            other = MetadataResponseBroker(node_id=2, host="127.0.0.1", port=near.port, rack="b")
            answer = leader.metadata(request)
            return msgspec.structs.replace(answer, brokers=(*answer.brokers, other))

        leader.handlers[MetadataRequest] = metadata
        sent_there = fetch_answer(PartitionData(partition_index=0, preferred_read_replica=2))
        leader.handlers[FetchRequest] = in_turn(sent_there, leader._fetch)
        leader.fetch_bytes_max = near.fetch_bytes_max = len(numbered_log(20, 5)) // 2
        if lost:
            near.handlers[FetchRequest] = in_turn(near._fetch, CLOSE)
        async with consumer(leader, rack="b") as consuming:
            consuming.assign([PLACE])
            assert await read(consuming, 20) == numbers(0, 20)
        assert near.asked(FetchRequest)
        assert {request.rack_id for request in leader.asked(FetchRequest)} == {"b"}


async def test_bytes_that_are_no_batch_are_an_error_that_says_where():
    with ReadableBroker(records=10) as broker:
        broker.logs[0][-1] ^= 1
        async with consumer(broker) as consuming:
            consuming.assign([PLACE])
            with pytest.raises(ClientError, match=r"t-0 at offset 0: .*CRC"):
                await consuming.poll(10, WAIT_MS)


async def test_records_before_bytes_that_are_no_batch_are_given_before_the_error():
    with ReadableBroker(partitions=2, records=10) as broker:
        broker.logs[1][-1] ^= 1
        async with consumer(broker, group_id="g") as consuming:
            consuming.subscribe(["t"])
            assert [record.value for record in await consuming.poll(100, WAIT_MS)] == numbers(0, 10)
            with pytest.raises(ClientError, match=r"t-1 at offset 0: .*CRC"):
                await consuming.poll(100, WAIT_MS)
    assert broker.committed == {PLACE: 10, TopicPartition("t", 1): 0}


async def test_a_topic_that_is_deleted_while_it_is_read_is_an_error():
    with ReadableBroker(records=5) as broker:
        async with consumer(broker) as consuming:
            consuming.assign([PLACE])
            await read(consuming, 5)
            broker.topics.clear()
            gone = PartitionData(partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
            broker.handlers[FetchRequest] = lambda request, version: FetchResponse(
                responses=(FetchableTopicResponse(topic_id=topic_id("t"), topic="t", partitions=(gone,)),)
            )
            with pytest.raises(TopicNotFoundError):
                await consuming.poll(1, WAIT_MS)


# --- groups ---------------------------------------------------------------------------------------------------------


async def test_a_member_gets_its_partitions_and_begins_where_the_group_has_committed():
    with ReadableBroker(partitions=2, records=10) as broker:
        broker.committed[PLACE] = 8
        async with consumer(broker, group_id="g") as consuming:
            told: list[Any] = []
            consuming.subscribe(["t"], on_assigned=told.append)
            found = await read(consuming, 12)
    assert told == [[("t", 0), ("t", 1)]]
    assert Counter(found) == Counter([*numbers(8, 10), *numbers(0, 10)])


async def test_closing_commits_what_was_given_and_leaves_the_group():
    with ReadableBroker(records=10) as broker:
        async with consumer(broker, group_id="g") as consuming:
            consuming.subscribe(["t"])
            await read(consuming, 7)
        [left] = broker.asked(LeaveGroupRequest)
        commit = broker.asked(OffsetCommitRequest)[-1]
    assert broker.committed == {PLACE: 7}
    assert [member.member_id for member in left.members] == ["m-1"]
    assert (commit.member_id, commit.generation_id_or_member_epoch) == ("m-1", 1)


async def test_a_commit_to_a_topic_that_was_deleted_fails_at_once_and_holds_up_nobody():
    gone = OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    answer = OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="t", partitions=(gone,)),))
    with ReadableBroker(records=10) as broker:
        broker.handlers[OffsetCommitRequest] = lambda request, version: answer
        async with consumer(broker, group_id="g", auto_commit=False) as consuming:
            consuming.subscribe(["t"])
            await read(consuming, 7)
            with pytest.raises(TopicNotFoundError, match="partition 0 of topic 't'"):
                await consuming.commit()
        assert len(broker.asked(OffsetCommitRequest)) == 1


async def test_a_static_member_does_not_leave():
    with ReadableBroker(records=1) as broker:
        async with consumer(broker, group_id="g", group_instance_id="one") as consuming:
            consuming.subscribe(["t"])
            await read(consuming, 1)
        assert broker.asked(LeaveGroupRequest) == []
        assert broker.asked(JoinGroupRequest)[-1].group_instance_id == "one"


async def test_without_auto_commit_nothing_is_committed_unasked():
    with ReadableBroker(records=10) as broker:
        async with consumer(broker, group_id="g", auto_commit=False) as consuming:
            consuming.subscribe(["t"])
            await read(consuming, 4)
            assert broker.committed == {}
            await consuming.commit()
            assert broker.committed == {PLACE: 4}
            await read(consuming, 2)
    assert broker.committed == {PLACE: 4}


async def test_a_rebalance_gives_partitions_back_after_committing_and_joins_again():
    with ReadableBroker(records=10) as broker:
        async with consumer(broker, group_id="g", heartbeat_interval_ms=5) as consuming:
            told: list[Any] = []
            consuming.subscribe(
                ["t"],
                on_assigned=lambda places: told.append(("assigned", places)),
                on_revoked=lambda places: told.append(("revoked", places, dict(broker.committed))),
            )
            await read(consuming, 6)
            broker.heartbeat_errors = [ErrorCode.REBALANCE_IN_PROGRESS]
            while broker.generation < 2:
                assert await consuming.poll(0, 20) == []
            assert await read(consuming, 4) == numbers(6, 10)
    assert told == [("assigned", [PLACE]), ("revoked", [PLACE], {PLACE: 6}), ("assigned", [PLACE])]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
async def test_a_member_that_was_thrown_out_learns_what_it_lost_and_joins_anew(code):
    with ReadableBroker(records=10) as broker:
        async with consumer(broker, group_id="g", heartbeat_interval_ms=5, auto_commit=False) as consuming:
            lost: list[Any] = []
            consuming.subscribe(["t"], on_lost=lost.append)
            await read(consuming, 6)
            broker.heartbeat_errors = [code]
            while broker.generation < 2:
                await consuming.poll(0, 20)
            assert lost == [[PLACE]]
            assert await read(consuming, 2) == numbers(0, 2)


async def test_joining_goes_on_through_what_passes():
    passing = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID]
    with ReadableBroker(records=3) as broker:
        broker.member_errors = [int(code) for code in passing]
        async with consumer(broker, group_id="g") as consuming:
            consuming.subscribe(["t"])
            assert await read(consuming, 3) == numbers(0, 3)
        assert len(broker.asked(FindCoordinatorRequest)) == 2


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (ErrorCode.FENCED_INSTANCE_ID, "another member has the instance id 'one'; give each its own"),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "its members do not use the 'range' assignor"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "GROUP_AUTHORIZATION_FAILED"),
    ],
)
async def test_what_joining_again_cannot_mend_is_raised(code, says):
    with ReadableBroker(records=3) as broker:
        broker.member_errors = [int(code)] * 3
        async with consumer(broker, group_id="g", group_instance_id="one") as consuming:
            consuming.subscribe(["t"])
            with pytest.raises(BrokerError, match=says):
                await consuming.poll(1, WAIT_MS)


async def test_heartbeats_go_on_while_the_application_works():
    with ReadableBroker(records=3) as broker:
        async with consumer(broker, group_id="g", heartbeat_interval_ms=2) as consuming:
            consuming.subscribe(["t"])
            await read(consuming, 1)
            await seen(lambda: len(broker.asked(HeartbeatRequest)) >= 3)


async def test_a_member_that_does_not_poll_leaves_the_group():
    with ReadableBroker(records=3) as broker:
        async with consumer(broker, group_id="g", heartbeat_interval_ms=2, max_poll_interval_ms=10) as consuming:
            consuming.subscribe(["t"])
            await read(consuming, 1)
            await seen(lambda: len(broker.asked(LeaveGroupRequest)) > 0)
            assert await read(consuming, 1) == numbers(0, 1)


async def test_new_partitions_of_a_topic_are_read_after_the_leader_has_seen_them():
    with ReadableBroker(records=2) as broker:
        client = ClientOptions.of(broker.address, retry_backoff_ms=1, retry_backoff_max_ms=2, metadata_max_age_ms=5)
        options = ConsumerOptions(group_id="g", fetch_max_wait_ms=5, auto_offset_reset=OffsetReset.EARLIEST)
        async with Consumer(client, options) as consuming:
            consuming.subscribe(["t"])
            await read(consuming, 2)
            broker.logs[1] = numbered_log(2, 5)
            broker.topics["t"] = 2
            async with asyncio.timeout(60):
                assert await read(consuming, 2) == numbers(0, 2)
            assert sorted(consuming.assignment()) == [("t", 0), ("t", 1)]


async def test_records_can_be_iterated():
    with ReadableBroker(records=5) as broker:
        async with consumer(broker) as consuming:
            consuming.assign([PLACE])
            found = []
            async with contextlib.aclosing(aiter(consuming)) as records:
                async for record in records:
                    found.append(record.offset)
                    if len(found) == 5:
                        break
    assert found == [0, 1, 2, 3, 4]


async def test_polling_without_anything_to_poll_says_so():
    with ReadableBroker() as broker:
        async with consumer(broker) as consuming:
            with pytest.raises(InvalidOptionError, match="nothing to poll"):
                await consuming.poll()
            with pytest.raises(InvalidOptionError, match="needs a group id"):
                consuming.subscribe(["t"])
            consuming.assign([PLACE])
            with pytest.raises(InvalidOptionError, match="not assigned"):
                consuming.seek(TopicPartition("t", 9), 0)


async def test_a_consumer_that_was_not_started_says_so():
    consuming = Consumer(ClientOptions.of("localhost:1"))
    with pytest.raises(ClientError, match="not started"):
        await consuming.poll()
    await consuming.close()


def test_assigning_offsets_in_the_model_is_what_the_log_would_do():
    log = numbered_log(12, 5)
    assert assign_offsets(bytearray(log), 0, 0) == 12
    batches, _, _ = walk_batches(log, check_crc=True)
    assert [(batch.base_offset, batch.last_offset) for batch in batches] == [(0, 4), (5, 9), (10, 11)]
