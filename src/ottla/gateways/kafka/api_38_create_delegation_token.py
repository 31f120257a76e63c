"""CreateDelegationToken (key 38), versions 1 to 3 (KIP-48).

2 flexible; 3 an owner other than who asks (KIP-373).
"""

from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.delegation_token import TokenParty
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

NO_TIME: Final = -1
"""A time of a token that there is not."""
FIRST_VERSION_WITH_REQUESTER: Final = 3


async def handle(ctx: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Make a token for the owner, or for who asks."""
    asks, service = TokenParty(ctx.principal.type, ctx.principal.name), ctx.broker.delegation_tokens
    owner = asks
    if request.owner_principal_name:
        owner = TokenParty(request.owner_principal_type or "", request.owner_principal_name)
    requester = asks if ctx.api_version >= FIRST_VERSION_WITH_REQUESTER else TokenParty("", "")
    renewers = [TokenParty(each.principal_type, each.principal_name) for each in request.renewers]
    try:
        token = await service.create(ctx.principal, owner, renewers, request.max_lifetime_ms)
    except ApiError as error:
        return CreateDelegationTokenResponse(error.code, *owner, *requester, NO_TIME, NO_TIME, NO_TIME)
    return CreateDelegationTokenResponse(
        0,
        *owner,
        *requester,
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
        token.token_id,
        service.secret_of(token),
    )


API = Api(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, handle, is_async=True, is_decided_by_controller=True)
