"""A delegation token: lets whoever knows its secret act as its owner, for a while (KIP-48)."""

from typing import NamedTuple

from msgspec import Struct


class TokenParty(NamedTuple):
    """A principal that has to do with a token, by type and name."""

    type: str
    name: str

    def __str__(self) -> str:
        """As in ACLs: `User:alice`."""
        return f"{self.type}:{self.name}"


class DelegationToken(Struct, frozen=True):
    """What the cluster knows of one. Its secret follows from its id and `delegation.token.secret.key`, and is not kept.

    Times are milliseconds of the wall clock.
    """

    token_id: str
    owner: TokenParty
    requester: TokenParty
    """Who asked for it, and may be another."""
    renewers: tuple[TokenParty, ...]
    """Who may renew and end it beside the owner."""
    issued_ms: int
    expires_ms: int
    max_ms: int
    """Nobody can renew it beyond that."""

    def may_renew(self, who: TokenParty) -> bool:
        """Whether somebody may renew and end it."""
        return who == self.owner or who in self.renewers

    def is_over(self, now_ms: int) -> bool:
        """Whether it is good no more."""
        return now_ms > min(self.expires_ms, self.max_ms)
