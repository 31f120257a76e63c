"""How NSQ clients are spoken to with TLS: the key and the certificate of files, read again when those have changed."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.gateways.nsq.layers import tls_context
from ottla.settings.definition import InvalidSettingError

if TYPE_CHECKING:
    from ottla.gateways.nsq.limits import NsqLimits

logger = logging.getLogger(__name__)


class NsqTls:
    """`context` is what the next handshake is made by; None where TLS is not offered."""

    def __init__(self, limits: NsqLimits) -> None:
        """Raises InvalidSettingError."""
        self._limits = limits
        self._states = _states_of(limits)
        self.context = nsq_tls_context(limits)

    def look_at_files(self) -> None:
        """Use what has changed in the files; what cannot be used is said in the log. BLOCKING."""
        states = _states_of(self._limits)
        if states == self._states:
            return
        self._states = states
        try:
            self.context = nsq_tls_context(self._limits)
        except InvalidSettingError as error:
            logger.error("%s; NSQ clients are shown the certificate of before", error.message)
        else:
            logger.warning("NSQ clients are shown a new certificate")


def nsq_tls_context(limits: NsqLimits) -> ssl.SSLContext | None:
    """What TLS is spoken with, None where it is not. Raises InvalidSettingError. BLOCKING."""
    if not limits.tls_cert:
        if limits.is_tls_required:
            raise InvalidSettingError(
                "nsq.tls.required and nsq.tls.client.auth.policy need a certificate: set nsq.tls.cert"
            )
        return None
    files = _files_of(limits)
    for name, path in files.items():
        if not Path(path).is_file():
            raise InvalidSettingError(f"{name}: there is no file {path}")
    from ottla.security.key_store import require_private  # a broker of plaintext reads none of this

    of_key = "nsq.tls.key" if limits.tls_key else "nsq.tls.cert"
    try:
        require_private(f"{of_key}={files[of_key]}", files[of_key], "")
        return tls_context(limits.tls_cert, limits.tls_key, limits.tls_root_ca, limits.tls_client_auth)
    except OSError as error:  # ssl.SSLError is one
        raise InvalidSettingError(f"{', '.join(files)}: not usable: {error}") from error


def _files_of(limits: NsqLimits) -> dict[str, str]:
    named = {
        "nsq.tls.cert": limits.tls_cert,
        "nsq.tls.key": limits.tls_key,
        "nsq.tls.root.ca.file": limits.tls_root_ca,
    }
    return {name: path for name, path in named.items() if path}


def _states_of(limits: NsqLimits) -> tuple[tuple[int, int, int], ...]:
    from ottla.security.file_states import states_of  # a broker of plaintext reads none of this

    return states_of(_files_of(limits).values()) if limits.tls_cert else ()
