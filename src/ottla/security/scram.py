"""SCRAM: what its client and its server have in common (RFC 5802, RFC 7677; KIP-84).

Both sides prove that they know a password, and neither sends it::

    client                                              server
    n,,n=USER,r=NONCE[,key=value]...   -------------->                              client-first
                                       <--------------   r=NONCE+OURS,s=SALT,i=COUNT server-first
    c=biws,r=NONCE+OURS,p=PROOF        -------------->                              client-final
                                       <--------------   v=SIGNATURE                server-final

The salted password is PBKDF2 of the password; all keys come from it. The proof is the client's key, hidden by a
signature of the three messages before it, so that it is worth nothing in another exchange; the server's signature is
made of the same three. The server keeps two hashes, of which neither is the key that a client needs.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final, NamedTuple

from ottla.model.sasl import SCRAM_SHA_256 as SHA_256_NAME
from ottla.model.sasl import SCRAM_SHA_512 as SHA_512_NAME
from ottla.model.scram_credential import ScramCredential
from ottla.security.sasl_server import SaslError

ITERATIONS_MIN: Final = 4096
"""What RFC 7677 asks for: less makes a password that was overheard cheap to guess."""
ITERATIONS_MAX: Final = 16_384
"""Kafka's bound. The number is the other side's to choose, and the work ours: 20 ms at this one."""
MESSAGE_BYTES_MAX: Final = 4096
"""No message of an exchange is longer; the longest of ours has 300 bytes."""
NONCE_CHARACTERS_MIN: Final = 16
"""A nonce that is short may come again, and with it an old proof."""
SALT_BYTES_MIN: Final = 8
SALT_BYTES_MAX: Final = 256

_NO_BINDING: Final = ("n,", "y,")


class ScramError(SaslError):
    """The other side did not prove what it had to, or does not speak SCRAM. The exchange is over; one line says why."""


class Mechanism(NamedTuple):
    """One of the family: its name in SASL, and its hash."""

    name: str
    hash_name: str


SCRAM_SHA_256: Final = Mechanism(SHA_256_NAME, "sha256")
SCRAM_SHA_512: Final = Mechanism(SHA_512_NAME, "sha512")
MECHANISMS: Final = {each.name: each for each in (SCRAM_SHA_512, SCRAM_SHA_256)}
"""By their names, the one to prefer first."""


class ScramKeys(NamedTuple):
    """What follows from a salted password."""

    client_key: bytes
    stored_key: bytes
    server_key: bytes


def salted_password(mechanism: Mechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """The slow step, milliseconds of work: call it in a thread."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def keys_of(mechanism: Mechanism, salted: bytes) -> ScramKeys:
    """The keys of a salted password."""
    client_key = signature(mechanism, salted, b"Client Key")
    return ScramKeys(client_key, hash_of(mechanism, client_key), signature(mechanism, salted, b"Server Key"))


def credential_of(mechanism: Mechanism, password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What a server keeps of a password; as slow as `salted_password`."""
    keys = keys_of(mechanism, salted_password(mechanism, password, salt, iterations))
    return ScramCredential(salt, iterations, keys.stored_key, keys.server_key)


def hash_of(mechanism: Mechanism, data: bytes) -> bytes:
    """The hash of the mechanism."""
    return hashlib.new(mechanism.hash_name, data).digest()


def signature(mechanism: Mechanism, key: bytes, data: bytes) -> bytes:
    """The keyed hash of the mechanism."""
    return hmac.digest(key, data, mechanism.hash_name)


def exclusive_or(left: bytes, right: bytes) -> bytes:
    """Of two strings of one length, byte by byte."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def attributes_of(message: str) -> list[tuple[str, str]]:
    """The `key=value` pairs of a message, in their order. Raises ScramError."""
    pairs: list[tuple[str, str]] = []
    for part in message.split(","):
        key, equals, value = part.partition("=")
        if not (key and equals and value and key.isalnum() and key.isascii()):
            raise ScramError("a part of a message of SCRAM is not key=value")
        pairs.append((key, value))
    if len(dict(pairs)) != len(pairs):
        raise ScramError("a message of SCRAM has a part twice")
    if any(key == "m" for key, _ in pairs):
        raise ScramError("a message of SCRAM asks for an extension that is not known")
    return pairs


def text_of(message: bytes | memoryview) -> str:
    """A message as text. Raises ScramError when it cannot be one."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise ScramError(f"a message of SCRAM has {len(message)} bytes, more than {MESSAGE_BYTES_MAX}")
    try:
        text = bytes(message).decode()
    except UnicodeDecodeError as error:
        raise ScramError("a message of SCRAM is not UTF-8") from error
    if not text.isprintable():
        raise ScramError("a message of SCRAM has characters that cannot be printed")
    return text


def bytes_of(value: str) -> bytes:
    """The bytes that stand in base64. Raises ScramError."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ScramError("a message of SCRAM has what is not base64") from error


def base64_of(data: bytes) -> str:
    """Bytes in base64."""
    return base64.b64encode(data).decode()


def quoted(name: str) -> str:
    """A user name as it stands in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unquoted(value: str) -> str:
    """The user name that stands in a message. Raises ScramError."""
    first, *rest = value.split("=")
    name = [first]
    for part in rest:
        character = {"2C": ",", "3D": "="}.get(part[:2])
        if character is None:
            raise ScramError("a user name has an equals sign that is not quoted")
        name.append(character + part[2:])
    return "".join(name)


def without_binding(message: str) -> tuple[str, str, str]:
    """A client-first message taken apart: what comes before its attributes, the name to act as, the attributes.

    Raises ScramError for one that asks for channel binding.
    """
    flag, _, rest = message.partition(",")
    authorization, comma, bare = rest.partition(",")
    if f"{flag}," not in _NO_BINDING or not comma:
        raise ScramError("the first message of SCRAM asks for channel binding, or is none")
    if authorization and not authorization.startswith("a="):
        raise ScramError("the first message of SCRAM names whom to act as in a way that is not known")
    return f"{flag},{authorization},", unquoted(authorization.removeprefix("a=")), bare
