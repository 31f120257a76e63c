"""DescribeUserScramCredentials (key 50), version 0 (KIP-554).

There are no users with credentials, since nobody is authenticated. Kafka's tools ask whenever they describe a user.
"""

from collections import Counter

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(ctx: RequestContext, request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    """Tell of each user that is asked for that it has no credentials."""
    try:
        ctx.broker.cluster.require_describer(ctx.principal)
    except ApiError as error:
        return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.message)
    occurrences = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_message=None, results=tuple(_result(user, count) for user, count in occurrences.items())
    )


def _result(user: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code, message = ErrorCode.DUPLICATE_RESOURCE, "the request names this user more than once"
    else:
        code, message = ErrorCode.RESOURCE_NOT_FOUND, "this user has no credentials: nobody is authenticated"
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)


API = Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, handle)
