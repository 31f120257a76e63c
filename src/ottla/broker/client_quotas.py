"""Which clients have quotas, for those who look after them (KIP-546)."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from msgspec import Struct

from ottla.broker.access import Authorizer, Operation, ResourceType, require
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.quota_alteration import QuotaAlteration
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.quota_entity import CLIENT_ID, IP, USER, QuotaEntity
from ottla.settings.definition import shortened

_TYPES: Final = frozenset({USER, CLIENT_ID, IP})


class MatchType(IntEnum):
    """How a name of an entity is asked for; the numbers are those of DescribeClientQuotas."""

    EXACT = 0
    DEFAULT = 1
    """The entity that stands for all that have none of their own."""
    ANY = 2
    """Whatever the name is, the default included."""


_MATCH_TYPES: Final = frozenset(map(int, MatchType))


class QuotaFilter(Struct, frozen=True):
    """One part that an entity must have."""

    entity_type: str
    match_type: int
    name: str | None


class ClientQuotaService:
    """Belongs to the event loop."""

    __slots__ = ("_authorizer", "_controller")

    def __init__(self, controller: Controller, authorizer: Authorizer) -> None:
        self._controller = controller
        self._authorizer = authorizer

    def describe(
        self, principal: Principal, filters: Sequence[QuotaFilter], *, is_strict: bool
    ) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
        """The entities that have every part that is asked for, and with `is_strict` no other, with their quotas.

        Raises ApiError INVALID_REQUEST, UNSUPPORTED_VERSION (a type of entity that nobody knows),
        CLUSTER_AUTHORIZATION_FAILED.
        """
        require(self._authorizer, principal, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
        _check(filters)
        return [
            (entity, quotas)
            for entity, quotas in self._controller.image.client_quotas.items()
            if _matches(entity, filters, is_strict=is_strict)
        ]

    async def alter(
        self, principal: Principal, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> list[Outcome[None]]:
        """Change quotas; of each entity all that was asked, or nothing and the reason.

        Raises ApiError CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, KAFKA_STORAGE_ERROR.
        """
        require(self._authorizer, principal, Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
        return await self._controller.alter_client_quotas(alterations, validate_only=validate_only)


def _check(filters: Sequence[QuotaFilter]) -> None:
    seen: set[str] = set()
    for each in filters:
        kind = each.entity_type
        if not kind:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type")
        if kind in seen:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Entity type {shortened(kind)} cannot appear more than once in the filter"
            )
        if kind not in _TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {shortened(kind)}")
        if each.match_type not in _MATCH_TYPES:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {each.match_type}")
        if (each.match_type == MatchType.EXACT) != (each.name is not None):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "an entity filter needs a match string to match exactly, and only then"
            )
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination: an IP is not used with users or client ids",
        )


def _matches(entity: QuotaEntity, filters: Sequence[QuotaFilter], *, is_strict: bool) -> bool:
    parts = dict(entity)
    if is_strict and len(parts) != len(filters):
        return False
    return all(
        each.entity_type in parts and (each.match_type == MatchType.ANY or parts[each.entity_type] == each.name)
        for each in filters
    )
