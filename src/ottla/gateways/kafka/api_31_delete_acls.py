"""DeleteAcls (key 31), versions 1 to 3 (KIP-140).

1 patterns of resources (KIP-290); 2 flexible; 3 users as a type of resource (KIP-373).
"""

from collections.abc import Iterable

from ottla.broker.access import Operation
from ottla.gateways.kafka.acl_filter import acl_filter
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.decision import Outcome
from ottla.model.acl import AclBinding, AclFilter
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def handle(ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Remove ACLs, and tell which."""
    try:
        ctx.broker.acls.require(ctx.principal, Operation.ALTER)
        filters = [_filter(each) for each in request.filters]
        matched = iter(
            await ctx.broker.acls.delete(ctx.principal, [each for each in filters if isinstance(each, AclFilter)])
        )
    except ApiError as error:
        return DeleteAclsResponse(filter_results=(_refused(error),) * len(request.filters))
    return DeleteAclsResponse(
        filter_results=tuple(
            _refused(each) if isinstance(each, ApiError) else _result(next(matched)) for each in filters
        )
    )


def _filter(fields: DeleteAclsFilter) -> Outcome[AclFilter]:
    try:
        return acl_filter(fields)
    except ApiError as error:
        return error


def _refused(error: ApiError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=error.message)


def _result(matched: Iterable[AclBinding]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=tuple(
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in matched
        ),
    )


API = Api(ApiKey.DELETE_ACLS, 1, 3, handle, is_async=True, is_decided_by_controller=True)
