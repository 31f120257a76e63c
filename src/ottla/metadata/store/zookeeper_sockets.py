"""The sockets of kazoo: connected in time, and with TLS where that is set.

kazoo makes a context of OpenSSL of its own, which knows neither PKCS12 nor versions, and does not ask OpenSSL for what
it has decrypted already before it waits for more. All of this runs in kazoo's threads, so files may be read.
"""

import logging
import socket
import ssl
from collections.abc import Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from ottla.metadata.store.zookeeper_security import named_for_zookeeper
from ottla.security.tls_config import TlsConfig
from ottla.security.tls_context import client_context
from ottla.settings.definition import InvalidSettingError

logger = logging.getLogger(__name__)


class ZooKeeperSockets(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo would wait for one server for as long as the whole session lasts."""

    def __init__(self, connect_timeout_s: float, tls: TlsConfig | None = None) -> None:
        """Raises InvalidSettingError when keys or certificates cannot be used. BLOCKING: it reads their files."""
        super().__init__()
        self._connect_timeout_s = connect_timeout_s
        self._tls = tls
        self._context = None if tls is None else _context_of(tls)
        self.failure = ""
        """Why the newest handshake failed, if it did; for people."""

    def create_connection(self, address: Any, *, hostname: str = "", timeout: float, **_: Any) -> socket.socket:
        """A socket that is connected, in time."""
        timeout = min(timeout, self._connect_timeout_s)
        plain: socket.socket = super().create_connection(address, timeout=timeout)
        if self._tls is None:
            return plain
        try:
            plain.settimeout(timeout)
            encrypted = self._newest_context(self._tls).wrap_socket(plain, server_hostname=hostname)
        except (OSError, ValueError) as error:
            plain.close()
            self._tell(hostname, error)
            raise ConnectionError(self.failure) from error
        self.failure = ""
        return encrypted

    def select(self, readers: Sequence[Any], writers: Sequence[Any], *rest: Any) -> Any:
        """As `select.select`; what OpenSSL has decrypted can be read, whatever the socket says."""
        ready = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        return (ready, [], []) if ready else super().select(readers, writers, *rest)

    def _newest_context(self, tls: TlsConfig) -> ssl.SSLContext:
        """Of the files as they are now, or as they were when they could be used last."""
        try:
            self._context = _context_of(tls)
        except InvalidSettingError as error:
            logger.warning("%s; what was read before is used", error.message)
        assert self._context is not None
        return self._context

    def _tell(self, host: str, error: OSError | ValueError) -> None:
        failure = f"{host}: {_why(error)}"
        if failure != self.failure:
            self.failure = failure
            logger.warning("no TLS with ZooKeeper: %s", failure)


def _context_of(tls: TlsConfig) -> ssl.SSLContext:
    try:
        return client_context(tls)
    except InvalidSettingError as error:
        raise named_for_zookeeper(error) from error


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {error.verify_message}; see zookeeper.ssl.truststore.location"
    if isinstance(error, TimeoutError):
        return "it does not answer a TLS handshake: is this its secureClientPort?"
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "what it answers is not TLS: name its secureClientPort"
    if isinstance(error, ssl.SSLEOFError | ConnectionError):
        return (
            "it ended the connection in the TLS handshake: is this its secureClientPort, or does it want a certificate "
            "(zookeeper.ssl.keystore.location)?"
        )
    if isinstance(error, ssl.SSLError) and "CERTIFICATE" in (error.reason or ""):
        return (
            f"it refuses this broker's certificate, or wants one: see zookeeper.ssl.keystore.location ({error.reason})"
        )
    return f"the TLS handshake failed: {getattr(error, 'reason', None) or error}"
