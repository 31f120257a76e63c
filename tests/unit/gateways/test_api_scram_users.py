"""Credentials of SCRAM are set, described and removed as by Kafka (KIP-554)."""

from ottla.gateways.kafka import api_50_describe_user_scram_credentials as describe_api
from ottla.gateways.kafka import api_51_alter_user_scram_credentials as alter_api
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.security.scram import SCRAM_SHA_256, credential_of, salted_password

SALT = b"saltsalt"


def upsertion(user="alice", mechanism=1, iterations=4_096, salt=SALT, password=b"secret"):
    salted = salted_password(SCRAM_SHA_256, password, salt or b"x", 4_096)
    return ScramCredentialUpsertion(user, mechanism, iterations, salt, salted)


async def alter(gateway, *upsertions, deletions=()):
    answer = await gateway.ask(alter_api.API, AlterUserScramCredentialsRequest(tuple(deletions), upsertions))
    return {each.user: each.error_code for each in answer.results}


async def described(gateway, users=None):
    named = None if users is None else tuple(map(UserName, users))
    answer = await gateway.ask(describe_api.API, DescribeUserScramCredentialsRequest(named))
    return {
        each.user: each.error_code or [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in answer.results
    }


async def test_what_is_kept_is_what_follows_from_the_password(gateway):
    assert await alter(gateway, upsertion(), upsertion(mechanism=2, iterations=8_192)) == {"alice": 0}
    kept = gateway.image.scram_credentials["alice"][1]
    assert kept == credential_of(SCRAM_SHA_256, b"secret", SALT, 4_096)
    assert await described(gateway) == {"alice": [(1, 4_096), (2, 8_192)]}
    assert await described(gateway, ["bob", "alice"]) == {
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
        "alice": [(1, 4_096), (2, 8_192)],
    }
    assert await alter(gateway, deletions=[ScramCredentialDeletion("alice", 1)]) == {"alice": 0}
    assert await described(gateway) == {"alice": [(2, 8_192)]}
    assert await alter(gateway, deletions=[ScramCredentialDeletion("alice", 2)]) == {"alice": 0}
    assert gateway.image.scram_credentials == {}


async def test_of_a_user_all_is_done_or_nothing(gateway):
    answers = await alter(
        gateway,
        upsertion("few", iterations=4_095),
        upsertion("many", iterations=16_385),
        upsertion("", 1),
        upsertion("unknown", 3),
        upsertion("salt", salt=b""),
        upsertion("twice"),
        upsertion("twice"),
        upsertion("half"),
        upsertion("fine"),
        deletions=[ScramCredentialDeletion("half", 2), ScramCredentialDeletion("nobody", 1)],
    )
    assert answers == {
        "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "unknown": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "salt": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
        "half": ErrorCode.RESOURCE_NOT_FOUND,
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
        "fine": 0,
    }
    assert list(gateway.image.scram_credentials) == ["fine"]


async def test_librdkafka_ends_the_request_with_one_zero_byte_too_many():
    request = AlterUserScramCredentialsRequest((ScramCredentialDeletion("a", 1),), ())
    encoded = request.encode(0)
    assert alter_api.decode(0, memoryview(bytes(4) + encoded + b"\0"), 4) == request
