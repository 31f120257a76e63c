"""How Redis clients log in: AUTH and HELLO AUTH, against the users of the cluster.

listener.security.protocol.map  REDIS:PLAINTEXT, SSL            who has not logged in is User:ANONYMOUS
                                REDIS:SASL_PLAINTEXT, SASL_SSL  who has not logged in may do nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.passwords import PasswordCheck
from ottla.model.printable import printable

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.gateways.redis.session import Session
    from ottla.network.connection import Connection
    from ottla.settings.broker_settings import BrokerSettings

LISTENER: Final = "REDIS"
"""The name of the listener in settings that are for it alone: `listener.name.redis.`."""
USER_BYTES_MAX: Final = 1_024


class LoginMissingError(Exception):
    """A command waits until it is known whether a password is right."""

    def __init__(self, session: Session, user: bytes, password: bytes) -> None:
        super().__init__("a password is checked")
        self.session = session
        self.user = user
        self.password = password


class Logins:
    """Belongs to the event loop."""

    def __init__(self, broker: Broker, settings: BrokerSettings) -> None:
        self._broker = broker
        self._passwords = PasswordCheck(settings, LISTENER, broker.rng, broker.tasks)
        self._delay_ms = settings.integer("connection.failed.authentication.delay.ms")
        self.is_required = settings.protocol_of(LISTENER).has_sasl
        """Whether nobody may do anything before it."""
        self.super_users = frozenset(each.strip() for each in (settings.text("super.users") or "").split(";"))

    @property
    def users(self) -> list[str]:
        """Who may log in."""
        return self._passwords.users(self._broker.image)

    def has(self, user: bytes) -> bool:
        """Whether there is a user who has logged in before."""
        return self._passwords.has(self._broker.image, user.decode())

    async def check(self, asked: LoginMissingError, connection: Connection | None) -> None:
        """See whether the password is right, and tell the session. A wrong one takes a while, and always as long."""
        clock = self._broker.clock
        begun_ms = clock.monotonic_ms()
        is_right = False
        if len(asked.user) <= USER_BYTES_MAX:
            try:
                user = asked.user.decode()
                is_right = await self._passwords.is_right(
                    lambda: self._broker.image, user, asked.password, asked.session.principal.host
                )
            except UnicodeDecodeError:
                pass
        if not is_right:
            if connection is not None:
                shown = printable(asked.user.decode(errors="backslashreplace"), 100)
                connection.complain(f"a Redis client could not log in as {shown!r}")
            await self._broker.timer.sleep(max(self._delay_ms - (clock.monotonic_ms() - begun_ms), 0))
        asked.session.checked = (asked.user, asked.password, is_right)
