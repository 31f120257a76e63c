import pytest

from ottla.groups.consumer.heartbeat_check import check_heartbeat
from ottla.groups.requests import ConsumerHeartbeat
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

JOIN = {"member_epoch": 0, "rebalance_timeout_ms": 1_000, "topic_names": ("t",), "owned": ()}
STAY = {"member_epoch": 1}


def check(**values) -> None:
    check_heartbeat(ConsumerHeartbeat(**{"group_id": "g", "member_id": "m", **values}), ("uniform", "range"))


def test_a_first_request_says_all_and_others_need_not():
    check(**JOIN)
    check(**{**JOIN, "topic_names": None, "topic_regex": "t.*"})
    check(**{**JOIN, "topic_names": ()})
    check(**STAY)
    check(member_epoch=-1)
    check(member_epoch=-2, instance_id="i")


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({**JOIN, "rebalance_timeout_ms": -1}, "RebalanceTimeoutMs"),
        ({**JOIN, "owned": None}, "TopicPartitions"),
        ({**JOIN, "owned": ((object(), (1,)),)}, "TopicPartitions"),
        ({**JOIN, "topic_names": None}, "SubscribedTopicRegex"),
        ({**JOIN, "member_id": ""}, "MemberId"),
        ({**STAY, "member_id": "", "must_bring_id": False}, "MemberId"),
        ({**STAY, "member_id": "m" * 2_000}, "MemberId"),
        ({**STAY, "instance_id": ""}, "InstanceId"),
        ({**STAY, "instance_id": "i" * 2_000}, "InstanceId"),
        ({**STAY, "rack_id": " "}, "RackId"),
        ({**STAY, "rack_id": "r" * 2_000}, "RackId"),
        ({"member_epoch": -2}, "InstanceId"),
        ({"member_epoch": -3}, "MemberEpoch"),
        ({**STAY, "topic_names": tuple(f"{number:0249}" for number in range(2_200))}, "SubscribedTopicNames"),
    ],
)
def test_what_is_not_as_it_must_be_is_refused_by_name(values, what):
    with pytest.raises(ApiError) as caught:
        check(**values)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert what in caught.value.message


def test_a_client_of_version_0_may_join_without_an_id():
    check(**{**JOIN, "member_id": "", "must_bring_id": False})


def test_an_assignor_that_is_not_there_is_refused_and_the_others_are_named():
    with pytest.raises(ApiError) as caught:
        check(**STAY, server_assignor="sticky")
    assert caught.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in caught.value.message
