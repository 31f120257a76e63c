"""Access tokens for tests, and the keys that sign them, as an identity provider has them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa


class TokenIssuer:
    """Signs tokens with one key, by default an elliptic one, which takes no time to make."""

    def __init__(self, key_id: str | None = "1", key: Any = None, algorithm: str = "ES256") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
        self.key_id = key_id
        self.algorithm = algorithm

    @classmethod
    def rsa(cls, key_id: str = "1", bits: int = 2048, algorithm: str = "RS256") -> TokenIssuer:
        return cls(key_id, rsa.generate_private_key(65537, bits), algorithm)

    @classmethod
    def edwards(cls, key_id: str = "1") -> TokenIssuer:
        return cls(key_id, ed25519.Ed25519PrivateKey.generate(), "EdDSA")

    @property
    def jwk(self) -> dict[str, Any]:
        made = jwt.get_algorithm_by_name(self.algorithm).to_jwk(self.key.public_key(), as_dict=True)
        made.pop("key_ops", None)
        return made if self.key_id is None else {**made, "kid": self.key_id}

    def token(self, user: str = "alice", *, lives_s: int = 3_600, headers: Any = None, **claims: Any) -> str:
        now = int(time.time())
        said = {"sub": user, "iat": now, "exp": now + lives_s, "iss": "https://issuer", "aud": "ottla", **claims}
        said = {name: value for name, value in said.items() if value is not None}
        own = {} if self.key_id is None else {"kid": self.key_id}
        return jwt.encode(said, self.key, self.algorithm, headers={**own, **(headers or {})})


def jwks(*issuers: TokenIssuer, others: tuple[Any, ...] = ()) -> bytes:
    """The keys of issuers, as they publish them."""
    return json.dumps({"keys": [*(issuer.jwk for issuer in issuers), *others]}).encode()


def write_jwks(path: Path, *issuers: TokenIssuer) -> str:
    """The URL of a file that has them, which takes the place of one that was there."""
    new = path.with_suffix(".new")
    new.write_bytes(jwks(*issuers))
    new.replace(path)
    return f"file://{path}"
