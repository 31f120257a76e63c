"""ACLs: who may do what to which resources, from where (KIP-11, KIP-290).

    User:alice   from 10.0.0.5   may     READ       TOPIC  payments-*
    principal    host            (deny)  operation  resource pattern

The numbers are those of Kafka's protocol. A filter has ANY where it does not matter.
"""

from enum import IntEnum
from typing import Final

from msgspec import Struct

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
WILDCARD: Final = "*"
"""As a resource name of a literal pattern: all of them. As a host: everywhere."""
WILDCARD_PRINCIPAL: Final = "User:*"
ANY: Final = 1
"""In a filter: whatever the operation, the type, the pattern or the permission is."""
MATCH: Final = 2
"""In a filter: every pattern that applies to the resource of that name."""


class Operation(IntEnum):
    """What somebody does; the numbers are those of Kafka's `AclOperation`."""

    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What it is done to; the numbers are those of Kafka's `ResourceType`."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of a pattern is meant."""

    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether an ACL lets do or forbids."""

    DENY = 2
    ALLOW = 3


class AclBinding(Struct, frozen=True):
    """One ACL. It has no other identity than what it says."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        """In one line: `User:alice from * ALLOW READ TOPIC orders`."""
        pattern = "" if self.pattern_type == PatternType.LITERAL else f" ({PatternType(self.pattern_type).name})"
        return (
            f"{self.principal} from {self.host} {Permission(self.permission).name} {Operation(self.operation).name} "
            f"{ResourceType(self.resource_type).name} {self.resource_name}{pattern}"
        )


class AclFilter(Struct, frozen=True):
    """Which ACLs are meant. None, and ANY, stand for whatever there is."""

    resource_type: int = ANY
    resource_name: str | None = None
    pattern_type: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def matches(self, acl: AclBinding) -> bool:
        """Whether an ACL is among them."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: AclBinding) -> bool:
        if self.pattern_type not in (ANY, MATCH, acl.pattern_type):
            return False
        name = self.resource_name
        if name is None or name == acl.resource_name:
            return True
        if self.pattern_type != MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD
