"""The `ssl.SSLContext` of a server or a client, out of a `TlsConfig`. Python's `ssl`, which is OpenSSL.

A key that is not in a file is given to OpenSSL by one that has no name, which nobody else can open. BLOCKING: files are
read.
"""

import os
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ottla.security.cipher_suites import split_suites
from ottla.security.key_store import KeyPair, read_certificates, read_key_pair
from ottla.security.tls_config import TLS_VERSIONS, TlsConfig
from ottla.settings.definition import InvalidSettingError

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(config: TlsConfig) -> ssl.SSLContext:
    """The side of a listener. Raises InvalidSettingError, which names the setting and the file."""
    if not config.key_store.is_given:
        raise InvalidSettingError(
            "a listener that speaks TLS needs a private key with a certificate: set ssl.keystore.location, or "
            "ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _use(context, config)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_mode = _CLIENT_AUTH[config.client_auth]
    if config.client_auth != "none":
        _trust(context, config, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(config: TlsConfig) -> ssl.SSLContext:
    """The side of a client. Raises InvalidSettingError, which names the setting and the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.checks_host_name
    _use(context, config)
    _trust(context, config, ssl.Purpose.SERVER_AUTH)
    return context


def _use(context: ssl.SSLContext, config: TlsConfig) -> None:
    """The versions, the cipher suites and the own key."""
    versions: Sequence[str] = [each for each in TLS_VERSIONS if each in config.versions]
    if config.cipher_suites:
        versions = _use_suites(context, config, versions)
    if not versions:
        raise InvalidSettingError("ssl.enabled.protocols has no version that ssl.protocol allows")
    context.minimum_version = _VERSIONS[versions[0]]
    context.maximum_version = _VERSIONS[versions[-1]]
    if config.key_store.is_given:
        _use_key_pair(context, config)


def _use_suites(context: ssl.SSLContext, config: TlsConfig, versions: Sequence[str]) -> Sequence[str]:
    """Allow these cipher suites alone; the versions that are left for them."""
    try:
        of_1_2, has_1_3 = split_suites(config.cipher_suites)
        if of_1_2:
            context.set_ciphers(":".join(of_1_2))
    except ValueError as error:
        raise InvalidSettingError(f"ssl.cipher.suites: {error}") from error
    except ssl.SSLError as error:
        raise InvalidSettingError(
            f"ssl.cipher.suites={','.join(config.cipher_suites)}: OpenSSL has none of them"
        ) from error
    allowed = [each for each in versions if (has_1_3 if each == "TLSv1.3" else of_1_2)]
    if not allowed:
        raise InvalidSettingError("ssl.cipher.suites has none for the versions of ssl.enabled.protocols")
    return allowed


def _use_key_pair(context: ssl.SSLContext, config: TlsConfig) -> None:
    store = config.key_store
    pair = read_key_pair(store, config.key_password)
    where = "ssl.keystore.key" if store.location is None else f"ssl.keystore.location={store.location}"

    def password() -> str:
        if pair.password is None:
            raise InvalidSettingError(f"{where}: the private key is encrypted: set ssl.key.password")
        return pair.password

    try:
        with _file_of(pair) as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        raise InvalidSettingError(f"{where}: {_why(error, pair)}") from error


def _why(error: ssl.SSLError, pair: KeyPair) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key is not that of the first certificate: put the broker's own certificate first"
    if b"ENCRYPTED" in pair.pem:
        return "the private key cannot be decrypted: is ssl.key.password the right one?"
    return f"the key and its certificates cannot be used: {error.reason or error}"


def _trust(context: ssl.SSLContext, config: TlsConfig, purpose: ssl.Purpose) -> None:
    store = config.trust_store
    if not store.is_given:
        context.load_default_certs(purpose)
        return
    where = "ssl.truststore.certificates" if store.location is None else f"ssl.truststore.location={store.location}"
    try:
        context.load_verify_locations(cadata=read_certificates(store).decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else None
        raise InvalidSettingError(f"{where}: its certificates cannot be read: {reason or error}") from error


@contextmanager
def _file_of(pair: KeyPair) -> Iterator[str]:
    """The name of a file with the key that only this process can open, while it is needed."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(pair.pem)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    import tempfile

    with tempfile.NamedTemporaryFile() as file:  # made with mode 0600
        file.write(pair.pem)
        file.flush()
        yield file.name
