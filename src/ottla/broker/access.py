"""Who may do what: the question that every service asks before it acts, for all gateways.

The terms are those of Kafka's ACLs (KIP-11): a principal does an operation on a resource. `ALLOW_ALL` is the authorizer
of a broker without ACLs; services ask it like any other.
"""

import logging
from typing import Final, Protocol

from ottla.model.acl import CLUSTER_NAME, Operation, ResourceType
from ottla.model.error_code import ErrorCode
from ottla.model.error_texts import ERROR_TEXTS
from ottla.model.errors import ApiError
from ottla.model.principal import BROKER, Principal

audit_log = logging.getLogger("ottla.audit")
"""Where it is said who was denied what, and who changed who may do what."""

__all__ = [
    "ALLOW_ALL",
    "CLUSTER_NAME",
    "OPERATIONS",
    "AllowAll",
    "Authorizer",
    "Operation",
    "ResourceType",
    "allowed_operations",
    "audit_log",
    "require",
    "require_broker",
    "require_that_broker",
]

_REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What makes sense for a resource (KIP-430)."""


class Authorizer(Protocol):
    """The rules. It is asked on the event loop, often: it answers from memory."""

    @property
    def version(self) -> int:
        """Rises when an answer may have changed: an answer that was kept is asked for again then."""
        ...

    @property
    def by_host(self) -> bool:
        """Whether it makes a difference from where a principal asks."""
        ...

    def allows(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """Whether the principal may."""
        ...

    def allows_on_any(self, principal: Principal, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether there may be a resource of the type on which the principal may (KIP-679)."""
        ...


class AllowAll:
    """No rules: everybody may do everything."""

    version = 0
    by_host = False

    def allows_on_any(self, principal: Principal, operation: Operation, resource_type: ResourceType) -> bool:
        """Yes."""
        return True

    def allows(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """Yes."""
        return True


_REFUSAL_CODES: Final = frozenset(_REFUSALS.values())
_NOT_A_BROKER: Final = ERROR_TEXTS[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]

ALLOW_ALL: Final = AllowAll()


def require(
    authorizer: Authorizer,
    principal: Principal,
    operation: Operation,
    resource_type: ResourceType,
    resource_name: str = CLUSTER_NAME,
) -> None:
    """Refuse what the principal may not do. Raises ApiError with the AUTHORIZATION_FAILED of the resource."""
    if not authorizer.allows(principal, operation, resource_type, resource_name):
        what = "the cluster" if resource_type is ResourceType.CLUSTER else resource_name
        code = _REFUSALS[resource_type]
        raise ApiError(code, f"{ERROR_TEXTS[code]}: {principal} may not {operation.name} {what}")


def is_refusal(error: ApiError) -> bool:
    """Whether somebody was not allowed to do what he asked for."""
    return error.code in _REFUSAL_CODES


def require_broker(principal: Principal) -> int:
    """The number of the broker that asks. Raises ApiError CLUSTER_AUTHORIZATION_FAILED for everybody else.

    What brokers say to each other is believed from those alone who proved the cluster's secret, whatever the rules
    allow, and never because a request says that it comes from a replica (CVE-2018-1288).
    """
    if principal.type != BROKER:
        raise ApiError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{_NOT_A_BROKER}: {principal} is not a broker of this cluster"
        )
    return int(principal.name)


def require_that_broker(principal: Principal, broker_id: int) -> None:
    """Refuse whoever is not this very broker. Raises ApiError CLUSTER_AUTHORIZATION_FAILED."""
    if require_broker(principal) != broker_id:
        raise ApiError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{_NOT_A_BROKER}: {principal} speaks for broker {broker_id}"
        )


def allowed_operations(
    authorizer: Authorizer, principal: Principal, resource_type: ResourceType, resource_name: str = CLUSTER_NAME
) -> tuple[Operation, ...]:
    """What the principal may do to a resource, of all that makes sense for it (KIP-430)."""
    every = OPERATIONS[resource_type]
    return tuple(each for each in every if authorizer.allows(principal, each, resource_type, resource_name))
