"""What is read of certificates: whose they are, and until when they are good. By the package `cryptography`.

A subject is written as Java does (`X500Principal.getName`, RFC 2253), for ACLs of Kafka name clients so:

    CN=Duke\\, the first,OU=JavaSoft,O=Sun Microsystems,C=US        the most special first
    1.2.840.113549.1.9.1=#160d6475...,CN=Duke                      an attribute without a short name, in DER
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from cryptography import x509

_SHORT_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class Certificate(Struct, frozen=True):
    """The part of a certificate that people ask for."""

    subject: str
    issuer: str
    not_after_ms: int
    """The end of its time, in milliseconds since 1970-01-01 UTC."""
    names: frozenset[str]
    """The hosts and addresses that it is for (subject alternative names)."""


def read_certificates_of(pem: bytes) -> tuple[Certificate, ...]:
    """All certificates of a PEM text, in their order. Raises ValueError, and ImportError without `cryptography`."""
    from cryptography import x509

    return tuple(_certificate(each) for each in x509.load_pem_x509_certificates(pem))


def subject_of(der: bytes) -> str:
    """The subject of a certificate in DER. Raises ValueError, and ImportError without `cryptography`."""
    from cryptography import x509

    return _name(x509.load_der_x509_certificate(der).subject)


def _certificate(certificate: "x509.Certificate") -> Certificate:
    return Certificate(
        subject=_name(certificate.subject),
        issuer=_name(certificate.issuer),
        not_after_ms=int(certificate.not_valid_after_utc.timestamp() * 1000),
        names=frozenset(_alternative_names(certificate)),
    )


def _alternative_names(certificate: "x509.Certificate") -> Iterator[str]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    yield from names.get_values_for_type(x509.DNSName)
    yield from map(str, names.get_values_for_type(x509.IPAddress))


def _name(name: "x509.Name") -> str:
    return ",".join("+".join(map(_attribute, part)) for part in reversed(name.rdns))


def _attribute(attribute: "x509.NameAttribute[str | bytes]") -> str:
    oid, value = attribute.oid.dotted_string, attribute.value
    short = _SHORT_NAMES.get(oid)
    if short is None or isinstance(value, bytes):
        return f"{short or oid}=#{_der_value(attribute).hex()}"
    return f"{short}={_escaped(value)}"


def _escaped(value: str) -> str:
    text = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in value)
    left = len(text) - len(text.lstrip(" "))
    stripped = text.strip(" ")
    right = len(text) - left - len(stripped)
    return "\\ " * left + stripped + "\\ " * (right if stripped else 0)


def _der_value(attribute: "x509.NameAttribute[str | bytes]") -> bytes:
    """The value with its type: what is behind the OID in SEQUENCE { SET { SEQUENCE { OID, value }}}."""
    from cryptography import x509

    data = x509.Name([attribute]).public_bytes()
    for _ in range(3):
        data = data[_header_bytes(data) :]
    return data[_header_bytes(data) + data[1] :]  # an OID has less than 128 bytes


def _header_bytes(data: bytes) -> int:
    """How long the type and the length at the front are."""
    return 2 if data[1] < 0x80 else 2 + (data[1] & 0x7F)
