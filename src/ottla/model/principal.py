"""Who asks: what authentication found out about a client, whichever listener it came by."""

from typing import Final

from msgspec import Struct


class Principal(Struct, frozen=True):
    """A name of a type; the type is `User` for everybody whom Kafka's own authentication knows."""

    type: str
    name: str
    host: str = ""
    """The address of the client, where ACLs are kept, which may name it; else nothing."""
    by_token: bool = False
    """Whether a delegation token proved it (KIP-48): then it gets no further tokens."""

    def __str__(self) -> str:
        """As in Kafka's ACLs: `User:alice`."""
        return f"{self.type}:{self.name}"


BROKER: Final = "Broker"
"""The type of brokers that have proved the cluster's secret. Nobody else gets it, whatever a client says of itself."""


def broker_principal(broker_id: int) -> Principal:
    """Another broker of this cluster."""
    return Principal(BROKER, str(broker_id))


USER: Final = "User"

ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Whoever came by a listener that authenticates nobody."""
