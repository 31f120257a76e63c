"""Who asks: what authentication found out about a client, whichever door it came by."""

from typing import Final

from msgspec import Struct


class Principal(Struct, frozen=True):
    """A name of a type; the type is `User` for everybody whom Kafka's own authentication knows."""

    type: str
    name: str

    def __str__(self) -> str:
        """As in Kafka's ACLs: `User:alice`."""
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Whoever came by a listener that authenticates nobody."""
