"""Certificates for tests: an authority, and whom it vouches for. Keys are elliptic, which takes no time."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

DAY = timedelta(days=1)
HOSTS = ("localhost", "127.0.0.1")


def name_of(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class Identity:
    """A key and its certificate."""

    def __init__(self, key: Key, certificate: x509.Certificate) -> None:
        self.key = key
        self.certificate = certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        hidden: KeySerializationEncryption = NoEncryption()
        if password is not None:
            hidden = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden).decode()

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        """The key and the certificate in one file, as Kafka has them."""
        path.write_text(self.key_pem(password) + self.certificate_pem)
        path.chmod(0o600)
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own", self.key, self.certificate, None, BestAvailableEncryption(password.encode())
            )
        )
        path.chmod(0o600)
        return path


class Authority(Identity):
    """Signs certificates."""

    def __init__(self, common_name: str = "authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = name_of(common_name)
        super().__init__(key, _signed(key, subject, key, subject, 365 * DAY, (), is_authority=True))

    def identity(
        self,
        subject: str | x509.Name,
        hosts: tuple[str, ...] = HOSTS,
        *,
        lasts: timedelta = 365 * DAY,
        key: Key | None = None,
    ) -> Identity:
        """A certificate for a common name, or a whole subject; one that lasts less than nothing has expired. `key`: one
        that is there already.
        """
        key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
        subject = name_of(subject) if isinstance(subject, str) else subject
        return Identity(key, _signed(key, subject, self.key, self.certificate.subject, lasts, hosts))

    def write(self, path: Path) -> Path:
        """The certificate, for those who are to trust it."""
        path.write_text(self.certificate_pem)
        return path


def _signed(
    key: Key,
    subject: x509.Name,
    by: Key,
    issuer: x509.Name,
    lasts: timedelta,
    hosts: tuple[str, ...],
    *,
    is_authority: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 400 * DAY)
        .not_valid_after(now + lasts)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(by, hashes.SHA256())
