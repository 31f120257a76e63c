"""Decides about ACLs (KIP-140): each creation and each filter by itself.

Errors, in Kafka's words: INVALID_REQUEST (a type, a pattern, an operation or a permission that no ACL has, an empty
name, another name than the one that the cluster has, a principal without a type). POLICY_VIOLATION says that there are
as many as may be.
"""

from collections.abc import Sequence
from typing import Final

from ottla.metadata.controller.decision import Decision, Outcome
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import AclRecord
from ottla.model.acl import CLUSTER_NAME, AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

ACLS_MAX: Final = 100_000
"""They are kept in the metadata, and each decision about a resource may have to look at several."""
NAME_BYTES_MAX: Final = 4_096
"""Of a resource, a principal or a host."""

_OPERATIONS: Final = frozenset(map(int, Operation))
_TYPES: Final = frozenset(map(int, ResourceType))
_PATTERNS: Final = frozenset(map(int, PatternType))
_PERMISSIONS: Final = frozenset(map(int, Permission))
_UNKNOWN, _ANY, _MATCH = "UNKNOWN", "ANY", "MATCH"


def decide_acl_creation(image: MetadataImage, acls: Sequence[AclBinding]) -> Decision[list[Outcome[None]]]:
    """Add ACLs. One that is there already stays as it is, which is no error; the outcomes in their order."""
    outcomes: list[Outcome[None]] = []
    added: dict[AclBinding, None] = {}
    for acl in acls:
        try:
            require_valid_acl(acl)
            if acl not in image.acls:
                if len(image.acls) + len(added) >= ACLS_MAX:
                    raise ApiError(ErrorCode.POLICY_VIOLATION, f"there are {ACLS_MAX} ACLs already")
                added[acl] = None
            outcomes.append(None)
        except ApiError as error:
            outcomes.append(error)
    records = tuple(AclRecord(acl, True) for acl in added)
    return Decision(records, outcomes)


def decide_acl_deletion(image: MetadataImage, filters: Sequence[AclFilter]) -> Decision[list[tuple[AclBinding, ...]]]:
    """Remove what the filters match; what each of them matched, in their order."""
    matched = [tuple(acl for acl in image.acls if each.matches(acl)) for each in filters]
    removed = dict.fromkeys(acl for each in matched for acl in each)
    records = tuple(AclRecord(acl, False) for acl in removed)
    return Decision(records, matched)


def require_valid_acl(acl: AclBinding) -> None:
    """Raises ApiError INVALID_REQUEST for what is no ACL."""
    if acl.resource_type not in _TYPES:
        raise _refused(f"Invalid resourceType {_ANY if acl.resource_type == 1 else _UNKNOWN}")
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise _refused(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise _refused("Invalid empty resource name")
    if acl.pattern_type not in _PATTERNS:
        raise _refused(f"Invalid patternType {({1: _ANY, 2: _MATCH}).get(acl.pattern_type, _UNKNOWN)}")
    if acl.operation not in _OPERATIONS:
        raise _refused(f"Invalid operation {_ANY if acl.operation == 1 else _UNKNOWN}")
    if acl.permission not in _PERMISSIONS:
        raise _refused(f"Invalid permissionType {_ANY if acl.permission == 1 else _UNKNOWN}")
    for text in (acl.resource_name, acl.principal, acl.host):
        if len(text.encode()) > NAME_BYTES_MAX:
            raise _refused(f"a name of an ACL may have {NAME_BYTES_MAX} bytes at most")
    if ":" not in acl.principal:
        raise _refused(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )


def _refused(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
