"""Rules of access that a test makes as it goes."""

from ottla.broker.access import Operation, ResourceType
from ottla.model.principal import Principal


class Rules:
    """Everybody may do everything but what is denied: (operation, resource type, resource name)."""

    version = 0
    by_host = False

    def __init__(self) -> None:
        self.denied: set[tuple[Operation, ResourceType, str]] = set()

    def deny(self, operation: Operation, resource_type: ResourceType, resource_name: str) -> None:
        """From now on nobody may."""
        self.denied.add((operation, resource_type, resource_name))

    def allows_on_any(self, principal: Principal, operation: Operation, resource_type: ResourceType) -> bool:
        """Unless it is denied on the name `*`."""
        return (operation, resource_type, "*") not in self.denied

    def allows(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        return (operation, resource_type, resource_name) not in self.denied
