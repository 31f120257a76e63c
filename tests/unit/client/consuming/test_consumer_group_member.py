"""What a member of a consumer group says in its heartbeats, as conversations with a coordinator (KIP-848)."""

from typing import Any
from uuid import UUID

import pytest

from ottla.client.consuming.consumer_group_member import (
    OUTSIDE,
    TRANSITIONS,
    ConsumerGroupMember,
    MemberState,
    Place,
    Wanted,
)
from ottla.client.consuming.consumer_options import ConsumerOptions, GroupProtocol
from ottla.client.consuming.group_offsets import Membership
from ottla.client.errors import InvalidOptionError
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

T = UUID(int=7)
U = UUID(int=8)


def a_member(**options: Any) -> ConsumerGroupMember:
    settings = {"group_id": "g", "group_protocol": GroupProtocol.CONSUMER, "max_poll_interval_ms": 9_000, **options}
    member = ConsumerGroupMember(ConsumerOptions(**settings), "m")
    member.subscribe(Wanted(("t",)))
    return member


def answer(
    member: ConsumerGroupMember, epoch: int, *places: Place, assigns: bool = True
) -> ConsumerGroupHeartbeatRequest:
    """Send a heartbeat that is answered with an epoch, and with partitions unless it `assigns` nothing new."""
    request = member.heartbeat()
    topics = {topic: tuple(sorted(index for other, index in places if other == topic)) for topic, _ in places}
    given = Assignment(tuple(TopicPartitions(topic_id=topic, partitions=each) for topic, each in topics.items()))
    response = ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=epoch, heartbeat_interval_ms=500, assignment=given if assigns else None
    )
    member.on_answer(request, response)
    return request


def a_stable_member(*places: Place, **options: Any) -> ConsumerGroupMember:
    member = a_member(**options)
    answer(member, 3, *places)
    member.settle(places)
    answer(member, 3, assigns=False)
    assert member.state is MemberState.STABLE
    return member


def owned_in(request: ConsumerGroupHeartbeatRequest) -> set[Place] | None:
    if request.topic_partitions is None:
        return None
    return {(topic.topic_id, index) for topic in request.topic_partitions for index in topic.partitions}


def test_the_first_heartbeat_says_all_and_those_after_it_nothing():
    member = a_member(rack="r1", group_remote_assignor="range", group_instance_id="one")
    joining = answer(member, 3, (T, 0))
    assert (joining.member_id, joining.member_epoch, joining.instance_id, joining.rack_id) == ("m", 0, "one", "r1")
    assert (joining.rebalance_timeout_ms, joining.server_assignor) == (9_000, "range")
    assert (joining.subscribed_topic_names, joining.subscribed_topic_regex) == (("t",), None)
    assert owned_in(joining) == set()
    member.settle([(T, 0)])
    answer(member, 3, assigns=False)
    assert not member.has_news
    later = member.heartbeat()
    assert (later.member_epoch, later.instance_id) == (3, "one")
    assert (later.rebalance_timeout_ms, later.server_assignor, later.rack_id) == (-1, None, None)
    assert (later.subscribed_topic_names, later.subscribed_topic_regex, later.topic_partitions) == (None, None, None)
    assert member.heartbeat_interval_ms == 500


def test_what_is_taken_and_given_up_is_told_once():
    member = a_stable_member((T, 0), (T, 1))
    answer(member, 3, (T, 1))
    assert member.state is MemberState.RECONCILING
    assert not member.has_news
    assert owned_in(answer(member, 3, assigns=False)) is None  # what is not given up yet is still owned
    member.settle([(T, 1)])
    assert member.state is MemberState.ACKNOWLEDGING
    assert member.has_news
    told = answer(member, 4, (T, 1), (U, 0))
    assert owned_in(told) == {(T, 1)}
    assert (member.state, member.epoch) == (MemberState.RECONCILING, 4)
    member.settle([(T, 1), (U, 0)])
    assert owned_in(answer(member, 4, assigns=False)) == {(T, 1), (U, 0)}
    assert member.state is MemberState.STABLE
    assert owned_in(member.heartbeat()) is None


def test_the_same_assignment_again_is_acknowledged_again():
    member = a_stable_member((T, 0))
    answer(member, 3, (T, 0))
    member.settle([(T, 0)])
    assert owned_in(answer(member, 3, assigns=False)) == {(T, 0)}
    assert member.state is MemberState.STABLE


def test_what_was_settled_after_a_heartbeat_left_is_told_in_the_next():
    member = a_stable_member((T, 0))
    answer(member, 4, (T, 0), (T, 1))
    request = member.heartbeat()
    member.settle([(T, 0), (T, 1)])
    member.on_answer(request, ConsumerGroupHeartbeatResponse(member_epoch=4, assignment=None))
    assert member.state is MemberState.ACKNOWLEDGING
    assert member.has_news
    assert owned_in(answer(member, 4, assigns=False)) == {(T, 0), (T, 1)}
    assert member.state is MemberState.STABLE


