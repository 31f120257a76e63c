"""Whom a client quota is for: a user, a client id, both together, or an address; or the default of such (KIP-546)."""

from collections.abc import Iterable
from typing import Final

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Types with their names, sorted by type. A name of None stands for everybody of that type who has no quota of his own.

    (("client-id", "etl"), ("user", None))    the client "etl" of whichever user
"""


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity that has these parts, in whatever order they come.

    >>> quota_entity([("user", "anna"), ("client-id", None)])
    (('client-id', None), ('user', 'anna'))
    """
    return tuple(sorted(parts, key=lambda part: part[0]))


def entity_text(entity: QuotaEntity) -> str:
    """An entity as a message names it: "user anna, any client-id"."""
    return ", ".join(f"any {kind}" if name is None else f"{kind} {name}" for kind, name in entity)
