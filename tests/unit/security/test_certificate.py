from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from ottla.security.certificate import read_certificates_of, subject_of
from tests.certificates import Authority

AUTHORITY = Authority()


def subject(*parts: list[tuple[x509.ObjectIdentifier, str]]) -> str:
    """How a subject is written; parts are the least special first, as in a certificate."""
    name = x509.Name([x509.RelativeDistinguishedName([x509.NameAttribute(*each) for each in part]) for part in parts])
    return subject_of(AUTHORITY.identity(name).certificate.public_bytes(Encoding.DER))


def test_a_subject_is_written_as_java_writes_it():
    """Compared with `X500Principal.getName()` of a JDK."""
    assert (
        subject(
            [(NameOID.COUNTRY_NAME, "US")],
            [(NameOID.ORGANIZATION_NAME, "Sun Microsystems")],
            [(NameOID.ORGANIZATIONAL_UNIT_NAME, "JavaSoft")],
            [(NameOID.COMMON_NAME, "Duke")],
        )
        == "CN=Duke,OU=JavaSoft,O=Sun Microsystems,C=US"
    )


def test_a_subject_cannot_say_what_it_is_not():
    common = NameOID.COMMON_NAME
    assert subject([(common, "a,O=b")]) == r"CN=a\,O\=b"
    assert subject([(common, 'q"+<>;#\\')]) == r"CN=q\"\+\<\>\;\#\\"
    assert subject([(common, " two  ")]) == r"CN=\ two\ \ "
    assert subject([(common, "gr\u00fcn")]) == "CN=gr\u00fcn"
    assert subject([(common, "admin\0.example")]) == r"CN=admin\00.example"
    several = subject([(common, "a"), (NameOID.ORGANIZATION_NAME, "b")])
    assert several in ("CN=a+O=b", "O=b+CN=a")


def test_what_has_no_short_name_is_written_with_its_type():
    assert subject([(NameOID.EMAIL_ADDRESS, "a@b")], [(NameOID.COMMON_NAME, "c")]) == (
        "CN=c,1.2.840.113549.1.9.1=#1603614062"
    )


def test_the_end_and_the_hosts_of_a_certificate_are_read():
    made = AUTHORITY.identity("broker", ("localhost", "::1"))
    [own, issuer] = read_certificates_of((made.certificate_pem + AUTHORITY.certificate_pem).encode())
    assert own.not_after_ms == int(made.certificate.not_valid_after_utc.timestamp() * 1000)
    assert own.names == {"localhost", "::1"}
    assert (own.subject, own.issuer, issuer.subject) == ("CN=broker", "CN=authority", "CN=authority")
