"""The TLS of a broker's listeners and of its connections to other brokers: keys that change while it runs.

    settings, or a file that changes --> contexts made anew, in a thread --> the next handshakes use them

What cannot be used leaves what there was, with a line in the log. So does a certificate with another subject or fewer
names than before, unless `ssl.allow.dn.changes` and `ssl.allow.san.changes` say that it may be (KIP-978). A certificate
that ends soon is warned of once a day.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.model.principal import ANONYMOUS, Principal
from ottla.runtime.environment import Environment
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.broker_tls_table import TLS_SETTINGS
from ottla.settings.definition import Complaint, InvalidSettingError
from ottla.settings.listener_overrides import PREFIX
from ottla.settings.value import SettingValue

if TYPE_CHECKING:
    from ottla.security.certificate import Certificate
    from ottla.security.file_states import FileStates
    from ottla.security.principal_mapping import MappingRule
    from ottla.security.tls_config import TlsConfig

logger = logging.getLogger(__name__)

WATCH_MS: Final = 5_000
"""How often it is looked whether files have changed."""

WARNED_BEFORE_MS: Final = 30 * 86_400_000
WARNED_EVERY_MS: Final = 86_400_000

_NAMES: Final = tuple(each.name for each in TLS_SETTINGS if each.name.startswith("ssl."))
_NAMED_FIRST: Final = re.compile(r"(ssl\.[a-z.]+)")
_SUBJECTS_MAX: Final = 10_000
"""Names of clients that are remembered: certificates of as many clients are read once."""


class _Loaded(Struct, frozen=True):
    """What a listener's settings and files have given."""

    asked: tuple[SettingValue, ...]
    """The values of the settings that it was asked with last, which it may not be made of."""
    files: FileStates
    server: ssl.SSLContext
    client: ssl.SSLContext | None
    certificate: Certificate | None
    """The broker's own; None where `cryptography` is not installed."""
    rules: tuple[MappingRule, ...]


class ListenerTls:
    """How one listener speaks TLS: a `TlsAcceptor`. Belongs to the event loop."""

    def __init__(self, listener: str) -> None:
        self.listener = listener
        self.loaded: _Loaded | None = None
        """None while there is nothing that can be used: nobody is let in."""
        self._names: dict[bytes, str] = {}  # by the digest of the certificate
        self.warned_ms: int | None = None

    def context(self) -> ssl.SSLContext:
        """What the next handshake of a client is made by. Raises OSError while there is nothing that can be used."""
        if self.loaded is None:
            raise OSError(f"the TLS settings of listener {self.listener} cannot be used")
        return self.loaded.server

    def use(self, loaded: _Loaded) -> None:
        """From the next handshake on."""
        self.loaded = loaded
        self._names.clear()
        self.warned_ms = None

    def principal_of(self, session: ssl.SSLObject) -> Principal:
        """Who the client is. Raises ValueError for a certificate that no rule is for, or that cannot be read."""
        der = session.getpeercert(True)
        if der is None:
            return ANONYMOUS
        assert self.loaded is not None
        import hashlib  # only where clients show certificates

        from ottla.security.certificate import subject_of
        from ottla.security.principal_mapping import mapped_name

        key = hashlib.sha256(der).digest()
        name = self._names.get(key)
        if name is None:
            subject = subject_of(der)
            name = mapped_name(self.loaded.rules, subject)
            if name is None:
                raise ValueError(f"no rule of ssl.principal.mapping.rules is for the subject {subject} of the client")
            if len(self._names) >= _SUBJECTS_MAX:
                self._names.clear()
            self._names[key] = name
        return Principal("User", name)


class BetweenBrokersTls:
    """How this broker connects to others: as a client, by the settings of the listener at which they speak."""

    def __init__(self, tls: ListenerTls) -> None:
        self._tls = tls

    def context(self) -> ssl.SSLContext:
        """What the next handshake with another broker is made by. Raises OSError as that of clients does."""
        loaded = self._tls.loaded
        if loaded is None or loaded.client is None:
            raise OSError(f"the TLS settings of listener {self._tls.listener} cannot be used")
        return loaded.client


