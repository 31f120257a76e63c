"""The users that log in by SCRAM (KIP-554). A password does not leave this process: what is sent was salted here."""

from typing import Final

from ottla.client.errors import broker_error
from ottla.client.io.cluster import Cluster
from ottla.model.scram_credential import SCRAM_TYPES
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from ottla.security.scram import MECHANISMS, salted_password

SALT_BYTES: Final = 16
_NUMBERS: Final = {name: number for number, name in SCRAM_TYPES.items()}


async def describe_scram_users(cluster: Cluster) -> dict[str, dict[str, int]]:
    """The users, each with its mechanisms and their iterations. Raises BrokerError."""
    response = await cluster.ask_any(DescribeUserScramCredentialsRequest(None), DescribeUserScramCredentialsResponse)
    if response.error_code:
        raise broker_error(response.error_code, "users were not described", response.error_message)
    return {
        result.user: {
            SCRAM_TYPES.get(each.mechanism, str(each.mechanism)): each.iterations for each in result.credential_infos
        }
        for result in response.results
        if not result.error_code
    }


async def set_scram_credential(cluster: Cluster, user: str, mechanism: str, password: str, iterations: int) -> None:
    """Let a user log in with a password. Raises BrokerError."""
    salt = cluster.io.rng.token_bytes(SALT_BYTES)
    salted = salted_password(MECHANISMS[mechanism], password.encode(), salt, iterations)
    upsertion = ScramCredentialUpsertion(user, _NUMBERS[mechanism], iterations, salt, salted)
    await _alter(cluster, AlterUserScramCredentialsRequest((), (upsertion,)), f"the password of {user!r} was not set")


async def delete_scram_credentials(cluster: Cluster, user: str, mechanisms: list[str]) -> None:
    """Take mechanisms from a user. Raises BrokerError."""
    deletions = tuple(ScramCredentialDeletion(user, _NUMBERS[each]) for each in mechanisms)
    await _alter(cluster, AlterUserScramCredentialsRequest(deletions, ()), f"the user {user!r} was not removed")


async def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest, what: str) -> None:
    response = await cluster.ask_any(request, AlterUserScramCredentialsResponse)
    for result in response.results:
        if result.error_code:
            raise broker_error(result.error_code, what, result.error_message)
