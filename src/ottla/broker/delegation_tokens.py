"""Delegation tokens, for clients that make, renew, end and look at them (KIP-48, KIP-373).

    secret of a token = HMAC-SHA-512(delegation.token.secret.key, token id)

So no secret of a token lies in the metadata, and every broker with the key knows all of them.
"""

import base64
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from ottla.broker.access import Authorizer, Operation, ResourceType, audit_log
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.delegation_tokens import (
    decide_removal_of_expired,
    decide_token_creation,
    decide_token_expiry,
    decide_token_renewal,
)
from ottla.metadata.image.image import MetadataImage
from ottla.model.delegation_token import DelegationToken, TokenParty
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS, USER, Principal
from ottla.model.printable import printable
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.value import LONG_MAX

RENEWERS_MAX: Final = 100
NAME_BYTES_MAX: Final = 255


def token_secret(key: str, token_id: str) -> bytes:
    """What whoever has the token knows."""
    import hmac  # only where there are tokens

    return hmac.digest(key.encode(), token_id.encode(), "sha512")


class DelegationTokenService:
    """Belongs to the event loop. Its methods raise ApiError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a client that has
    proved nothing, or has logged in by a token itself; DELEGATION_TOKEN_AUTH_DISABLED; and the others of Kafka.
    """

    def __init__(
        self, settings: BrokerSettings, controller: Controller, authorizer: Authorizer, clock: Clock, rng: Rng
    ) -> None:
        self._key = settings.text("delegation.token.secret.key") or ""
        self._max_ms = settings.integer("delegation.token.max.lifetime.ms")
        self._renew_ms = settings.integer("delegation.token.expiry.time.ms")
        self._controller = controller
        self._authorizer = authorizer
        self._clock = clock
        self._rng = rng
        self._known: MetadataImage | None = None
        self._ids: dict[bytes, str] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether there may be tokens."""
        return bool(self._key)

    def secret_of(self, token: DelegationToken) -> bytes:
        """What whoever has the token knows."""
        return token_secret(self._key, token.token_id)

    async def create(
        self, principal: Principal, owner: TokenParty | None, renewers: Sequence[TokenParty], max_lifetime_ms: int
    ) -> DelegationToken:
        """A new token for the owner, by default for who asks."""
        self.require_allowed(principal)
        asks = TokenParty(principal.type, principal.name)
        owner = owner or asks
        if owner != asks and not self._allows(principal, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, f"{asks} may not make tokens for {owner}")
        if any(each.type != USER for each in (owner, *renewers)):
            raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE, f"owners and renewers of tokens are of type {USER}")
        if len(renewers) > RENEWERS_MAX or any(
            not each.name or len(each.name.encode()) > NAME_BYTES_MAX for each in (owner, *renewers)
        ):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"a token has up to {RENEWERS_MAX} renewers, all with names")
        self._require_enabled()
        now_ms = self._clock.now_ms()
        max_ms = _sum(now_ms, min(self._max_ms, max_lifetime_ms) if max_lifetime_ms > 0 else self._max_ms)
        token_id = base64.urlsafe_b64encode(UUID(bytes=self._rng.token_bytes(16), version=4).bytes).decode().rstrip("=")
        expires_ms = min(max_ms, _sum(now_ms, self._renew_ms))
        token = DelegationToken(token_id, owner, asks, tuple(renewers), now_ms, expires_ms, max_ms)
        refusal = await self._controller.decide_for_client(lambda image: decide_token_creation(image, token))
        if refusal is not None:
            raise refusal
        _say(principal, "made", token)
        return token

    async def renew(self, principal: Principal, secret: bytes, period_ms: int) -> int:
        """Make a token good for longer; until when."""
        self.require_allowed(principal)
        self._require_enabled()
        period_ms = min(self._renew_ms, period_ms) if period_ms > 0 else self._renew_ms
        who, now_ms = TokenParty(principal.type, principal.name), self._clock.now_ms()
        outcome = await self._controller.decide_for_client(
            lambda image: decide_token_renewal(image, self._id_of(image, secret), who, now_ms, period_ms)
        )
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    async def expire(self, principal: Principal, secret: bytes, period_ms: int) -> int:
        """End a token after a while, or at once for a period below 0; when that is."""
        self.require_allowed(principal)
        self._require_enabled()
        who, now_ms = TokenParty(principal.type, principal.name), self._clock.now_ms()
        period_ms = min(period_ms, LONG_MAX - now_ms)
        outcome = await self._controller.decide_for_client(
            lambda image: decide_token_expiry(image, self._id_of(image, secret), who, now_ms, period_ms)
        )
        if isinstance(outcome, ApiError):
            raise outcome
        audit_log.info("%s from %s ended a delegation token", printable(str(principal)), principal.host or "here")
        return outcome

    def describe(self, principal: Principal, owners: Sequence[TokenParty] | None) -> list[DelegationToken]:
        """Those that somebody may see, of these owners, None for all."""
        self.require_allowed(principal)
        self._require_enabled()
        who, wanted = TokenParty(principal.type, principal.name), None if owners is None else set(owners)
        return [
            token
            for token in self._controller.image.delegation_tokens.values()
            if (wanted is None or token.owner in wanted)
            and (
                token.may_renew(who)
                or token.requester == who
                or self._allows(principal, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
                or self._allows(principal, Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
            )
        ]

    async def remove_expired(self) -> None:
        """Forget tokens that are over, where this broker decides."""
        now_ms = self._clock.now_ms()
        while self._controller.is_active and any(
            each.is_over(now_ms) for each in self._controller.image.delegation_tokens.values()
        ):
            try:
                await self._controller.decide(lambda image: decide_removal_of_expired(image, now_ms))
            except ApiError:
                return  # it is done again after a while, by whoever decides then

    def require_allowed(self, principal: Principal) -> None:
        """Refuse who has proved nothing, and who has logged in by a token: a token is no way to more of them."""
        is_known = principal.type == USER and principal.name != ANONYMOUS.name
        if not is_known or principal.by_token:
            raise ApiError(
                ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
                "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token "
                "authenticated channels.",
            )

    def _require_enabled(self) -> None:
        if not self._key:
            raise ApiError(
                ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
                "delegation tokens need delegation.token.secret.key",
            )

    def _allows(self, principal: Principal, operation: Operation, kind: ResourceType, name: str) -> bool:
        return self._authorizer.allows(principal, operation, kind, name)

    def _id_of(self, image: MetadataImage, secret: bytes) -> str | None:
        """The token of a secret; None for a secret of none."""
        known = self._known
        if known is None or known.delegation_tokens is not image.delegation_tokens:
            ids = set(self._ids.values())
            kept = {key: each for key, each in self._ids.items() if each in image.delegation_tokens}
            kept.update(
                (self.secret_of(token), token.token_id)
                for token in image.delegation_tokens.values()
                if token.token_id not in ids
            )
            self._ids, self._known = kept, image
        return self._ids.get(bytes(secret))


def _sum(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, LONG_MAX)


def _say(principal: Principal, what: str, token: DelegationToken) -> None:
    who, owner = printable(str(principal)), printable(str(token.owner))
    audit_log.info("%s from %s %s a delegation token of %s", who, principal.host or "here", what, owner)
