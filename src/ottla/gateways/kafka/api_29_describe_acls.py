"""DescribeAcls (key 29), versions 1 to 3 (KIP-140).

1 patterns of resources (KIP-290); 2 flexible; 3 users as a type of resource (KIP-373).
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.no_authorizer import NO_AUTHORIZER, SECURITY_DISABLED
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Say that access is not controlled."""
    del ctx, request
    return DescribeAclsResponse(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER)


API = Api(ApiKey.DESCRIBE_ACLS, 1, 3, handle)
