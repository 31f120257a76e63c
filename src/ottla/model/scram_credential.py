"""What a broker keeps instead of a password, of a user that logs in by SCRAM (KIP-554)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from ottla.model.sasl import SCRAM_SHA_256, SCRAM_SHA_512

SCRAM_TYPES: Final[Mapping[int, str]] = MappingProxyType({1: SCRAM_SHA_256, 2: SCRAM_SHA_512})
"""The mechanisms by the numbers that requests have for them."""


class ScramCredential(Struct, frozen=True):
    """Salted hashes: who reads them can check a password, and cannot log in."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"ScramCredential(iterations={self.iterations})"