class BrokerTls:
    """Of all listeners. Belongs to the event loop."""

    def __init__(self, settings: BrokerSettings, environment: Environment) -> None:
        self._settings = settings
        self._environment = environment
        self._listeners = {name: ListenerTls(name) for name in settings.encrypted_listeners}
        self._is_watching = False

    @property
    def certificates(self) -> Mapping[str, Certificate]:
        """The certificate of each listener that has one which can be read, by the listener's name."""
        loaded = {name: each.loaded.certificate for name, each in self._listeners.items() if each.loaded is not None}
        return MappingProxyType({name: certificate for name, certificate in loaded.items() if certificate is not None})

    def acceptor(self, listener: str) -> ListenerTls | None:
        """How a listener speaks TLS; None for one that does not."""
        return self._listeners.get(listener)

    @property
    def between_brokers(self) -> BetweenBrokersTls | None:
        """How brokers speak TLS to each other; None where they do not."""
        tls = self._listeners.get(self._settings.listeners.between_brokers)
        return None if tls is None else BetweenBrokersTls(tls)

    async def start(self) -> None:
        """Read what the listeners need. Raises InvalidSettingError, which names the setting and the file."""
        for listener, tls in self._listeners.items():
            tls.use(await self._environment.tasks.in_thread(load, self._settings, listener))
        self._look_at_time()
        self._watch()

    async def configure(self, settings: BrokerSettings) -> None:
        """Apply settings that changed while the broker runs; what cannot be used is said in the log."""
        self._settings = settings
        wanted = settings.encrypted_listeners
        for listener in wanted:
            present = self._listeners.setdefault(listener, ListenerTls(listener)).loaded
            if present is None or present.asked != _asked(settings, listener):
                await self._load_again(listener)
        for gone in self._listeners.keys() - set(wanted):
            del self._listeners[gone]
        self._watch()

    async def check(self, settings: BrokerSettings) -> None:
        """Whether these settings could be used. Raises InvalidSettingError."""
        for listener in settings.encrypted_listeners:
            loaded = await self._environment.tasks.in_thread(load, settings, listener)
            present = self._listeners.get(listener)
            if present is not None and present.loaded is not None:
                _require_same_owner(settings, listener, present.loaded.certificate, loaded.certificate)

    async def look_at_files(self) -> None:
        """Use what has changed in the files."""
        for listener, tls in tuple(self._listeners.items()):
            present = tls.loaded
            if present is None:
                continue
            from ottla.security.file_states import file_states  # a broker of plaintext reads none of this

            files = await self._environment.tasks.in_thread(file_states, _config(self._settings, listener))
            if files != present.files:
                await self._load_again(listener)

    async def _load_again(self, listener: str) -> None:
        settings, tls, in_thread = self._settings, self._listeners[listener], self._environment.tasks.in_thread
        present = tls.loaded
        try:
            loaded = await in_thread(load, settings, listener)
            if present is not None:
                _require_same_owner(settings, listener, present.certificate, loaded.certificate)
        except InvalidSettingError as error:
            stays = "nobody is let in" if present is None else "what it had before is used on"
            logger.error("the TLS settings of listener %s cannot be used, %s: %s", listener, stays, error.message)
            if present is not None:  # said once for each change
                from ottla.security.file_states import file_states

                files = await in_thread(file_states, _config(settings, listener))
                tls.loaded = replace(present, asked=_asked(settings, listener), files=files)
            return
        tls.use(loaded)
        if present is not None:
            ends = "" if loaded.certificate is None else f", its certificate ends on {_day(loaded.certificate)}"
            logger.warning("listener %s has new TLS settings%s", listener, ends)
        self._look_at_time()

    def _watch(self) -> None:
        if self._listeners and not self._is_watching:
            self._is_watching = True
            self._environment.timer.schedule(WATCH_MS, self._on_time)

    def _on_time(self) -> None:
        self._is_watching = False
        self._look_at_time()
        self._environment.tasks.spawn(self.look_at_files(), "TLS files")
        self._watch()

    def _look_at_time(self) -> None:
        """Warn of certificates that end soon, once a day."""
        clock = self._environment.clock
        for each in self._listeners.values():
            certificate, now_ms = None if each.loaded is None else each.loaded.certificate, clock.now_ms()
            if certificate is None or certificate.not_after_ms - now_ms > WARNED_BEFORE_MS:
                continue
            monotonic_ms = clock.monotonic_ms()
            if each.warned_ms is not None and monotonic_ms - each.warned_ms < WARNED_EVERY_MS:
                continue
            each.warned_ms = monotonic_ms
            day = _day(certificate)
            if certificate.not_after_ms <= now_ms:
                logger.error("the certificate of listener %s has expired on %s: clients refuse it", each.listener, day)
            else:
                left = (certificate.not_after_ms - now_ms) // 86_400_000
                logger.warning(
                    "the certificate of listener %s ends on %s, in %d days: replace it", each.listener, day, left
                )


