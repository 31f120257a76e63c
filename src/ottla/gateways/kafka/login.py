"""How far a client of one connection is with proving who it is (KIP-43, KIP-152, KIP-368).

    HANDSHAKE ---SaslHandshake--> EXCHANGE ---the last SaslAuthenticate--> DONE
        ^                             |                                     |
        |                             +--wrong--> FAILED, closed            | its time is over, or SaslHandshake
        +-------------------------------------------------------------------+

Until it is done at a listener where clients log in, nothing else is served but ApiVersions, and no request may be
larger than `sasl.server.max.receive.size`. Whoever sends anything else is gone without an answer, as from Kafka.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from ottla.protocol.api_keys import ApiKey
from ottla.security.sasl_server import SaslError

if TYPE_CHECKING:
    from ottla.broker.authentication import ListenerLogin
    from ottla.model.principal import Principal
    from ottla.runtime.timing_wheel import TimerTask
    from ottla.security.sasl_server import SaslServer

REAUTH_MS_MIN: Final = 1_000
"""Nobody may log in again more often."""


class Step(Enum):
    """How far it is."""

    HANDSHAKE = 1
    EXCHANGE = 2
    DONE = 3
    FAILED = 4


_ALLOWED: Final = {
    Step.HANDSHAKE: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    Step.EXCHANGE: frozenset({ApiKey.SASL_AUTHENTICATE}),
    Step.DONE: frozenset(ApiKey),
    Step.FAILED: frozenset[ApiKey](),
}


class Login:
    """Belongs to the event loop."""

    __slots__ = (
        "begun_ms",
        "has_session",
        "is_peer",
        "listener",
        "mechanism",
        "server",
        "session_timer",
        "step",
        "user",
    )

    def __init__(self, listener: ListenerLogin | None) -> None:
        """`listener` is how clients log in there; None where only brokers prove who they are."""
        self.listener = listener
        self.step = Step.HANDSHAKE
        self.server: SaslServer | None = None
        """The exchange, while it lasts."""
        self.mechanism: str | None = None
        """The mechanism of the exchange, and of those before it: it stays the same."""
        self.is_peer = False
        """Whether it says of itself that it is a broker of the cluster."""
        self.user: Principal | None = None
        """Who it proved to be the last time: it stays the same."""
        self.begun_ms = 0
        """When the latest exchange began, by the monotonic clock."""
        self.has_session = False
        """Whether it has to log in again after a while."""
        self.session_timer: TimerTask | None = None
        """Ends the session of a client that has to log in again now and then, or the wait for one to log in."""

    @property
    def is_again(self) -> bool:
        """Whether it has been done before."""
        return self.user is not None

    def allows(self, api_key: int) -> bool:
        """Whether a request is served now."""
        return api_key in _ALLOWED[self.step]

    def begin(self, server: SaslServer, mechanism: str, now_ms: int) -> None:
        """An exchange begins. Another mechanism than the first is found out at its end, as Kafka does."""
        self.server = server
        self.step = Step.EXCHANGE
        self.begun_ms = now_ms
        if self.mechanism is None:
            self.mechanism = mechanism
        elif self.mechanism != mechanism:
            self.server = _Refused(
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of mechanism "
                f"'{self.mechanism}'"
            )

    def succeed(self, principal: Principal) -> None:
        """The exchange has proved who it is. Raises SaslError when that is another one than before."""
        if self.user is not None and (self.user.type, self.user.name) != (principal.type, principal.name):
            raise SaslError(f"Cannot change principals during re-authentication from {self.user}: {principal}")
        self.user = principal
        self.server = None
        self.step = Step.DONE

    def fail(self) -> None:
        """It did not prove it."""
        self.server = None
        self.step = Step.FAILED

    def close(self) -> None:
        """The connection is gone."""
        self.server = None
        if self.session_timer is not None:
            self.session_timer.cancel()
            self.session_timer = None


class _Refused:
    """An exchange that fails whatever is said in it."""

    user: str | None = None
    expires_ms: int | None = None
    by_token = False

    def __init__(self, why: str) -> None:
        self._why = why

    def answer(self, message: bytes | memoryview) -> bytes:
        """Refuse it."""
        del message
        raise SaslError(self._why)
