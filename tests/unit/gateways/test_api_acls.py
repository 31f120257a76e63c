"""ACLs are added, described and removed as by Kafka (KIP-140, KIP-290)."""

import pytest

from ottla.gateways.kafka import api_29_describe_acls, api_30_create_acls, api_31_delete_acls
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest

READ = AclCreation(2, "a", 3, "User:a", "*", 3, 3)


@pytest.fixture
async def acl_gateway(open_gateway):
    return await open_gateway({"authorizer.class.name": "StandardAuthorizer"})


async def described(gateway, *fields):
    answer = await gateway.ask(
        api_29_describe_acls.API, DescribeAclsRequest(*(fields or (1, None, 1, None, None, 1, 1)))
    )
    assert answer.error_code == 0
    return [(each.resource_type, each.resource_name, each.pattern_type, len(each.acls)) for each in answer.resources]


async def create(gateway, *creations):
    answer = await gateway.ask(api_30_create_acls.API, CreateAclsRequest(creations))
    return [(each.error_code, each.error_message) for each in answer.results]


async def test_what_is_added_is_there_once_and_can_be_removed(acl_gateway):
    write = AclCreation(2, "a", 3, "User:a", "*", 4, 3)
    group = AclCreation(3, "g", 4, "User:b", "1.2.3.4", 2, 2)
    assert await create(acl_gateway, READ, write, group, READ) == [(0, "")] * 4
    assert await described(acl_gateway) == [(2, "a", 3, 2), (3, "g", 4, 1)]
    filters = DeleteAclsFilter(2, "a", 2, None, None, 1, 1), DeleteAclsFilter(2, "b", 1, None, None, 1, 1)
    answer = await acl_gateway.ask(api_31_delete_acls.API, DeleteAclsRequest(filters))
    assert [len(each.matching_acls) for each in answer.filter_results] == [2, 0]
    assert await described(acl_gateway) == [(3, "g", 4, 1)]


@pytest.mark.parametrize(
    "creation",
    [
        AclCreation(0, "a", 3, "User:a", "*", 3, 3),
        AclCreation(1, "a", 3, "User:a", "*", 3, 3),
        AclCreation(2, "", 3, "User:a", "*", 3, 3),
        AclCreation(4, "a", 3, "User:a", "*", 3, 3),
        AclCreation(2, "a", 2, "User:a", "*", 3, 3),
        AclCreation(2, "a", 1, "User:a", "*", 3, 3),
        AclCreation(2, "a", 3, "a", "*", 3, 3),
        AclCreation(2, "a", 3, "User:a", "*", 1, 3),
        AclCreation(2, "a", 3, "User:a", "*", 99, 3),
        AclCreation(2, "a", 3, "User:a", "*", 3, 1),
        AclCreation(2, "a" * 5_000, 3, "User:a", "*", 3, 3),
    ],
)
async def test_what_is_no_acl_is_refused_and_the_others_are_added(acl_gateway, creation):
    (code, message), *others = await create(acl_gateway, creation, READ)
    assert (code, others) == (ErrorCode.INVALID_REQUEST, [(0, "")])
    assert message
    assert await described(acl_gateway) == [(2, "a", 3, 1)]


async def test_a_filter_that_says_what_nobody_knows_matches_nothing(acl_gateway):
    await create(acl_gateway, READ)
    filters = DeleteAclsFilter(0, None, 1, None, None, 1, 1), DeleteAclsFilter(2, None, 1, None, None, 1, 1)
    answer = await acl_gateway.ask(api_31_delete_acls.API, DeleteAclsRequest(filters))
    assert [each.error_code for each in answer.filter_results] == [ErrorCode.INVALID_REQUEST, 0]
    assert [len(each.matching_acls) for each in answer.filter_results] == [0, 1]
    answer = await acl_gateway.ask(api_29_describe_acls.API, DescribeAclsRequest())
    assert answer.error_code == ErrorCode.INVALID_REQUEST
