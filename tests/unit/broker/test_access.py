import pytest

from ottla.broker.access import ALLOW_ALL, Operation, ResourceType, allowed_operations, require
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS, Principal

ALICE = Principal("User", "alice")


class OnlyReads:
    version = 0
    by_host = False

    def allows_on_any(self, *_: object) -> bool:
        return False

    def allows(self, principal, operation, resource_type, resource_name):
        return principal == ALICE and operation is Operation.READ and resource_name == "a"


def test_without_rules_everybody_may_do_everything():
    for kind in ResourceType:
        for operation in Operation:
            require(ALLOW_ALL, ANONYMOUS, operation, kind, "x")


@pytest.mark.parametrize(
    ("kind", "code", "what", "words"),
    [
        (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "b", "Topic authorization failed"),
        (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, "b", "Group authorization failed"),
        (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "the cluster", "Cluster authorization failed"),
        (
            ResourceType.TRANSACTIONAL_ID,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "b",
            "Transactional Id authorization failed",
        ),
    ],
)
def test_who_may_not_is_told_so_in_the_code_of_the_resource(kind, code, what, words):
    with pytest.raises(ApiError) as refused:
        require(OnlyReads(), ALICE, Operation.READ, kind, "b")
    assert (refused.value.code, refused.value.message) == (code, f"{words}: User:alice may not READ {what}")


def test_the_rules_say_what_may_be_done_of_what_makes_sense():
    assert allowed_operations(OnlyReads(), ALICE, ResourceType.TOPIC, "a") == (Operation.READ,)
    assert allowed_operations(OnlyReads(), ANONYMOUS, ResourceType.TOPIC, "a") == ()
    assert Operation.CLUSTER_ACTION in allowed_operations(ALLOW_ALL, ALICE, ResourceType.CLUSTER)
    assert Operation.CLUSTER_ACTION not in allowed_operations(ALLOW_ALL, ALICE, ResourceType.TOPIC, "a")
