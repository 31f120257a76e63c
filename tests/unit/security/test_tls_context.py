"""Settings of TLS, as people write them, against OpenSSL: two contexts shake hands in memory."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from ottla.security.tls_config import TLS_VERSIONS, Store, TlsConfig
from ottla.security.tls_context import client_context, server_context
from ottla.settings.definition import InvalidSettingError
from tests.certificates import Authority

AUTHORITY = Authority()
BROKER = AUTHORITY.identity("broker")
NOTHING = Store(type="JKS")
INLINE = Store(type="PEM", key=BROKER.key_pem(), certificates=BROKER.certificate_pem)
TRUSTED = Store(type="PEM", certificates=AUTHORITY.certificate_pem)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> ssl.SSLObject:
    """The server's side of a handshake in memory. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=host),
    ]
    waiting = [sides[1], sides[0]]
    for _ in range(10):
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
        if not waiting:
            return sides[0]
    raise AssertionError("the handshake does not end")


def agreed(server: TlsConfig, client: TlsConfig) -> ssl.SSLObject:
    return shake_hands(server_context(server), client_context(client))


def test_a_key_is_taken_from_pem_from_pkcs12_and_from_the_settings_themselves(tmp_path: Path):
    client = TlsConfig(NOTHING, TRUSTED)
    pem = Store("PEM", str(BROKER.write_pem(tmp_path / "broker.pem")))
    hidden = Store("PEM", str(BROKER.write_pem(tmp_path / "hidden.pem", "secret")))
    pkcs12 = Store("PKCS12", str(BROKER.write_pkcs12(tmp_path / "broker.p12", "secret")), "secret")
    unsaid = Store("JKS", pkcs12.location, "secret")
    for store, password in ((INLINE, None), (pem, None), (hidden, "secret"), (pkcs12, None), (unsaid, None)):
        assert agreed(TlsConfig(store, NOTHING, password), client).version() == "TLSv1.3"


def test_an_authority_is_taken_from_pem_from_pkcs12_and_from_the_settings_themselves(tmp_path: Path):
    server = TlsConfig(INLINE, NOTHING)
    pem = Store("PEM", str(AUTHORITY.write(tmp_path / "ca.pem")))
    pkcs12 = Store("PKCS12", str(AUTHORITY.write_pkcs12(tmp_path / "ca.p12", "secret")), "secret")
    for store in (TRUSTED, pem, Store("JKS", pem.location), pkcs12):
        assert agreed(server, TlsConfig(NOTHING, store)).version() == "TLSv1.3"


def test_only_the_versions_and_cipher_suites_that_are_allowed_are_used():
    server = TlsConfig(INLINE, NOTHING, versions=("TLSv1.2",))
    assert agreed(server, TlsConfig(NOTHING, TRUSTED)).version() == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        agreed(server, TlsConfig(NOTHING, TRUSTED, versions=("TLSv1.3",)))
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    narrow = TlsConfig(INLINE, NOTHING, cipher_suites=(suite,))
    chosen = agreed(narrow, TlsConfig(NOTHING, TRUSTED)).cipher()
    assert chosen is not None
    assert chosen[:2] == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2")


def test_a_server_that_asks_for_a_certificate_gets_it_or_turns_the_client_away():
    alice = AUTHORITY.identity("alice")
    shown = TlsConfig(Store("PEM", key=alice.key_pem(), certificates=alice.certificate_pem), TRUSTED)
    for client_auth in ("requested", "required"):
        server = TlsConfig(INLINE, TRUSTED, client_auth=client_auth)
        assert agreed(server, shown).getpeercert(True) is not None
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        agreed(TlsConfig(INLINE, TRUSTED, client_auth="required"), TlsConfig(NOTHING, TRUSTED))


def test_the_name_of_the_host_is_checked_unless_it_is_said_not_to_be():
    server = server_context(TlsConfig(INLINE, NOTHING))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client_context(TlsConfig(NOTHING, TRUSTED)), "other.example")
    shake_hands(server, client_context(TlsConfig(NOTHING, TRUSTED, checks_host_name=False)), "other.example")


def refused(server: TlsConfig) -> str:
    with pytest.raises(InvalidSettingError) as error:
        server_context(server)
    return error.value.message


def test_mistakes_are_said_with_the_setting_and_the_file(tmp_path: Path):
    def written(name: str, text: str) -> Store:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
        return Store("PEM", str(path))

    other = AUTHORITY.identity("other")
    encrypted = BROKER.write_pem(tmp_path / "encrypted.pem", "secret")
    pkcs12 = str(BROKER.write_pkcs12(tmp_path / "broker.p12", "secret"))
    everybodys = BROKER.write_pem(tmp_path / "everybodys.pem")
    everybodys.chmod(0o644)
    java = tmp_path / "broker.jks"
    java.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    cases = [
        (NOTHING, "set ssl.keystore.location"),
        (Store("PEM", "/no/such"), "ssl.keystore.location=/no/such: No such file or directory"),
        (written("text", "hello"), "/text: it is not PEM"),
        (written("no-key", BROKER.certificate_pem), "/no-key: it has no private key"),
        (written("other-key", other.key_pem() + BROKER.certificate_pem), "is not that of the first certificate"),
        (Store("PEM", str(encrypted)), "set ssl.key.password"),
        (Store("PEM", str(everybodys)), f"run chmod 600 {everybodys}"),
        (Store("PEM", pkcs12), "set ssl.keystore.type=PKCS12"),
        (Store("PKCS12", pkcs12, "wrong"), "could not be read as PKCS12 with ssl.keystore.password"),
        (Store("PKCS12", str(encrypted)), "set ssl.keystore.type=PEM"),
        (Store("PEM", key=BROKER.key_pem()), "ssl.keystore.certificate.chain is not: give both"),
        (Store("PEM", pkcs12, key=BROKER.key_pem()), "are both given"),
        (
            Store("JKS", str(java)),
            f"keytool -importkeystore -srckeystore {java} -destkeystore {java}.p12 -deststoretype PKCS12",
        ),
    ]
    for store, said in cases:
        assert said in refused(TlsConfig(store, NOTHING)), store
    assert "is ssl.key.password the right one?" in refused(TlsConfig(Store("PEM", str(encrypted)), NOTHING, "wrong"))
    suites = [
        (("TLS_NO",), "is not the IANA name of a cipher suite"),
        (("TLS_X_WITH_Y",), "OpenSSL has none of them"),
        (("TLS_AES_256_GCM_SHA384",), "all together: add TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256"),
    ]
    for names, said in suites:
        assert said in refused(TlsConfig(INLINE, NOTHING, cipher_suites=names))


def test_a_key_in_the_settings_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server_context(TlsConfig(INLINE, NOTHING))
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("keytool") is None, reason="there is no JDK")
@pytest.mark.peer
def test_a_jks_file_of_keytool_is_converted_by_the_command_that_is_told(tmp_path: Path):
    java = tmp_path / "broker.jks"
    make = (
        "keytool -genkeypair -keyalg EC -alias own -dname CN=broker -storetype JKS -storepass secret1 -keypass secret1"
    )
    subprocess.run([*make.split(), "-keystore", str(java)], check=True, capture_output=True)
    said = refused(TlsConfig(Store("JKS", str(java), "secret1"), NOTHING))
    command = said.partition("convert it with: ")[2].partition(";")[0].split()
    subprocess.run([*command, "-srcstorepass", "secret1", "-deststorepass", "secret1"], check=True, capture_output=True)
    assert server_context(TlsConfig(Store("PKCS12", f"{java}.p12", "secret1"), NOTHING, versions=TLS_VERSIONS))
