"""Client quotas: who is bound to what, and changing it (KIP-546)."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.client.errors import broker_error
from ottla.client.io.cluster import Cluster
from ottla.model.quota_entity import QuotaEntity, entity_text, quota_entity
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from ottla.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


class Match(IntEnum):
    """How an entity is asked for."""

    EXACT = 0
    DEFAULT = 1
    """The one that stands for all that have none of their own."""
    ANY = 2


class QuotaFilter(NamedTuple):
    """A part that entities must have: a user, a client-id or an ip. `name` is given for exact matches only."""

    entity_type: str
    match: Match
    name: str | None = None


async def describe_quotas(
    cluster: Cluster, filters: Iterable[QuotaFilter] = (), *, strict: bool = False
) -> dict[QuotaEntity, dict[str, float]]:
    """The quotas of all entities that have every part, and with `strict` no other. Raises BrokerError."""
    request = DescribeClientQuotasRequest(
        components=tuple(
            ComponentData(entity_type=each.entity_type, match_type=each.match, match=each.name) for each in filters
        ),
        strict=strict,
    )
    response = await cluster.ask_any(request, DescribeClientQuotasResponse)
    if response.error_code:
        raise broker_error(response.error_code, "quotas were not described", response.error_message)
    return {
        quota_entity((part.entity_type, part.entity_name) for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in response.entries or ()
    }


async def alter_quotas(cluster: Cluster, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
    """Set quotas of an entity; None takes one away. All or nothing. Raises BrokerError."""
    entry = RequestEntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
        ops=tuple(
            OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in changes.items()
        ),
    )
    response = await cluster.ask_any(AlterClientQuotasRequest(entries=(entry,)), AlterClientQuotasResponse)
    [result] = response.entries
    if result.error_code:
        what = f"the quotas of {entity_text(entity)} were not changed"
        raise broker_error(result.error_code, what, result.error_message)