def test_part_of_an_assignment_is_told_and_reconciling_goes_on():
    member = a_stable_member((T, 0))
    answer(member, 4, (T, 0), (U, 0))
    member.settle([(T, 0)])
    assert member.state is MemberState.RECONCILING
    answer(member, 4, assigns=False)
    assert member.state is MemberState.RECONCILING
    member.settle([(T, 0), (U, 0)])
    assert member.state is MemberState.ACKNOWLEDGING


def test_after_a_heartbeat_without_an_answer_all_is_told_in_the_same_epoch():
    member = a_stable_member((T, 0))
    member.on_no_answer(member.heartbeat())
    again = answer(member, 4, (T, 0))
    assert (again.member_epoch, again.subscribed_topic_names) == (3, ("t",))
    assert again.rebalance_timeout_ms == 9_000
    assert owned_in(again) == {(T, 0)}


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_a_member_that_is_fenced_joins_anew_under_its_name_when_it_has_given_up_all(code):
    member = a_stable_member((T, 0))
    assert member.on_error(member.heartbeat(), code)
    assert (member.state, member.epoch, member.owned) == (MemberState.FENCED, 0, frozenset())
    assert not member.has_news
    member.rejoin()
    joining = answer(member, 9, (T, 5))
    assert (joining.member_id, joining.member_epoch, owned_in(joining)) == ("m", 0, set())
    assert joining.subscribed_topic_names == ("t",)
    assert (member.epoch, member.target) == (9, {(T, 5)})


def test_what_passes_changes_nothing_but_that_all_is_told_again():
    member = a_stable_member((T, 0))
    assert member.on_error(member.heartbeat(), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert (member.state, member.epoch, member.owned) == (MemberState.STABLE, 3, {(T, 0)})
    assert member.heartbeat().subscribed_topic_names == ("t",)


def test_answers_to_what_was_said_before_leaving_say_nothing():
    member = a_stable_member((T, 0))
    late = member.heartbeat()
    assert member.leave() is not None
    member.on_answer(late, ConsumerGroupHeartbeatResponse(member_epoch=4, assignment=None))
    assert not member.on_error(late, ErrorCode.FENCED_MEMBER_EPOCH)
    member.on_no_answer(late)
    assert (member.state, member.epoch) == (MemberState.LEFT, 0)


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("one", -2)])
def test_a_static_member_says_that_it_will_be_back(instance_id, epoch):
    member = a_stable_member((T, 0), group_instance_id=instance_id)
    leaving = member.leave()
    assert leaving is not None
    assert (leaving.member_id, leaving.member_epoch, leaving.instance_id) == ("m", epoch, instance_id)
    assert member.leave() is None


def test_another_subscription_is_told_at_once():
    member = a_stable_member((T, 0))
    member.subscribe(Wanted(("t", "u")))
    assert member.has_news
    assert answer(member, 4, (T, 0)).subscribed_topic_names == ("t", "u")
    assert not member.has_news


def test_an_expression_takes_the_place_of_names_and_is_taken_back():
    member = a_stable_member((T, 0))
    member.subscribe(Wanted(regex="t.*"))
    told = answer(member, 4, (T, 0))
    assert (told.subscribed_topic_names, told.subscribed_topic_regex) == ((), "t.*")
    member.subscribe(Wanted(("t",)))
    member.on_no_answer(member.heartbeat())
    told = answer(member, 5, (T, 0))
    assert (told.subscribed_topic_names, told.subscribed_topic_regex) == (("t",), "")


def test_it_commits_in_its_epoch_and_as_nobody_when_it_was_fenced():
    member = a_stable_member((T, 0), group_instance_id="one")
    assert member.identity == Membership(3, "m", "one")
    member.on_error(member.heartbeat(), ErrorCode.FENCED_MEMBER_EPOCH)
    assert member.identity == Membership(0, "m", "one")


def test_every_state_has_its_followers_and_nothing_follows_by_itself():
    assert set(TRANSITIONS) == set(MemberState)
    assert all(MemberState.UNSUBSCRIBED not in after for after in TRANSITIONS.values())
    for state in OUTSIDE:
        assert TRANSITIONS[state] <= {MemberState.JOINING, MemberState.LEFT}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"session_timeout_ms": 1_000, "heartbeat_interval_ms": 10}, "session_timeout_ms is the broker's"),
        ({"heartbeat_interval_ms": 10}, "heartbeat_interval_ms is the broker's"),
        ({"group_protocol": GroupProtocol.CLASSIC, "group_remote_assignor": "range"}, "needs group_protocol"),
    ],
)
def test_options_of_the_other_protocol_are_refused(options, says):
    with pytest.raises(InvalidOptionError, match=says):
        a_member(**options)
