"""The ACLs of the cluster, for those who look after them (KIP-140)."""

from collections.abc import Mapping, Sequence

from ottla.broker.access import Authorizer, Operation, ResourceType, audit_log, require
from ottla.metadata.controller.acl_alteration import decide_acl_creation, decide_acl_deletion
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.decision import Outcome
from ottla.model.acl import AclBinding, AclFilter
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.printable import printable

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's own words: its tools show them, and people look for them."""


class AclService:
    """Belongs to the event loop. Its methods raise ApiError CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED (there is
    no authorizer, so a rule would be a promise that nobody keeps), NOT_CONTROLLER and KAFKA_STORAGE_ERROR.
    """

    __slots__ = ("_authorizer", "_controller", "_is_enabled")

    def __init__(self, controller: Controller, authorizer: Authorizer, *, is_enabled: bool) -> None:
        self._controller = controller
        self._authorizer = authorizer
        self._is_enabled = is_enabled

    def describe(self, principal: Principal, wanted: AclFilter) -> Mapping[tuple[int, str, int], list[AclBinding]]:
        """The ACLs that a filter matches, by their resource pattern: type, name and kind of pattern."""
        self.require(principal, Operation.DESCRIBE)
        found: dict[tuple[int, str, int], list[AclBinding]] = {}
        for acl in self._controller.image.acls:
            if wanted.matches(acl):
                pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
                found.setdefault(pattern, []).append(acl)
        return found

    async def create(self, principal: Principal, acls: Sequence[AclBinding]) -> list[Outcome[None]]:
        """Add ACLs; the outcomes in their order."""
        self.require(principal, Operation.ALTER)
        outcomes = await self._controller.decide_for_client(lambda image: decide_acl_creation(image, acls))
        for acl, outcome in zip(acls, outcomes, strict=True):
            if outcome is None:
                audit_log.info("%s from %s added the ACL %s", *_who(principal), printable(str(acl)))
        return outcomes

    async def delete(self, principal: Principal, filters: Sequence[AclFilter]) -> list[tuple[AclBinding, ...]]:
        """Remove ACLs; those that each filter matched."""
        self.require(principal, Operation.ALTER)
        matched = await self._controller.decide_for_client(lambda image: decide_acl_deletion(image, filters))
        for acl in dict.fromkeys(acl for of_filter in matched for acl in of_filter):
            audit_log.info("%s from %s removed the ACL %s", *_who(principal), printable(str(acl)))
        return matched

    def require(self, principal: Principal, operation: Operation) -> None:
        """Refuse who may not look at ACLs or change them, and everybody where there are none."""
        require(self._authorizer, principal, operation, ResourceType.CLUSTER)
        if not self._is_enabled:
            raise ApiError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def _who(principal: Principal) -> tuple[str, str]:
    return printable(str(principal)), principal.host or "here"