def load(settings: BrokerSettings, listener: str) -> _Loaded:
    """What a listener's settings and files give. BLOCKING. Raises InvalidSettingError."""
    from ottla.security.file_states import file_states  # a broker of plaintext reads none of this
    from ottla.security.key_store import read_key_pair
    from ottla.security.tls_context import client_context, server_context

    config = _config(settings, listener)
    try:
        files = file_states(config)
        server = server_context(config)
        client = client_context(config) if listener == settings.listeners.between_brokers else None
        certificate = _first_certificate(read_key_pair(config.key_store, config.key_password).pem)
        if certificate is None and config.client_auth != "none":
            raise InvalidSettingError(
                f"ssl.client.auth={config.client_auth}: the certificates of clients are read by the package "
                "cryptography: install ottla[tls]"
            )
        return _Loaded(_asked(settings, listener), files, server, client, certificate, _rules(settings, listener))
    except InvalidSettingError as error:
        raise _named(settings, listener, error) from error


def require_usable(settings: BrokerSettings) -> None:
    """Whether each listener that speaks TLS can. BLOCKING. Raises InvalidSettingError."""
    for listener in settings.encrypted_listeners:
        load(settings, listener)


def _asked(settings: BrokerSettings, listener: str) -> tuple[SettingValue, ...]:
    is_between_brokers = listener == settings.listeners.between_brokers
    return (is_between_brokers, *(settings.for_listener(listener, name) for name in _NAMES))


def _config(settings: BrokerSettings, listener: str) -> TlsConfig:
    from ottla.security.tls_config import TlsConfig

    return TlsConfig.from_settings(lambda name: settings.for_listener(listener, name))


def _rules(settings: BrokerSettings, listener: str) -> tuple[MappingRule, ...]:
    from ottla.security.principal_mapping import parse_mapping_rules

    return parse_mapping_rules(str(settings.for_listener(listener, "ssl.principal.mapping.rules")))


def _first_certificate(pem: bytes) -> Certificate | None:
    from ottla.security.certificate import read_certificates_of

    try:
        return read_certificates_of(pem)[0]
    except ImportError:
        return None
    except (ValueError, IndexError) as error:
        raise InvalidSettingError(f"ssl.keystore.location: its certificate cannot be read: {error}") from error


def _require_same_owner(
    settings: BrokerSettings, listener: str, present: Certificate | None, new: Certificate | None
) -> None:
    if present is None or new is None:
        return
    if present.subject != new.subject and not settings.for_listener(listener, "ssl.allow.dn.changes"):
        raise InvalidSettingError(
            f"the new certificate of listener {listener} has the subject {new.subject}, not {present.subject}: set "
            "ssl.allow.dn.changes=true if that is meant"
        )
    lost = present.names - new.names
    if lost and not settings.for_listener(listener, "ssl.allow.san.changes"):
        raise InvalidSettingError(
            f"the new certificate of listener {listener} does not name {', '.join(sorted(lost)[:10])}: set "
            "ssl.allow.san.changes=true if that is meant"
        )


def _named(settings: BrokerSettings, listener: str, error: InvalidSettingError) -> InvalidSettingError:
    """The error with the name of the setting as it was given."""
    match = _NAMED_FIRST.match(error.message)
    if match is None:
        return InvalidSettingError(f"listener {listener}: {error.message}")
    own = f"{PREFIX}{listener.lower()}.{match[1]}"
    message = own + error.message[match.end() :] if own in settings.explicit else error.message
    name = own if own in settings.explicit else match[1]
    return InvalidSettingError(message, [Complaint(name, message)])


def _day(certificate: Certificate) -> str:
    """The day on which it ends."""
    return datetime.fromtimestamp(certificate.not_after_ms / 1000, UTC).strftime("%Y-%m-%d")
