"""A consumer in the protocol of KIP-848 reads what the coordinator gives it, and gives up what it takes away."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions, GroupProtocol, OffsetReset
from ottla.client.consuming.group_subscription import SubscriptionPattern
from ottla.client.errors import BrokerError, ClientError, InvalidOptionError
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.unit.client.consuming.test_consumer import numbers, read, seen
from tests.unit.client.readable_broker import ReadableBroker
from tests.unit.client.scripted_broker import CLOSE, topic_id

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class GroupBroker(ReadableBroker):
    """A broker whose coordinator gives its one member what a test tells it to, and waits until that is acknowledged."""

    def __init__(self, partitions: int = 2, records: int = 10) -> None:
        super().__init__(partitions, records)
        self.target: tuple[int, ...] = tuple(range(partitions))
        self.topic = topic_id("t")
        self.epoch = 0
        self.errors: list[int] = []
        self.acknowledged: list[tuple[int, ...]] = []
        self._given: tuple[int, ...] | None = None
        self.handlers[ConsumerGroupHeartbeatRequest] = self._heartbeat

    def give(self, *partitions: int) -> None:
        self.target = partitions

    def assign_anew(self) -> None:
        self._given = None

    def _heartbeat(self, request: ConsumerGroupHeartbeatRequest, version: int) -> Any:
        error = self.errors.pop(0) if self.errors else 0
        if error == CLOSED:
            return CLOSE
        if error:
            return ConsumerGroupHeartbeatResponse(error_code=error)
        if request.member_epoch < 0:
            return ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        if request.member_epoch == 0:
            self._given = None
        if request.topic_partitions is not None:
            self.acknowledged.append(tuple(each for topic in request.topic_partitions for each in topic.partitions))
        assignment = None
        if self._given != self.target or request.rebalance_timeout_ms >= 0:
            self._given = self.target
            self.epoch += 1
            places = TopicPartitions(topic_id=self.topic, partitions=self.target)
            assignment = Assignment((places,) if self.target else ())
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=self.epoch, heartbeat_interval_ms=2, assignment=assignment
        )


CLOSED = -100
"""Stands among the errors of `GroupBroker`: the connection ends without an answer."""


def a_consumer(broker: GroupBroker, **settings: Any) -> Consumer:
    client = ClientOptions.of(broker.address, retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=60_000)
    defaults = {
        "group_id": "g",
        "group_protocol": GroupProtocol.CONSUMER,
        "fetch_max_wait_ms": 5,
        "auto_offset_reset": OffsetReset.EARLIEST,
    }
    return Consumer(client, ConsumerOptions(**{**defaults, **settings}))


class Told:
    """What the callbacks were told, with what was committed by then."""

    def __init__(self, broker: GroupBroker) -> None:
        self.events: list[tuple[str, list[TopicPartition], Mapping[TopicPartition, int]]] = []
        self.broker = broker

    def subscribe(self, consumer: Consumer, topics: Any = ("t",)) -> None:
        consumer.subscribe(
            topics,
            on_assigned=lambda places: self.note("assigned", places),
            on_revoked=lambda places: self.note("revoked", places),
            on_lost=lambda places: self.note("lost", places),
        )

    def note(self, what: str, places: list[TopicPartition]) -> None:
        self.events.append((what, places, dict(self.broker.committed)))

    @property
    def names(self) -> list[tuple[str, list[TopicPartition]]]:
        return [(what, places) for what, places, _ in self.events]


async def polled_until_assigned(consumer: Consumer, *places: TopicPartition) -> None:
    while sorted(consumer.assignment()) != sorted(places):
        await consumer.poll(0, 20)


async def test_a_member_reads_what_it_is_given_and_says_so():
    with GroupBroker() as broker:
        told = Told(broker)
        async with a_consumer(broker, group_remote_assignor="uniform") as consuming:
            told.subscribe(consuming)
            found = await read(consuming, 20)
            await seen(lambda: (0, 1) in broker.acknowledged)
        joining = broker.asked(ConsumerGroupHeartbeatRequest)[0]
        leaving = broker.asked(ConsumerGroupHeartbeatRequest)[-1]
    assert Counter(found) == Counter(numbers(0, 10) * 2)
    assert told.names == [("assigned", [ZERO, ONE])]
    assert (joining.subscribed_topic_names, joining.server_assignor, joining.topic_partitions) == (
        ("t",),
        "uniform",
        (),
    )
    assert (leaving.member_epoch, leaving.member_id) == (-1, joining.member_id)
    assert broker.committed == {ZERO: 10, ONE: 10}


async def test_only_what_is_taken_away_is_committed_and_given_up_and_the_rest_is_read_on():
    with GroupBroker() as broker:
        told = Told(broker)
        async with a_consumer(broker) as consuming:
            told.subscribe(consuming)
            await polled_until_assigned(consuming, ZERO, ONE)
            consuming.pause([ONE])
            assert await read(consuming, 4) == numbers(0, 4)
            broker.give(1)
            await polled_until_assigned(consuming, ONE)
            await seen(lambda: (1,) in broker.acknowledged)
            consuming.resume([ONE])
            assert await read(consuming, 10) == numbers(0, 10)
            broker.give(0, 1)
            assert await read(consuming, 6) == numbers(4, 10)
    assert told.names == [("assigned", [ZERO, ONE]), ("revoked", [ZERO]), ("assigned", [ZERO])]
    assert told.events[1][2][ZERO] == 4


async def test_a_partition_is_owned_until_the_one_who_polls_has_given_it_up():
    with GroupBroker() as broker:
        async with a_consumer(broker) as consuming:
            Told(broker).subscribe(consuming)
            await polled_until_assigned(consuming, ZERO, ONE)
            await seen(lambda: (0, 1) in broker.acknowledged)
            broker.give(1)
            beats = len(broker.asked(ConsumerGroupHeartbeatRequest))
            await seen(lambda: len(broker.asked(ConsumerGroupHeartbeatRequest)) > beats + 5)
            assert (1,) not in broker.acknowledged
            assert sorted(consuming.assignment()) == [ZERO, ONE]


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
async def test_a_member_that_was_fenced_learns_what_it_lost_and_joins_anew(code):
    with GroupBroker(partitions=1) as broker:
        told = Told(broker)
        async with a_consumer(broker, auto_commit=False) as consuming:
            told.subscribe(consuming)
            await read(consuming, 6)
            broker.errors = [int(code)]
            while len(told.events) < 3:
                await consuming.poll(0, 20)
            assert await read(consuming, 2) == numbers(0, 2)
        ids = {each.member_id for each in broker.asked(ConsumerGroupHeartbeatRequest)}
    assert told.names == [("assigned", [ZERO]), ("lost", [ZERO]), ("assigned", [ZERO])]
    assert len(ids) == 1


async def test_heartbeats_go_on_through_what_passes():
    passing = [int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), CLOSED, int(ErrorCode.NOT_COORDINATOR)]
    with GroupBroker(partitions=1) as broker:
        broker.errors = list(passing)
        async with a_consumer(broker) as consuming:
            told = Told(broker)
            told.subscribe(consuming)
            await read(consuming, 3)
            broker.errors = list(passing)
            await seen(lambda: not broker.errors)
            assert await read(consuming, 7) == numbers(3, 10)
    assert [what for what, _ in told.names] == ["assigned"]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (ErrorCode.UNRELEASED_INSTANCE_ID, "another member has the instance id 'one'; give each its own"),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, "UNSUPPORTED_ASSIGNOR"),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, "INVALID_REGULAR_EXPRESSION"),
    ],
)
async def test_what_joining_again_cannot_mend_is_raised(code, says):
    with GroupBroker() as broker:
        broker.errors = [int(code)] * 1_000
        async with a_consumer(broker, group_instance_id="one") as consuming:
            consuming.subscribe(["t"])
            with pytest.raises(BrokerError, match=says):
                await read(consuming, 1)


async def test_a_broker_without_the_protocol_is_named_with_the_way_out():
    with GroupBroker() as broker:
        del broker.versions[ConsumerGroupHeartbeatRequest.API_KEY]
        async with a_consumer(broker) as consuming:
            consuming.subscribe(["t"])
            with pytest.raises(ClientError, match="use group_protocol='classic'"):
                await read(consuming, 1)


async def test_a_static_member_says_that_it_will_be_back():
    with GroupBroker() as broker:
        async with a_consumer(broker, group_instance_id="one") as consuming:
            consuming.subscribe(["t"])
            await read(consuming, 1)
        leaving = broker.asked(ConsumerGroupHeartbeatRequest)[-1]
    assert (leaving.member_epoch, leaving.instance_id) == (-2, "one")


async def test_a_member_that_does_not_poll_leaves_and_comes_back_with_the_next_poll():
    with GroupBroker(partitions=1) as broker:
        told = Told(broker)
        async with a_consumer(broker, max_poll_interval_ms=10) as consuming:
            told.subscribe(consuming)
            await read(consuming, 1)
            await seen(lambda: any(each.member_epoch == -1 for each in broker.asked(ConsumerGroupHeartbeatRequest)))
            await read(consuming, 1)
    assert told.names[:3] == [("assigned", [ZERO]), ("lost", [ZERO]), ("assigned", [ZERO])]


async def test_topics_that_match_an_expression_are_read_when_the_coordinator_names_them():
    with GroupBroker(partitions=1) as broker:
        async with a_consumer(broker) as consuming:
            consuming.subscribe(SubscriptionPattern("t.*"))
            assert await read(consuming, 2) == numbers(0, 2)
        joining = broker.asked(ConsumerGroupHeartbeatRequest)[0]
    assert (joining.subscribed_topic_names, joining.subscribed_topic_regex) == ((), "t.*")


async def test_a_topic_that_is_not_known_yet_is_read_when_it_is():
    with GroupBroker(partitions=1) as broker:
        del broker.topics["t"]
        async with a_consumer(broker) as consuming:
            consuming.subscribe(["t"])
            beats = len(broker.asked(ConsumerGroupHeartbeatRequest))
            while len(broker.asked(ConsumerGroupHeartbeatRequest)) < beats + 5:
                assert await consuming.poll(1, 5) == []
            broker.topics["t"] = 1
            assert await read(consuming, 2) == numbers(0, 2)


async def test_a_topic_made_anew_under_its_name_is_given_up_and_read_from_its_beginning(monkeypatch):
    with GroupBroker(partitions=1) as broker:
        told = Told(broker)
        async with a_consumer(broker, auto_commit=False) as consuming:
            told.subscribe(consuming)
            assert await read(consuming, 4) == numbers(0, 4)
            monkeypatch.setattr("tests.unit.client.scripted_broker.topic_id", lambda name: topic_id(f"{name} again"))
            monkeypatch.setattr("tests.unit.client.readable_broker.topic_id", lambda name: topic_id(f"{name} again"))
            broker.topic = topic_id("t again")
            broker.give()
            await polled_until_assigned(consuming)
            broker.give(0)
            assert await read(consuming, 2) == numbers(0, 2)
    assert told.names == [("assigned", [ZERO]), ("revoked", [ZERO]), ("assigned", [ZERO])]


async def test_a_commit_in_an_epoch_that_is_over_is_sent_again_in_the_one_that_holds():
    refused: list[int] = []

    def commit(request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        epoch = request.generation_id_or_member_epoch
        if not refused:
            broker.assign_anew()  # a new epoch, of which the member hears with the next heartbeat
        if not refused or epoch == refused[0]:
            refused.append(epoch)
            error = ErrorCode.STALE_MEMBER_EPOCH
        else:
            broker.committed[ZERO] = request.topics[0].partitions[0].committed_offset
            error = ErrorCode.NONE
        partition = OffsetCommitResponsePartition(partition_index=0, error_code=error)
        return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="t", partitions=(partition,)),))

    with GroupBroker(partitions=1) as broker:
        broker.handlers[OffsetCommitRequest] = commit
        async with a_consumer(broker, auto_commit=False) as consuming:
            consuming.subscribe(["t"])
            await read(consuming, 4)
            await consuming.commit()
        last = broker.asked(OffsetCommitRequest)[-1].generation_id_or_member_epoch
    assert broker.committed == {ZERO: 4}
    assert last > refused[0]


async def test_a_callback_that_raises_is_heard_of_and_stops_nothing():
    def refuse(places: list[TopicPartition]) -> None:
        raise RuntimeError("not now")

    with GroupBroker() as broker:
        async with a_consumer(broker) as consuming:
            assigned: list[Any] = []
            consuming.subscribe(["t"], on_revoked=refuse, on_assigned=assigned.append)
            await polled_until_assigned(consuming, ZERO, ONE)
            broker.give(1)
            with pytest.raises(RuntimeError, match="not now"):
                await polled_until_assigned(consuming, ONE)
            await polled_until_assigned(consuming, ONE)
            while (1,) not in broker.acknowledged:
                await consuming.poll(0, 5)
    assert assigned == [[ZERO, ONE]]


async def test_a_pattern_needs_the_protocol_in_which_the_coordinator_matches_it():
    with GroupBroker() as broker:
        async with a_consumer(broker, group_protocol=GroupProtocol.CLASSIC) as consuming:
            with pytest.raises(InvalidOptionError, match="group_protocol='consumer'"):
                consuming.subscribe(SubscriptionPattern("t.*"))
