"""DescribeUserScramCredentials (key 50), version 0 (KIP-554).

Of a credential its mechanism and its iterations are told, nothing that could be tried out.
"""

from collections import Counter
from collections.abc import Mapping

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.scram_credential import ScramCredential
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(ctx: RequestContext, request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    """Tell which credentials the users have that are asked for, or all of them."""
    try:
        users = ctx.broker.scram_users.describe(ctx.principal)
    except ApiError as error:
        return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.message)
    wanted = Counter(each.name for each in request.users) if request.users else Counter(list(users))
    return DescribeUserScramCredentialsResponse(
        results=tuple(_result(user, users.get(user), count) for user, count in wanted.items())
    )


def _result(
    user: str, credentials: Mapping[int, ScramCredential] | None, count: int
) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user,
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
        )
    if credentials is None:
        return DescribeUserScramCredentialsResult(
            user, ErrorCode.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {user}"
        )
    infos = tuple(CredentialInfo(mechanism, each.iterations) for mechanism, each in sorted(credentials.items()))
    return DescribeUserScramCredentialsResult(user, credential_infos=infos)


API = Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, handle)
