"""CreateDelegationToken (key 38), versions 1 to 3 (KIP-48).

2 flexible; 3 an owner other than who asks (KIP-373).
"""

from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.no_tokens import NO_TIME, NOT_ALLOWED
from ottla.model.principal import Principal
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

FIRST_VERSION_WITH_REQUESTER: Final = 3


def handle(ctx: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Refuse a token for the owner, or for who asks."""
    asks = ctx.principal
    requester = asks if ctx.api_version >= FIRST_VERSION_WITH_REQUESTER else Principal("", "")
    return CreateDelegationTokenResponse(
        error_code=NOT_ALLOWED,
        principal_type=request.owner_principal_type or asks.type,
        principal_name=request.owner_principal_name or asks.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )


API = Api(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, handle)
