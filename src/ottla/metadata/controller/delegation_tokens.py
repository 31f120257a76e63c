"""Decides about delegation tokens (KIP-48): all errors are those of Kafka but POLICY_VIOLATION, which says that there
are as many as may be.
"""

from typing import Final

from msgspec.structs import replace

from ottla.metadata.controller.decision import Decision
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import DelegationTokenRecord
from ottla.model.delegation_token import DelegationToken, TokenParty
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

TOKENS_MAX: Final = 10_000
"""They are kept in the metadata."""
TOKENS_OF_OWNER_MAX: Final = 1_000
"""Everybody who has logged in may have tokens: one leaves room for others."""
_EXPIRED_AT_ONCE_MAX: Final = 1_000


def decide_token_creation(image: MetadataImage, token: DelegationToken) -> Decision[ApiError | None]:
    """Decide whether there may be one more."""
    tokens = image.delegation_tokens
    of_owner = sum(each.owner == token.owner for each in tokens.values())
    if len(tokens) >= TOKENS_MAX or of_owner >= TOKENS_OF_OWNER_MAX:
        count = TOKENS_MAX if len(tokens) >= TOKENS_MAX else TOKENS_OF_OWNER_MAX
        return Decision((), ApiError(ErrorCode.POLICY_VIOLATION, f"there are {count} delegation tokens already"))
    return Decision((DelegationTokenRecord(token.token_id, token),), None)


def decide_token_renewal(
    image: MetadataImage, token_id: str | None, who: TokenParty, now_ms: int, period_ms: int
) -> Decision[int | ApiError]:
    """Decide until when a token is good: for the period from now on, but not for longer than it can be."""
    token = image.delegation_tokens.get(token_id or "")
    if token is None:
        return _not_found()
    if token.is_over(now_ms):
        return _expired()
    if not token.may_renew(who):
        return _not_of(who)
    return _until(token, now_ms + period_ms)


def decide_token_expiry(
    image: MetadataImage, token_id: str | None, who: TokenParty, now_ms: int, period_ms: int
) -> Decision[int | ApiError]:
    """Decide when a token ends: after the period, or at once for one below 0."""
    token = image.delegation_tokens.get(token_id or "")
    if token is None:
        return _not_found()
    if not token.may_renew(who):
        return _not_of(who)
    if period_ms < 0:
        return Decision((DelegationTokenRecord(token.token_id, None),), now_ms)
    if token.is_over(now_ms):
        return _expired()
    return _until(token, now_ms + period_ms)


def decide_removal_of_expired(image: MetadataImage, now_ms: int) -> Decision[list[DelegationToken]]:
    """Forget tokens that are over; those that are forgotten, which are not all where there are very many."""
    gone = [each for each in image.delegation_tokens.values() if each.is_over(now_ms)][:_EXPIRED_AT_ONCE_MAX]
    return Decision(tuple(DelegationTokenRecord(each.token_id, None) for each in gone), gone)


def _until(token: DelegationToken, end_ms: int) -> Decision[int | ApiError]:
    expires_ms = min(token.max_ms, end_ms)
    return Decision((DelegationTokenRecord(token.token_id, replace(token, expires_ms=expires_ms)),), expires_ms)


def _not_found() -> Decision[int | ApiError]:
    return Decision((), ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "there is no such delegation token"))


def _expired() -> Decision[int | ApiError]:
    return Decision((), ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "the delegation token has expired"))


def _not_of(who: TokenParty) -> Decision[int | ApiError]:
    return Decision((), ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, f"{who} may not renew or end the token"))
