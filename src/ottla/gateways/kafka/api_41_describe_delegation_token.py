"""DescribeDelegationToken (key 41), versions 1 to 3 (KIP-48).

2 flexible; 3 who asked for a token (KIP-373).
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.delegation_token import DelegationToken, TokenParty
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(ctx: RequestContext, request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    """Show the tokens of owners, None for all, with their secrets: to those who may see them."""
    owners = None
    if request.owners is not None:
        owners = [TokenParty(each.principal_type, each.principal_name) for each in request.owners]
    service = ctx.broker.delegation_tokens
    try:
        tokens = service.describe(ctx.principal, owners)
    except ApiError as error:
        return DescribeDelegationTokenResponse(error.code)
    return DescribeDelegationTokenResponse(0, tuple(_described(each, service.secret_of(each)) for each in tokens))


def _described(token: DelegationToken, secret: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        *token.owner,
        *token.requester,
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
        token.token_id,
        secret,
        tuple(DescribedDelegationTokenRenewer(*each) for each in token.renewers),
    )


API = Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, handle)
