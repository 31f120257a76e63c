"""What a broker without an authorizer, without secrets and without users answers, as Kafka does."""

import pytest

from ottla.broker.access import CLUSTER_NAME, Operation, ResourceType
from ottla.gateways.kafka import (
    api_29_describe_acls,
    api_30_create_acls,
    api_31_delete_acls,
    api_38_create_delegation_token,
    api_39_renew_delegation_token,
    api_40_expire_delegation_token,
    api_41_describe_delegation_token,
    api_50_describe_user_scram_credentials,
)
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.unit.broker.rules import Rules

SCRAM = api_50_describe_user_scram_credentials.API
NO_AUTHORIZER = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


@pytest.mark.parametrize("version", range(1, 4))
async def test_there_are_no_acls_and_each_of_a_request_is_told_so(gateway, version):
    described = await gateway.ask(api_29_describe_acls.API, DescribeAclsRequest(), version)
    assert (described.error_code, described.error_message, described.resources) == (*NO_AUTHORIZER, ())
    creation = AclCreation(2, "a", 3, "User:a", "*", 3, 3)
    created = await gateway.ask(api_30_create_acls.API, CreateAclsRequest((creation,) * 2), version)
    assert [(each.error_code, each.error_message) for each in created.results] == [NO_AUTHORIZER] * 2
    deleted = await gateway.ask(api_31_delete_acls.API, DeleteAclsRequest((DeleteAclsFilter(),) * 3), version)
    assert [(each.error_code, each.error_message) for each in deleted.filter_results] == [NO_AUTHORIZER] * 3


@pytest.mark.parametrize("version", range(1, 4))
async def test_whoever_proved_nothing_gets_no_token(gateway, version):
    owner = None if version >= 3 else ""
    answer = await gateway.ask(api_38_create_delegation_token.API, CreateDelegationTokenRequest(owner, owner), version)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (answer.principal_name, answer.issue_timestamp_ms, answer.hmac) == ("ANONYMOUS", -1, b"")
    answer = await gateway.ask(api_41_describe_delegation_token.API, DescribeDelegationTokenRequest(None), version)
    assert (answer.error_code, answer.tokens) == (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ())


@pytest.mark.parametrize("version", range(1, 3))
async def test_and_may_neither_renew_nor_end_one(gateway, version):
    for api, request in (
        (api_39_renew_delegation_token.API, RenewDelegationTokenRequest(b"x", 1)),
        (api_40_expire_delegation_token.API, ExpireDelegationTokenRequest(b"x", 1)),
    ):
        answer = await gateway.ask(api, request, version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1)


async def test_no_user_has_credentials(gateway):
    answer = await gateway.ask(SCRAM, DescribeUserScramCredentialsRequest(None))
    assert (answer.error_code, answer.results) == (ErrorCode.NONE, ())
    answer = await gateway.ask(
        SCRAM, DescribeUserScramCredentialsRequest((UserName("a"), UserName("b"), UserName("b")))
    )
    assert [(each.user, each.error_code) for each in answer.results] == [
        ("a", ErrorCode.RESOURCE_NOT_FOUND),
        ("b", ErrorCode.DUPLICATE_RESOURCE),
    ]


async def test_credentials_are_described_to_who_may_describe_the_cluster(open_gateway):
    rules = Rules()
    rules.deny(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    gateway = await open_gateway(authorizer=rules)
    answer = await gateway.ask(SCRAM, DescribeUserScramCredentialsRequest(None))
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
