"""DescribeAcls (key 29), versions 1 to 3 (KIP-140).

1 patterns of resources (KIP-290); 2 flexible; 3 users as a type of resource (KIP-373).
"""

from ottla.broker.access import Operation
from ottla.gateways.kafka.acl_filter import acl_filter
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Tell which ACLs there are."""
    try:
        ctx.broker.acls.require(ctx.principal, Operation.DESCRIBE)
        found = ctx.broker.acls.describe(ctx.principal, acl_filter(request))
    except ApiError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    return DescribeAclsResponse(
        resources=tuple(
            DescribeAclsResource(
                *pattern, tuple(AclDescription(acl.principal, acl.host, acl.operation, acl.permission) for acl in acls)
            )
            for pattern, acls in found.items()
        ),
    )


API = Api(ApiKey.DESCRIBE_ACLS, 1, 3, handle)
