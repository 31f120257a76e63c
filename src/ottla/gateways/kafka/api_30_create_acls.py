"""CreateAcls (key 30), versions 1 to 3 (KIP-140).

1 patterns of resources (KIP-290); 2 flexible; 3 users as a type of resource (KIP-373).
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.no_authorizer import NO_AUTHORIZER, SECURITY_DISABLED
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Say that access is not controlled: a rule that nothing asks would be a promise."""
    del ctx
    refused = AclCreationResult(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=(refused,) * len(request.creations))


API = Api(ApiKey.CREATE_ACLS, 1, 3, handle)
