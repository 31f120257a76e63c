"""Keys and certificates out of the files and texts that Kafka's settings name, all of them as PEM.

    PEM      -----BEGIN                                    as it is
    PKCS12   0x30 ...   a sequence in DER                  by `cryptography`
    JKS      0xFEEDFEED, or 0xCECECECE for JCEKS           refused, with the command that converts it

`JKS` is what Kafka's settings say where nobody has said anything: then the file itself says what it is, of the others.

BLOCKING: files are read.
"""

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ottla.security.tls_config import Store
from ottla.settings.definition import InvalidSettingError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

STORE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A bundle of all authorities that the world knows takes a quarter of a megabyte."""

_JAVA_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_SEQUENCE: Final = b"\x30"
_BEGIN: Final = b"-----BEGIN "
_KEY: Final = b"PRIVATE KEY-----"


class KeyPair(Struct, frozen=True):
    """A private key and the certificates that go with it, the own one first, in one text."""

    pem: bytes
    password: str | None

    def __repr__(self) -> str:
        return "<KeyPair>"


def read_key_pair(store: Store, key_password: str | None) -> KeyPair:
    """The key and certificate chain of a key store. Raises InvalidSettingError, with the setting and the file."""
    if store.location is None:
        _require_inline(store)
        assert store.key is not None
        assert store.certificates is not None
        return KeyPair(f"{store.key.strip()}\n{store.certificates.strip()}\n".encode(), key_password)
    if store.key is not None or store.certificates is not None:
        raise InvalidSettingError(
            "ssl.keystore.location and ssl.keystore.key are both given: give the file, or the key with "
            "ssl.keystore.certificate.chain"
        )
    where = f"ssl.keystore.location={store.location}"
    data = _read(where, store.location)
    if _is_pem(where, data, store, "ssl.keystore.type"):
        if _KEY not in data:
            raise InvalidSettingError(f"{where}: it has no private key: put the key and its certificates into one file")
        if b"ENCRYPTED" not in data:
            require_private(where, store.location, ", or encrypt the key and set ssl.key.password")
        return KeyPair(data, key_password)
    found = _pkcs12(where, data, store, "ssl.keystore")
    if found.key is None or found.cert is None:
        raise InvalidSettingError(f"{where}: it has no private key with a certificate")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    chain = [found.cert, *found.additional_certs]
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(key + b"".join(each.certificate.public_bytes(Encoding.PEM) for each in chain), None)


def read_certificates(store: Store) -> bytes:
    """The certificates of a trust store. Raises InvalidSettingError, which names the setting and the file."""
    if store.location is None:
        assert store.certificates is not None
        if store.type == "PKCS12":
            raise InvalidSettingError(
                f"ssl.truststore.certificates is PEM, but ssl.truststore.type is {store.type}: set it to PEM"
            )
        return f"{store.certificates.strip()}\n".encode()
    if store.certificates is not None:
        raise InvalidSettingError(
            "ssl.truststore.location and ssl.truststore.certificates are both given: give one of them"
        )
    where = f"ssl.truststore.location={store.location}"
    data = _read(where, store.location)
    if _is_pem(where, data, store, "ssl.truststore.type"):
        return data
    found = _pkcs12(where, data, store, "ssl.truststore")
    from cryptography.hazmat.primitives.serialization import Encoding

    chain = [*found.additional_certs] if found.cert is None else [found.cert, *found.additional_certs]
    if not chain:
        raise InvalidSettingError(f"{where}: it has no certificates")
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in chain)


def _require_inline(store: Store) -> None:
    if store.key is None or store.certificates is None:
        missing, given = (
            ("ssl.keystore.key", "ssl.keystore.certificate.chain")
            if store.key is None
            else ("ssl.keystore.certificate.chain", "ssl.keystore.key")
        )
        raise InvalidSettingError(f"{given} is given and {missing} is not: give both")
    if store.type == "PKCS12":
        raise InvalidSettingError(f"ssl.keystore.key is PEM, but ssl.keystore.type is {store.type}: set it to PEM")


def _read(where: str, location: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            data = file.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidSettingError(f"{where}: {error.strerror or error}") from error
    except ValueError as error:  # a name with a NUL in it
        raise InvalidSettingError(f"{where}: {error}") from error
    if len(data) > STORE_BYTES_MAX:
        raise InvalidSettingError(f"{where}: it has more than {STORE_BYTES_MAX} bytes")
    return data


def require_private(where: str, location: str, otherwise: str) -> None:
    """Refuse the file of a key that everybody can read; `otherwise` says what else would do than to close it. Raises
    InvalidSettingError.
    """
    if Path(location).stat().st_mode & stat.S_IROTH:
        raise InvalidSettingError(
            f"{where}: everybody on this host can read its private key: run chmod 600 {location}{otherwise}"
        )


def _is_pem(where: str, data: bytes, store: Store, type_setting: str) -> bool:
    """Whether it is to be read as PEM, and is that."""
    if store.type == "PKCS12" or (store.type == "JKS" and _BEGIN not in data):
        return False
    if _BEGIN in data:
        return True
    if data.startswith(_JAVA_MAGIC):
        raise InvalidSettingError(_is_java(where))
    if data.startswith(_SEQUENCE):
        raise InvalidSettingError(f"{where}: it is not PEM; it may be PKCS12: set {type_setting}=PKCS12")
    raise InvalidSettingError(f"{where}: it is not PEM: there is no line that begins with -----BEGIN")


def _is_java(where: str) -> str:
    location = where.partition("=")[2]
    return (
        f"{where}: it is a JKS store, which only Java reads; convert it with: keytool -importkeystore -srckeystore "
        f"{location} -destkeystore {location}.p12 -deststoretype PKCS12"
    )


def _pkcs12(where: str, data: bytes, store: Store, prefix: str) -> "PKCS12KeyAndCertificates":
    if data.startswith(_JAVA_MAGIC):
        raise InvalidSettingError(f"{_is_java(where)}; then set {prefix}.type=PKCS12")
    if data.lstrip().startswith(_BEGIN):
        raise InvalidSettingError(f"{where}: it is PEM, but {prefix}.type is {store.type}: set {prefix}.type=PEM")
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise InvalidSettingError(
            f"{where}: PKCS12 is read by the package cryptography: install ottla[tls], or use PEM"
        ) from None
    password = None if store.password is None else store.password.encode()
    try:
        return load_pkcs12(data, password)
    except ValueError as error:
        raise InvalidSettingError(f"{where}: it could not be read as PKCS12 with {prefix}.password: {error}") from error
