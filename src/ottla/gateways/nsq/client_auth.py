"""What one client may do where clients have to say AUTH.

Commands are looked at in the order in which they came. While AUTH is under way, or what an auth server said has
expired, those that need it wait in line:

    AUTH --> asks --> PUB, SUB: looked at as they are read --> expired: the next one asks again, others wait behind it
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from ottla.gateways.nsq.auth_server import Authorizations, AuthServers, AuthUnavailableError
from ottla.gateways.nsq.command_reader import quoted
from ottla.gateways.nsq.error import NsqError, invalid
from ottla.runtime.clock import Clock

logger = logging.getLogger(__name__)

AskedAbout = Callable[[], tuple[str, bool, str]]
"""Gives the address of a client, whether it has TLS, and the common name of its certificate."""


class ClientAuth:
    """Belongs to the event loop."""

    def __init__(self, servers: AuthServers, about: AskedAbout, clock: Clock) -> None:
        self.authorizations: Authorizations | None = None
        """What the client may do; None before it said AUTH."""
        self._servers = servers
        self._about = about
        self._clock = clock
        self._secret = b""
        self._expires_ms = 0
        self._refusal: NsqError | None = None  # what ended it: what came behind it is not looked at
        self._turn = asyncio.Lock()
        self._waiting = 0

    def begin(self) -> None:
        """AUTH was read; `authenticate` follows. What comes behind it waits."""
        if self.authorizations is not None:
            raise invalid("AUTH already set")
        self._waiting += 1

    async def authenticate(self, secret: bytes) -> bytes:
        """What AUTH is answered. Raises NsqError."""
        try:
            async with self._turn:
                if self.authorizations is not None:
                    raise invalid("AUTH already set")
                self._secret = secret
                found = await self._ask()
                if not found.count:
                    raise NsqError("E_UNAUTHORIZED", "AUTH no authorizations found")
                self._use(found)
        except NsqError as error:
            self._refusal = error
            raise
        finally:
            self._waiting -= 1
        told = {"identity": found.identity, "identity_url": found.identity_url, "permission_count": found.count}
        return msgspec.json.encode(told)

    def check(self, command: str, topic: str, channel: str) -> None:
        """Refuse what the client may not do. What has to wait for an auth server is for `in_turn`. Raises NsqError."""
        if not self._has_to_wait():
            self._require(command, topic, channel)

    async def in_turn(self, command: str, topic: str, channel: str) -> None:
        """Go on when what was said before is known, and the client may do it. Raises NsqError."""
        if self._refusal is None and not self._has_to_wait():
            return
        self._waiting += 1
        try:
            async with self._turn:
                if self._refusal is not None:
                    raise self._refusal
                if self.authorizations is not None and self._is_expired():
                    self._use(await self._ask())
                self._require(command, topic, channel)
        except NsqError as error:
            self._refusal = error
            raise
        finally:
            self._waiting -= 1

    def _has_to_wait(self) -> bool:
        return self._waiting > 0 or (self.authorizations is not None and self._is_expired())

    def _is_expired(self) -> bool:
        return self._clock.monotonic_ms() >= self._expires_ms

    def _require(self, command: str, topic: str, channel: str) -> None:
        if self.authorizations is None:
            raise NsqError("E_AUTH_FIRST", f"AUTH required before {command}")
        if not self.authorizations.allows(topic, channel):
            names = f"{quoted(topic.encode())} {quoted(channel.encode())}"
            raise NsqError("E_UNAUTHORIZED", f"AUTH failed for {command} on {names}")

    async def _ask(self) -> Authorizations:
        remote_ip, has_tls, common_name = self._about()
        try:
            return await self._servers.ask(self._secret, remote_ip, has_tls=has_tls, common_name=common_name)
        except AuthUnavailableError as error:
            logger.warning("the AUTH of an NSQ client at %s failed: %s", remote_ip, error)
            raise NsqError("E_AUTH_FAILED", "AUTH failed") from error  # why is not for strangers

    def _use(self, found: Authorizations) -> None:
        self.authorizations = found
        self._expires_ms = self._clock.monotonic_ms() + 1000 * found.ttl_s
