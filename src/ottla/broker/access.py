"""Who may do what: the question that every service asks before it acts, once for all doors.

The words are those of Kafka's ACLs (KIP-11): a principal does an operation on a resource. Until there are rules to ask,
`ALLOW_ALL` says yes to everything.
"""

from enum import IntEnum
from typing import Final, Protocol

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import BROKER, Principal

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class Operation(IntEnum):
    """What somebody does; the numbers are those of Kafka's `AclOperation`."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    """What it is done to; the numbers are those of Kafka's `ResourceType`."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


_REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
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
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
"""What makes sense for a resource (KIP-430)."""


class Authorizer(Protocol):
    """The rules. It is asked on the event loop, often: it answers from memory."""

    def allows(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """Whether the principal may."""
        ...


class AllowAll:
    """No rules: everybody may do everything."""

    def allows(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """Yes."""
        return True


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
        raise ApiError(_REFUSALS[resource_type], f"{principal} may not {operation.name} {what}")


def require_broker(principal: Principal) -> int:
    """The number of the broker that asks. Raises ApiError CLUSTER_AUTHORIZATION_FAILED for everybody else.

    What brokers say to each other is believed from those alone who proved the cluster's secret, whatever the rules
    allow, and never because a request says that it comes from a replica (CVE-2018-1288).
    """
    if principal.type != BROKER:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{principal} is not a broker of this cluster")
    return int(principal.name)


def require_that_broker(principal: Principal, broker_id: int) -> None:
    """Refuse whoever is not this very broker. Raises ApiError CLUSTER_AUTHORIZATION_FAILED."""
    if require_broker(principal) != broker_id:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{principal} speaks for broker {broker_id}")


def allowed_operations(
    authorizer: Authorizer, principal: Principal, resource_type: ResourceType, resource_name: str = CLUSTER_NAME
) -> tuple[Operation, ...]:
    """What the principal may do to a resource, of all that makes sense for it (KIP-430)."""
    every = OPERATIONS[resource_type]
    if authorizer is ALLOW_ALL:
        return every
    return tuple(each for each in every if authorizer.allows(principal, each, resource_type, resource_name))
