"""Access tokens: JWTs that are believed when a known key has signed them and their claims are as they must be
(RFC 7519, RFC 7517, RFC 8725).

    HEADER.CLAIMS.SIGNATURE, each in base64
    {"alg":"RS256","kid":"1"} . {"sub":"alice","exp":1900000000,"iat":1800000000,"iss":"...","aud":"..."} . ...

Which algorithms a key may be used with is said by the kind of the key, never by the token; there are only those with a
public key. So nobody gets a token signed with a public key as if it were a secret, and none without a signature.
"""

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from ottla.security.oauth_server import BearerToken, TokenError

KEYS_MAX: Final = 100
RSA_BITS_MIN: Final = 2048
_KEY_ID_CHARACTERS_MAX: Final = 1_000
_SECONDS_MAX: Final = 253_402_300_799
"""The end of the year 9999."""

_ALGORITHMS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}


class UnknownKeyError(TokenError):
    """A token of a key that is not there: it may be a new one."""


class NoKeysError(ValueError):
    """A JWKS can be read, and none of its keys may sign tokens."""


class SigningKey(Struct, frozen=True):
    """A public key and what it may be used with."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any


class ClaimRules(Struct, frozen=True):
    """What has to stand in a token."""

    audiences: tuple[str, ...] = ()
    """One of these; nothing for any or none."""
    issuer: str | None = None
    skew_ms: int = 30_000
    user_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: tuple[str, ...] = ()
    is_unsigned: bool = False
    """Whether nobody has signed it: then Kafka needs no time of issue."""


def parse_keys(text: bytes) -> tuple[tuple[SigningKey, ...], int]:
    """The keys of a JWKS that can sign tokens, and how many others it has.

    Raises ValueError, NoKeysError where there are only others, and ImportError without PyJWT.
    """
    import jwt

    try:
        keys = msgspec.json.decode(text)["keys"]
    except (msgspec.DecodeError, RecursionError, TypeError, KeyError) as error:
        raise ValueError("it is not a JWKS: JSON with a list `keys`") from error
    if not isinstance(keys, list) or not all(isinstance(each, dict) for each in keys):
        raise ValueError("its `keys` is not a list of keys")
    if len(keys) > KEYS_MAX:
        raise ValueError(f"it has {len(keys)} keys, more than {KEYS_MAX}")
    found = []
    for each in keys:
        kind = (each.get("kty"), each.get("crv", ""))
        allowed = _ALGORITHMS.get(kind, ()) if all(isinstance(part, str) for part in kind) else ()
        algorithms = tuple(name for name in allowed if each.get("alg", name) == name)
        key_id = each.get("kid")
        if not algorithms or each.get("use", "sig") != "sig" or not isinstance(key_id, str | None):
            continue
        try:
            key = jwt.PyJWK(each, algorithms[0]).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        if hasattr(key, "public_key"):
            key = key.public_key()  # a key that nobody was to see
        if getattr(key, "key_size", RSA_BITS_MIN) >= RSA_BITS_MIN or kind[0] != "RSA":
            found.append(SigningKey(key_id, algorithms, key))
    if not found:
        raise NoKeysError("it has no key that may sign tokens: RSA of 2,048 bits and more, EC or Ed25519")
    return tuple(found), len(keys) - len(found)


def signed_token(token: str, keys: Sequence[SigningKey], rules: ClaimRules, now_ms: int) -> BearerToken:
    """What a token says that one of the keys has signed. Raises TokenError."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
        key_id, algorithm = header.get("kid"), header.get("alg")
        if "crit" in header:
            raise TokenError("its header asks for an extension that is not known")
        key = _key_for(keys, key_id, algorithm)
        payload = jwt.PyJWS().decode_complete(token, key.key, list(key.algorithms))["payload"]
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise TokenError(f"its signature is not believed: {type(error).__name__}") from error
    return _believed(payload, rules, now_ms)


def unsigned_token(token: str, rules: ClaimRules, now_ms: int) -> BearerToken:
    """What a token says that nobody has signed: whoever can connect can be anybody. Raises TokenError."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise TokenError("it is signed, and only tokens that are not are taken here")
    header = _object_of(_from_base64(parts[0]), "header")
    if header.get("alg") != "none":
        raise TokenError("its header does not say that nobody has signed it")
    return _believed(_from_base64(parts[1]), rules, now_ms)


def _key_for(keys: Sequence[SigningKey], key_id: object, algorithm: object) -> SigningKey:
    if not isinstance(algorithm, str) or not any(algorithm in names for names in _ALGORITHMS.values()):
        raise TokenError(f"its algorithm is not one with a public key: {algorithm!r:.100}")
    if key_id is not None and (not isinstance(key_id, str) or len(key_id) > _KEY_ID_CHARACTERS_MAX):
        raise TokenError("the id of its key is not a name")
    named = [each for each in keys if key_id is None or each.key_id == key_id]
    if not named:
        raise UnknownKeyError(f"there is no key {key_id!r:.100}")
    fitting = [each for each in named if algorithm in each.algorithms]
    if not fitting:
        raise TokenError(f"its key is not for {algorithm}")
    if len(fitting) > 1 and key_id is None:
        raise TokenError("it does not say which key has signed it, and there are several")
    return fitting[0]


def _believed(payload: bytes, rules: ClaimRules, now_ms: int) -> BearerToken:
    claims = _object_of(payload, "claims")
    expires_ms = _time(claims, "exp")
    if expires_ms is None:
        raise TokenError("it has no exp")
    if expires_ms + rules.skew_ms <= now_ms:
        raise TokenError(f"it expired at {expires_ms} ms, and it is {now_ms} ms")
    begins_ms = _time(claims, "nbf")
    if begins_ms is not None and begins_ms - rules.skew_ms > now_ms:
        raise TokenError(f"it is good from {begins_ms} ms on, and it is {now_ms} ms")
    issued_ms = _time(claims, "iat")
    if issued_ms is None and not rules.is_unsigned:
        raise TokenError("it has no iat")
    if issued_ms is not None and issued_ms > expires_ms:
        raise TokenError("it expired before it was issued")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenError(f"its issuer is {claims.get('iss')!r:.100}")
    if rules.audiences:
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if not any(each in rules.audiences for each in audiences if isinstance(each, str)):
            raise TokenError(f"its audience is {audience!r:.100}")
    _check_scopes(claims.get(rules.scope_claim, []), rules)
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user.strip():
        raise TokenError(f"its {rules.user_claim} names nobody")
    return BearerToken(user.strip() if not rules.is_unsigned else user, expires_ms)


def _check_scopes(said: object, rules: ClaimRules) -> None:
    scopes = said.split() if isinstance(said, str) else said
    if not isinstance(scopes, list) or not all(isinstance(each, str) and each.strip() for each in scopes):
        raise TokenError(f"its {rules.scope_claim} is not a list of scopes")
    if not set(rules.required_scopes) <= set(scopes):
        raise TokenError(f"its {rules.scope_claim} lacks {' '.join(rules.required_scopes)}")


def _time(claims: Mapping[str, object], name: str) -> int | None:
    """A time of the claims in milliseconds; None where it is not said."""
    seconds = claims.get(name)
    if seconds is None:
        return None
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not (math.isfinite(seconds) and 0 <= seconds <= _SECONDS_MAX)
    ):
        raise TokenError(f"its {name} is not a time")
    return int(seconds * 1_000)


def _object_of(text: bytes, what: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TokenError(f"its {what} cannot be read") from error
    if not isinstance(found, dict):
        raise TokenError(f"its {what} cannot be read")
    return found


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise TokenError("it is not base64") from error
