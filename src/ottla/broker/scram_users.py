"""The users that log in by SCRAM, for those who look after them (KIP-554)."""

from collections.abc import Mapping, Sequence

from ottla.broker.access import Authorizer, Operation, ResourceType, audit_log, require
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.scram_alteration import ScramAlteration, decide_scram_alteration
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.printable import printable
from ottla.model.scram_credential import SCRAM_TYPES, ScramCredential


class ScramUserService:
    """Belongs to the event loop. Its methods raise ApiError CLUSTER_AUTHORIZATION_FAILED."""

    __slots__ = ("_authorizer", "_controller")

    def __init__(self, controller: Controller, authorizer: Authorizer) -> None:
        self._controller = controller
        self._authorizer = authorizer

    def describe(self, principal: Principal) -> Mapping[str, Mapping[int, ScramCredential]]:
        """The users, each with what it has by mechanism."""
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.CLUSTER)
        return self._controller.image.scram_credentials

    async def alter(self, principal: Principal, alterations: Sequence[ScramAlteration]) -> dict[str, ApiError | None]:
        """Set and remove credentials: all that is asked for a user, or nothing and the reason, by user.

        Raises ApiError NOT_CONTROLLER and KAFKA_STORAGE_ERROR, too.
        """
        require(self._authorizer, principal, Operation.ALTER, ResourceType.CLUSTER)
        outcomes = await self._controller.decide_for_client(lambda image: decide_scram_alteration(image, alterations))
        for each in alterations:
            if outcomes[each.user] is None:
                audit_log.info(
                    "%s from %s %s the %s credential of %s",
                    printable(str(principal)),
                    principal.host or "here",
                    "removed" if each.credential is None else "set",
                    SCRAM_TYPES[each.mechanism],
                    printable(each.user),
                )
        return outcomes
