"""CreateAcls (key 30), versions 1 to 3 (KIP-140).

1 patterns of resources (KIP-290); 2 flexible; 3 users as a type of resource (KIP-373).
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.decision import Outcome
from ottla.model.acl import AclBinding
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


async def handle(ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Add ACLs, each by itself."""
    acls = [
        AclBinding(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in request.creations
    ]
    outcomes: list[Outcome[None]]
    try:
        outcomes = await ctx.broker.acls.create(ctx.principal, acls)
    except ApiError as error:
        outcomes = [error] * len(acls)
    return CreateAclsResponse(
        results=tuple(
            AclCreationResult()
            if outcome is None
            else AclCreationResult(error_code=outcome.code, error_message=outcome.message)
            for outcome in outcomes
        )
    )


API = Api(ApiKey.CREATE_ACLS, 1, 3, handle, is_async=True, is_decided_by_controller=True)
