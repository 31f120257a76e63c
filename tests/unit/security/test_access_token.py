"""A token is believed when a known key has signed it, by an algorithm of the key's, and its claims are right."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec.structs import replace

from ottla.security.access_token import ClaimRules, UnknownKeyError, parse_keys, signed_token, unsigned_token
from ottla.security.oauth_server import TokenError
from tests.tokens import TokenIssuer, jwks

ISSUER = TokenIssuer()
RSA = TokenIssuer.rsa("rsa")
KEYS, _ = parse_keys(jwks(ISSUER, RSA))
RULES = ClaimRules(audiences=("other", "ottla"), issuer="https://issuer")


def now_ms() -> int:
    return int(time.time() * 1_000)


def user_of(token: str, rules: ClaimRules = RULES, keys: Any = KEYS) -> str:
    return signed_token(token, keys, rules, now_ms()).user


def encoded(part: Any) -> str:
    text = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def made(header: Any, claims: Any, signature: bytes = b"") -> str:
    return f"{encoded(header)}.{encoded(claims)}.{encoded(signature)}"


def good_claims() -> dict[str, Any]:
    return {"sub": "alice", "iat": 1, "exp": time.time() + 60, "iss": "https://issuer", "aud": "ottla"}


@pytest.mark.parametrize(
    "issuer",
    [
        TokenIssuer(),
        TokenIssuer(key=ec.generate_private_key(ec.SECP384R1()), algorithm="ES384"),
        TokenIssuer(key=ec.generate_private_key(ec.SECP521R1()), algorithm="ES512"),
        TokenIssuer.edwards(),
        *(TokenIssuer("1", RSA.key, name) for name in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
    ],
    ids=lambda issuer: issuer.algorithm,
)
def test_every_algorithm_with_a_public_key_is_taken_for_its_own_keys(issuer: TokenIssuer) -> None:
    keys, others = parse_keys(jwks(issuer))
    assert others == 0
    assert user_of(issuer.token("bob"), keys=keys) == "bob"


def test_who_and_until_when() -> None:
    end = int(time.time()) + 100
    found = signed_token(ISSUER.token(" alice ", exp=end), KEYS, RULES, now_ms())
    assert (found.user, found.expires_ms) == ("alice", end * 1_000)
    assert user_of(ISSUER.token(user_id="u1"), replace(RULES, user_claim="user_id")) == "u1"


@pytest.mark.parametrize(
    ("claims", "what"),
    [
        ({"exp": None}, "no exp"),
        ({"exp": 1}, "expired"),
        ({"exp": "soon"}, "not a time"),
        ({"exp": True}, "not a time"),
        ({"exp": 1e300}, "not a time"),
        ({"exp": float("inf")}, "cannot be read"),
        ({"exp": float("nan")}, "cannot be read"),
        ({"exp": -1}, "not a time"),
        ({"iat": None}, "no iat"),
        ({"iat": []}, "not a time"),
        ({"iat": time.time() + 9_000}, "before it was issued"),
        ({"nbf": time.time() + 900}, "is good from"),
        ({"iss": "https://other"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "kafka"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": ["a", 1, {}]}, "audience"),
        ({"user": ""}, "names nobody"),
        ({"user": "  "}, "names nobody"),
        ({"sub": 5}, "names nobody"),
        ({"sub": None}, "names nobody"),
        ({"scope": 5}, "not a list of scopes"),
        ({"scope": ["a", " "]}, "not a list of scopes"),
        ({"scope": {"a": 1}}, "not a list of scopes"),
    ],
)
def test_claims_that_are_not_as_they_must_be(claims: dict[str, Any], what: str) -> None:
    said = {name: value for name, value in {**good_claims(), **claims}.items() if value is not None}
    if "user" in said:
        said["sub"] = said.pop("user")
    token = jwt.api_jws.encode(json.dumps(said).encode(), ISSUER.key, "ES256", headers={"kid": "1"})
    with pytest.raises(TokenError, match=what):
        user_of(token)


def test_one_of_many_audiences_is_enough_and_clocks_may_differ() -> None:
    assert user_of(ISSUER.token(aud=["x", "ottla"], scope="read write")) == "alice"
    assert user_of(ISSUER.token(aud=None, iss=None, scope=["read"]), ClaimRules()) == "alice"
    assert user_of(ISSUER.token(lives_s=-20, iat=1)) == "alice"
    assert user_of(ISSUER.token(nbf=int(time.time()) + 20)) == "alice"
    with pytest.raises(TokenError, match="expired"):
        user_of(ISSUER.token(lives_s=-20, iat=1), replace(RULES, skew_ms=0))


def public_pem() -> bytes:
    return RSA.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def with_secret(algorithm: str, secret: bytes, key_id: str = "rsa") -> str:
    """A token of a secret: `jwt` itself refuses to make one of a public key."""
    said = f"{encoded({'alg': algorithm, 'kid': key_id})}.{encoded(good_claims())}"
    return f"{said}.{encoded(hmac.digest(secret, said.encode(), hashlib.sha256))}"


@pytest.mark.parametrize("algorithm", ["none", "None", "nOnE", "", "HS256", "HS512", "dir", 5, None, ["ES256"]])
def test_no_algorithm_without_a_public_key_is_taken(algorithm: object) -> None:
    for signature in (b"", b"x" * 64):
        with pytest.raises(TokenError):
            user_of(made({"alg": algorithm, "kid": "1"}, good_claims(), signature))


def test_a_public_key_is_no_secret() -> None:
    with pytest.raises(TokenError, match="not one with a public key: 'HS256'"):
        user_of(with_secret("HS256", public_pem()))
    with pytest.raises(TokenError):
        user_of(with_secret("RS256", public_pem()))


def test_a_secret_among_the_keys_is_none() -> None:
    secret = {"kty": "oct", "kid": "s", "k": encoded(b"x" * 32), "alg": "HS256"}
    keys, others = parse_keys(jwks(ISSUER, others=(secret,)))
    assert (len(keys), others) == (1, 1)
    with pytest.raises(TokenError, match="public key"):
        user_of(with_secret("HS256", b"x" * 32, "s"), keys=keys)
    with pytest.raises(ValueError, match="no key that may sign"):
        parse_keys(jwks(others=(secret,)))


def test_a_key_is_used_with_its_own_algorithms_alone() -> None:
    other = TokenIssuer("1", RSA.key, "RS256")
    with pytest.raises(TokenError, match="its key is not for RS256"):
        user_of(other.token())
    only = {**RSA.jwk, "alg": "PS256"}
    keys, _ = parse_keys(jwks(others=(only,)))
    with pytest.raises(TokenError, match="not for RS256"):
        user_of(RSA.token(), keys=keys)
    assert user_of(TokenIssuer("rsa", RSA.key, "PS256").token(), keys=keys) == "alice"


def test_another_key_of_the_same_name_is_not_it() -> None:
    with pytest.raises(TokenError, match="InvalidSignatureError"):
        user_of(TokenIssuer("1").token())
    with pytest.raises(UnknownKeyError):
        user_of(TokenIssuer("2").token())


def test_keys_that_the_token_brings_itself_are_not_looked_at() -> None:
    stranger = TokenIssuer("1")
    for header in ({"jwk": stranger.jwk}, {"jku": "https://evil/keys"}, {"x5u": "https://evil"}, {"x5c": ["AA=="]}):
        with pytest.raises(TokenError):
            user_of(stranger.token(headers=header))


def test_extensions_that_are_critical_are_refused() -> None:
    with pytest.raises(TokenError):
        user_of(ISSUER.token(headers={"crit": ["exp"]}))
    with pytest.raises(TokenError):
        user_of(made({"alg": "ES256", "kid": "1", "b64": False, "crit": ["b64"]}, b""))


def test_a_token_without_the_name_of_its_key_needs_that_there_is_one() -> None:
    nameless = TokenIssuer(None, ISSUER.key)
    assert user_of(nameless.token()) == "alice"  # the other key is of another kind
    keys, _ = parse_keys(jwks(ISSUER, TokenIssuer("2")))
    with pytest.raises(TokenError, match="which key"):
        user_of(nameless.token(), keys=keys)


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "...",
        "a.b",
        "a.b.c",
        "....",
        "e30.e30.e30",
        made({"alg": "ES256", "kid": "1"}, b"{}", b"x"),
        made(b"[" * 9_000, b"{}", b"x"),
        made(b'{"a":' * 9_000, b"{}", b"x"),
        made(b'{"alg":"ES256","kid":' + b"9" * 9_000 + b"}", b"{}", b"x"),
        made([], {}, b"x"),
        made(b"\xff", {}, b"x"),
        made({"alg": "ES256", "kid": ["1"]}, {}, b"x"),
        made({"alg": "ES256", "kid": "x" * 2_000}, {}, b"x"),
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(TokenError):
        user_of(token)
    with pytest.raises(TokenError):
        unsigned_token(token, ClaimRules(is_unsigned=True), now_ms())


@pytest.mark.parametrize("claims", [b"[" * 9_000, b"5", b"\xff", b'{"exp":1e999}', b'{"exp":' + b"9" * 9_000 + b"}"])
def test_claims_of_a_bad_issuer_are_refused_as_well(claims: bytes) -> None:
    with pytest.raises(TokenError):
        user_of(jwt.api_jws.encode(claims, ISSUER.key, "ES256", headers={"kid": "1"}))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "not a JWKS"),
        (b"[]", "not a JWKS"),
        (b"{}", "not a JWKS"),
        (b'{"keys":{}}', "not a list"),
        (b'{"keys":[1]}', "not a list"),
        (b"[" * 9_000, "not a JWKS"),
        (b'{"keys":[]}', "no key"),
        (
            jwks(others=({"kty": "EC"}, {"kty": "RSA"}, {"kty": ["RSA"]}, {"kty": "EC", "crv": "P-256", "x": 1})),
            "no key",
        ),
        (jwks(others=({**ISSUER.jwk, "use": "enc"}, {**ISSUER.jwk, "kid": 5})), "no key"),
        (jwks(others=tuple({} for _ in range(101))), "101 keys"),
    ],
)
def test_what_is_no_set_of_keys_is_refused(text: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse_keys(text)


def test_short_keys_are_not_used_and_private_ones_only_as_public() -> None:
    algorithm = jwt.get_algorithm_by_name("ES256")
    private = algorithm.to_jwk(ISSUER.key, as_dict=True)
    short = TokenIssuer.rsa("short", 1024).jwk
    keys, others = parse_keys(jwks(others=({**private, "kid": "1"}, short)))
    assert (len(keys), others) == (1, 1)
    assert not hasattr(keys[0].key, "private_numbers")
    assert user_of(ISSUER.token(), keys=keys) == "alice"


def test_tokens_that_nobody_signed() -> None:
    rules = ClaimRules(is_unsigned=True, skew_ms=0, required_scopes=("a",))

    def who(claims: Any, header: Any = None) -> str:
        return unsigned_token(made(header or {"alg": "none"}, claims), rules, 1_000_000).user

    assert who({"sub": "alice", "exp": 1_001, "scope": ["a", "b"]}) == "alice"
    for claims in ({"sub": "alice", "exp": 1_001}, {"sub": "alice", "exp": 1_000, "scope": "a"}, {"exp": 1_001}):
        with pytest.raises(TokenError):
            who(claims)
    with pytest.raises(TokenError, match="nobody has signed"):
        who({"sub": "alice", "exp": 1_001, "scope": "a"}, {"alg": "ES256"})
    with pytest.raises(TokenError, match="is signed"):
        unsigned_token(ISSUER.token(), rules, 0)
