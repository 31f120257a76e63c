"""DeleteAcls (key 31), versions 1 to 3 (KIP-140).

1 patterns of resources (KIP-290); 2 flexible; 3 users as a type of resource (KIP-373).
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.no_authorizer import NO_AUTHORIZER, SECURITY_DISABLED
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Say that access is not controlled."""
    del ctx
    refused = DeleteAclsFilterResult(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=(refused,) * len(request.filters))


API = Api(ApiKey.DELETE_ACLS, 1, 3, handle)
