"""The filters of ACLs that requests have."""

from typing import Final

from ottla.model.acl import ANY, MATCH, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.messages.delete_acls import DeleteAclsFilter
from ottla.protocol.messages.describe_acls import DescribeAclsRequest

_KNOWN: Final = {
    "resource_type_filter": frozenset({ANY, *ResourceType}),
    "pattern_type_filter": frozenset({ANY, MATCH, *PatternType}),
    "operation": frozenset({ANY, *Operation}),
    "permission_type": frozenset({ANY, *Permission}),
}


def acl_filter(fields: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The filter of a request. Raises ApiError INVALID_REQUEST for what is unknown: it could match too much."""
    for name, known in _KNOWN.items():
        if getattr(fields, name) not in known:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"The filter has {name} {getattr(fields, name)}, which is UNKNOWN"
            )
    return AclFilter(
        fields.resource_type_filter,
        fields.resource_name_filter,
        fields.pattern_type_filter,
        fields.principal_filter,
        fields.host_filter,
        fields.operation,
        fields.permission_type,
    )
