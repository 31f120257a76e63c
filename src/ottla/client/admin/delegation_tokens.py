"""Delegation tokens (KIP-48, KIP-373): who has one logs in as its owner, by SCRAM."""

import base64
from collections.abc import Sequence

from msgspec import Struct

from ottla.client.errors import broker_error
from ottla.client.io.cluster import Cluster
from ottla.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

AS_THE_BROKER_SAYS = -1
"""A time that the settings of the broker have."""


class DelegationToken(Struct, frozen=True):
    """Times are milliseconds since 1970."""

    token_id: str
    hmac: bytes
    owner: str
    """`User:anna`."""
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """It cannot be renewed beyond this time."""

    @property
    def secret(self) -> str:
        """The password that goes with the id."""
        return base64.b64encode(self.hmac).decode()

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"<DelegationToken {self.token_id} of {self.owner}>"


async def create_token(
    cluster: Cluster, owner: str | None = None, renewers: Sequence[str] = (), lifetime_ms: int = AS_THE_BROKER_SAYS
) -> DelegationToken:
    """Make one for an owner, `User:anna`, or for who asks. Raises BrokerError."""
    kind, name = _parts(owner) if owner else (None, None)
    asked_renewers = tuple(CreatableRenewers(*_parts(each)) for each in renewers)
    request = CreateDelegationTokenRequest(kind, name, asked_renewers, lifetime_ms)
    made = await cluster.ask_any(request, CreateDelegationTokenResponse)
    if made.error_code:
        raise broker_error(made.error_code, "the token was not created")
    return DelegationToken(
        made.token_id,
        bytes(made.hmac),
        f"{made.principal_type}:{made.principal_name}",
        tuple(renewers),
        made.issue_timestamp_ms,
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )


async def describe_tokens(cluster: Cluster, owners: Sequence[str] | None = None) -> list[DelegationToken]:
    """Those that may be seen, of these owners or of all, by their times. Raises BrokerError."""
    wanted = None if owners is None else tuple(DescribeDelegationTokenOwner(*_parts(each)) for each in owners)
    answer = await cluster.ask_any(DescribeDelegationTokenRequest(wanted), DescribeDelegationTokenResponse)
    if answer.error_code:
        raise broker_error(answer.error_code, "tokens were not described")
    found = [
        DelegationToken(
            each.token_id,
            bytes(each.hmac),
            f"{each.principal_type}:{each.principal_name}",
            tuple(f"{of.principal_type}:{of.principal_name}" for of in each.renewers),
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
        )
        for each in answer.tokens
    ]
    return sorted(found, key=lambda each: (each.issued_ms, each.token_id))


async def renew_token(cluster: Cluster, hmac: bytes, period_ms: int = AS_THE_BROKER_SAYS) -> int:
    """Have it last longer; returns when it ends now. Raises BrokerError."""
    answer = await cluster.ask_any(RenewDelegationTokenRequest(hmac, period_ms), RenewDelegationTokenResponse)
    if answer.error_code:
        raise broker_error(answer.error_code, "the token was not renewed")
    return answer.expiry_timestamp_ms


async def expire_token(cluster: Cluster, hmac: bytes, after_ms: int | None = None) -> int:
    """End it, at once or after a time; returns when it ends. Raises BrokerError."""
    period_ms = -1 if after_ms is None else after_ms
    answer = await cluster.ask_any(ExpireDelegationTokenRequest(hmac, period_ms), ExpireDelegationTokenResponse)
    if answer.error_code:
        raise broker_error(answer.error_code, "the token was not ended")
    return answer.expiry_timestamp_ms


def _parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
