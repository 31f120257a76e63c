"""The keys that sign access tokens, read from a file or a URL and again now and then (KIP-768).

start --> READ --(refresh.ms, or a token of an unknown key, or the file has changed)--> read again
            \\--(it fails)--> again after backoff, twice as long each time; what was read before is used on
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from ottla.network.http_get import ANSWER_BYTES_MAX, HttpGetError, get_url
from ottla.security.access_token import NoKeysError, SigningKey, parse_keys
from ottla.security.tls_config import TlsConfig
from ottla.settings.definition import InvalidSettingError

if TYPE_CHECKING:
    from ottla.runtime.environment import Environment
    from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)

WATCH_MS: Final = 5_000
"""How often a file is looked at."""
SOONER_MS: Final = 10_000
"""How long after they were read unknown keys have them read again: a stranger may name as many as it likes."""


class SigningKeysError(Exception):
    """The keys cannot be read. One line says why."""


class KeysSource(Struct, frozen=True):
    """Where keys are, and how often they are read."""

    url: str
    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int
    tls: TlsConfig | None = None
    """How a URL of https is asked; None where the authorities of the operating system are trusted."""

    def __repr__(self) -> str:
        return f"<KeysSource {self.url}>"

    @property
    def path(self) -> Path | None:
        """The file; None where it is not one."""
        parts = urlsplit(self.url)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None


class SigningKeys:
    """Belongs to the event loop."""

    def __init__(
        self,
        source: KeysSource,
        environment: Environment,
        get: Callable[[str, ssl.SSLContext | None], Awaitable[bytes]] = get_url,
    ) -> None:
        self.source = source
        self.keys: tuple[SigningKey, ...] = ()
        """Those that are known; none until they could be read."""
        self._environment = environment
        self._get = get
        self._state: tuple[int, int, int] | None = None  # of the file that was read
        self._read_ms = 0
        self._failures = 0
        self._is_reading = False
        self._is_closed = False
        self._timer: TimerTask | None = None

    async def read(self) -> None:
        """Read them once. Raises SigningKeysError, also for a file or an answer that has none."""
        in_thread, path = self._environment.tasks.in_thread, self.source.path
        self._read_ms = self._environment.clock.monotonic_ms()
        try:
            if path is not None:
                self._state = await in_thread(_state, path)
                text = await in_thread(_content, path)
            else:
                is_encrypted = self.source.url.lower().startswith("https:")
                context = await in_thread(_context, self.source.tls) if is_encrypted else None
                text = await self._get(self.source.url, context)
            found, others = await in_thread(parse_keys, text)
        except ImportError as error:
            raise SigningKeysError("tokens are checked by the package PyJWT: install ottla[oauth]") from error
        except InvalidSettingError as error:
            raise SigningKeysError(f"sasl.jaas.config: {error.message}") from error
        except (OSError, ValueError, HttpGetError) as error:
            if isinstance(error, NoKeysError):
                self.keys = ()  # that is said, not a failure to say it: whoever took them away wants nobody in
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise SigningKeysError(f"the keys of {self.source.url} cannot be read: {said}") from error
        if found and others and not self.keys:
            logger.warning("%s has %d keys that cannot sign tokens", self.source.url, others)
        self.keys = found

    async def start(self) -> None:
        """Read them, and again from time to time. Raises SigningKeysError where a file has none."""
        try:
            await self.read()
        except SigningKeysError as error:
            if self.source.path is not None or isinstance(error.__cause__, ImportError | InvalidSettingError):
                raise
            self._failures = 1
            logger.error("%s; nobody can log in by OAUTHBEARER until they can", error)
        self._schedule()

    def begin(self) -> None:
        """As `start`, where nobody waits."""
        self._environment.tasks.spawn(self._again(), "keys that sign tokens")

    def miss(self) -> None:
        """A token is of a key that is not here: it may be a new one."""
        since_ms = self._environment.clock.monotonic_ms() - self._read_ms
        if not (self._is_reading or self._is_closed) and since_ms >= SOONER_MS:
            self.begin()

    def close(self) -> None:
        """Read nothing any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        source = self.source
        delay_ms = source.refresh_ms if source.path is None else min(source.refresh_ms, WATCH_MS)
        if self._failures:
            delay_ms = min(source.backoff_ms << min(self._failures - 1, 30), source.backoff_max_ms)
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_closed:
            self._timer = self._environment.timer.schedule(delay_ms, self._on_time)

    def _on_time(self) -> None:
        if not self._is_reading:
            self.begin()

    async def _again(self) -> None:
        if self._is_reading or self._is_closed:
            return
        self._is_reading = True
        try:
            path = self.source.path
            if path is None or self._failures or await self._environment.tasks.in_thread(_state, path) != self._state:
                await self.read()
            self._failures = 0
        except (SigningKeysError, OSError) as error:
            self._failures += 1
            if self._failures == 1:
                stays = "those read before are used on" if self.keys else "nobody can log in by OAUTHBEARER"
                logger.error("%s; %s, and it is tried again", error, stays)
        finally:
            self._is_reading = False
            self._schedule()


def _context(tls: TlsConfig | None) -> ssl.SSLContext:
    """Made anew each time: files of authorities may have changed. BLOCKING."""
    if tls is None:
        return ssl.create_default_context()
    from ottla.security.tls_context import client_context

    return client_context(tls)


def _state(path: Path) -> tuple[int, int, int]:
    """What changes when somebody changes the file. BLOCKING."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _content(path: Path) -> bytes:
    """BLOCKING."""
    with path.open("rb") as file:
        content = file.read(ANSWER_BYTES_MAX + 1)
    if len(content) > ANSWER_BYTES_MAX:
        raise ValueError(f"it has more than {ANSWER_BYTES_MAX} bytes")
    return content
