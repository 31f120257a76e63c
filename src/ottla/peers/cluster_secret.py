"""What the brokers of a cluster know and nobody else does, and what a broker says with it about itself.

A broker that connects to another proves the secret by SCRAM, and has the other prove it too. Its first message says
who it is, which cluster it belongs to and which broker it means to reach; all that follows is signed with it::

    n,,n=1,r=NONCE,cluster=wLAJf7yEQxOj3k,broker=2

So a broker of another cluster with the same secret is refused, and whoever passes the messages of a broker on, to a
third one or back to itself, gains nothing.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ottla.security.scram import (
    ITERATIONS_MIN,
    SCRAM_SHA_512,
    Mechanism,
    ScramError,
    base64_of,
    credential_of,
)
from ottla.security.scram_server import AnyOf

MECHANISM: Final[Mechanism] = SCRAM_SHA_512
ITERATIONS: Final = ITERATIONS_MIN
"""The secret that a cluster makes has 256 random bits: more iterations would add nothing but work."""
SALT_BYTES: Final = 16
NONCE_BYTES: Final = 24
CLUSTER, BROKER = "cluster", "broker"
_ID_DIGITS_MAX: Final = 10


class BrokerIdentity(Struct, frozen=True):
    """Who this broker is among its peers."""

    broker_id: int
    cluster_id: str
    secret: bytes
    accepted: tuple[bytes, ...] = ()
    """Other secrets that brokers may prove to this one while the secret is replaced; it proves none of them."""


def nonce(random_bytes: bytes) -> str:
    """A nonce of `NONCE_BYTES` random bytes."""
    return base64_of(random_bytes)


def introduction(identity: BrokerIdentity, peer_id: int) -> dict[str, str]:
    """What the first message says beside the broker's own id."""
    return {CLUSTER: identity.cluster_id, BROKER: str(peer_id)}


def broker_id_of(user: str) -> int:
    """The broker that a user name stands for. Raises ScramError when it is none."""
    if not (user.isascii() and user.isdecimal() and len(user) <= _ID_DIGITS_MAX and str(int(user)) == user):
        raise ScramError("a broker's name is its number")
    return int(user)


class ClusterCredential:
    """What this broker checks other brokers against: made of the secret once, milliseconds of work."""

    __slots__ = ("_credentials", "_identity")

    def __init__(self, identity: BrokerIdentity, salt: bytes) -> None:
        self._identity = identity
        secrets = (identity.secret, *identity.accepted)
        self._credentials = AnyOf(tuple(credential_of(MECHANISM, each, salt, ITERATIONS) for each in secrets))

    def of(self, user: str, said: Mapping[str, str]) -> AnyOf:
        """What to check a broker against that says this about itself. Raises ScramError for one that is wrong here."""
        own = self._identity
        if said.get(CLUSTER) != own.cluster_id:
            raise ScramError("it belongs to another cluster than this one")  # whose id strangers are not told
        if said.get(BROKER) != str(own.broker_id):
            raise ScramError(f"it means to reach another broker; this is broker {own.broker_id}")
        if broker_id_of(user) == own.broker_id:
            raise ScramError(f"it says it is broker {own.broker_id}, which is this one")
        return self._credentials
