"""What a stranger sends to log in by PLAIN and OAUTHBEARER: nobody comes in, and nothing but a refusal comes of it.

which, 1 byte | 0 a message of OAUTHBEARER   1 a token that is signed, or not   2 a token that nobody signed   3 a JWKS
                4 a message of PLAIN

The key is known here, so that the seeds have a token that it signed; the times of the claims are fixed.
"""

from collections.abc import Callable

import jwt
from cryptography.hazmat.primitives.asymmetric import ed25519

from ottla.security.access_token import ClaimRules, SigningKey, parse_keys, signed_token, unsigned_token
from ottla.security.oauth_server import BearerToken, OauthServer, TokenError
from ottla.security.plain import PlainServer
from ottla.security.sasl_server import SaslError
from tests.tokens import TokenIssuer, jwks

NOW_S = 1_700_000_000
ISSUER = TokenIssuer("1", ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)), "EdDSA")
CLAIMS = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60, "aud": "ottla"}
TOKEN = jwt.encode(CLAIMS, ISSUER.key, "EdDSA", headers={"kid": "1"})
KEYS, _ = parse_keys(jwks(ISSUER))
RULES = ClaimRules(audiences=("ottla",))


def checked(token: str) -> BearerToken:
    """What a token says, if it is the one that was signed."""
    found = signed_token(token, KEYS, RULES, NOW_S * 1_000)
    assert token.rpartition(".")[0] == TOKEN.rpartition(".")[0], "a token that nobody signed was taken"
    assert found == BearerToken("alice", (NOW_S + 60) * 1_000)
    return found


def refusal(call: Callable[[], object]) -> str | None:
    """Why a call was refused, in a line; None where it was not."""
    try:
        call()
    except (SaslError, TokenError, ValueError) as error:
        said = str(error)
    else:
        return None
    assert said.isprintable()
    assert len(said) < 1_000
    return said


def oauth_message(data: bytes) -> None:
    """It is refused, or its token is looked at; then the exchange is over."""
    said: list[str] = []
    answers: list[bytes] = []
    server = OauthServer(checked, said.append)
    refused = refusal(lambda: answers.append(server.answer(data)))
    assert (server.user == "alice") == (answers == [b""])
    assert bool(said) == (answers not in ([], [b""]))
    assert (refused is None) == bool(answers)
    assert refusal(lambda: server.answer(b"\x01")) is not None


def signed(data: bytes) -> None:
    """A token is taken, or refused with a reason that can be shown."""
    refusal(lambda: checked(data.decode("latin-1")))


def unsigned(data: bytes) -> None:
    """It names somebody, until some time."""
    found: list[BearerToken] = []
    rules = ClaimRules(is_unsigned=True)
    refusal(lambda: found.append(unsigned_token(data.decode("latin-1"), rules, NOW_S * 1_000)))
    for each in found:
        assert each.user.strip()
        assert isinstance(each.expires_ms, int)


def key_set(data: bytes) -> None:
    """There are public keys, or it is refused."""
    found: list[SigningKey] = []
    refused = refusal(lambda: found.extend(parse_keys(data)[0]))
    assert (refused is None) == bool(found)
    for each in found:
        assert not hasattr(each.key, "private_bytes")
        assert each.algorithms
        assert not any(name.startswith(("HS", "none")) for name in each.algorithms)


def plain_message(data: bytes) -> None:
    """Only who knows the password is somebody."""
    server = PlainServer({"alice": "secret"})
    knows = data in (b"\0alice\0secret", b"alice\0alice\0secret")
    assert (refusal(lambda: server.answer(data)) is None) == knows
    assert server.user == ("alice" if knows else None)


KINDS: tuple[Callable[[bytes], None], ...] = (oauth_message, signed, unsigned, key_set, plain_message)


def check(data: bytes) -> None:
    """See the top of the file."""
    if data:
        KINDS[data[0] % len(KINDS)](data[1:])
