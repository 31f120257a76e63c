"""Which bound a quota sets for a client, by Kafka's order of entities, the most special first (KIP-55, KIP-124).

    1  user, client-id            5  any user, any client-id
    2  user, any client-id        6  any user
    3  user                       7  client-id
    4  any user, client-id        8  any client-id

The entity that is found also says with whom the bound is shared: that of a user (3, 6) by all clients of the user, that
of a client id (7, 8) by all users of it, any other by nobody.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.model.quota_entity import CLIENT_ID, IP, USER, QuotaEntity

ClientQuotas = Mapping[QuotaEntity, Mapping[str, float]]
"""The quotas of a cluster: values by key, by entity."""

Sharer = tuple[str | None, str | None]
"""Who shares a bound: a user, a client id, or both; None for whoever it is."""


class Limit(NamedTuple):
    """What a client is bound to, and who else counts towards it."""

    bound: float
    sharer: Sharer


FOUND_MAX: Final = 5_000
"""What was found is kept for so many clients: every request asks. Of more all is found anew."""


class QuotaLimits:
    """The bounds of one key of quotas, such as `producer_byte_rate`. Never changes. Belongs to the event loop."""

    __slots__ = ("_by_entity", "_found")

    def __init__(self, quotas: ClientQuotas, key: str) -> None:
        self._by_entity = {entity: values[key] for entity, values in quotas.items() if key in values}
        self._found: dict[tuple[str, str], Limit | None] = {}

    def __bool__(self) -> bool:
        return bool(self._by_entity)

    def find(self, user: str, client_id: str) -> Limit | None:
        """The bound of a client of a user, or None where there is none."""
        if not self._by_entity:
            return None
        client = user, client_id
        try:
            return self._found[client]
        except KeyError:
            if len(self._found) >= FOUND_MAX:
                self._found.clear()
            limit = self._found[client] = self._look_up(user, client_id)
            return limit

    def _look_up(self, user: str, client_id: str) -> Limit | None:
        for entity, sharer in _candidates(user, client_id):
            bound = self._by_entity.get(entity)
            if bound is not None:
                return Limit(bound, sharer)
        return None

    def of_ip(self, ip: str) -> float | None:
        """The bound of an address, or None where there is none."""
        bound = self._by_entity.get(((IP, ip),))
        return self._by_entity.get(_ANY_IP) if bound is None else bound


_ANY_IP: Final[QuotaEntity] = ((IP, None),)


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, Sharer]]:
    for user_name in (user, None):
        for client_name in (client_id, None):
            yield ((CLIENT_ID, client_name), (USER, user_name)), (user, client_id)
        yield ((USER, user_name),), (user, None)
    for client_name in (client_id, None):
        yield ((CLIENT_ID, client_name),), (None, client_id)
