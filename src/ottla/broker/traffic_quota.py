"""The quotas of a connection whose commands arrive in pieces, and that is sent what it did not ask for one by one.

    begin --> commands, `brings` their payload --> end      the payload and the time of the loop are counted
    pushed                                                   what leaves is counted

A client that brings too much, or keeps the loop busy for too long, is muted: nothing more of its connection is read.
One that takes too much gets nothing more for a while, but what it says is read: it has messages to finish. The time is
that of the loop alone, without what goes on afterwards, such as the disk's part.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.broker.request_quotas import Muted, RequestCharge, RequestQuotas
from ottla.model.principal import Principal

if TYPE_CHECKING:
    from ottla.runtime.timer import Timer
    from ottla.runtime.timing_wheel import TimerTask


class Mutable(Muted, Protocol):
    """A connection that says whether it is muted: `ottla.network.connection.Connection` is one."""

    @property
    def is_muted(self) -> bool:
        """Whether it is."""
        ...

    def when_unmuted(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when it is no longer."""
        ...


class TrafficQuota:
    """Belongs to the event loop. Costs a look-up where no quota applies to the client."""

    __slots__ = (
        "_brought_bytes",
        "_charge",
        "_connection",
        "_is_waiting",
        "_quotas",
        "_rest",
        "_resume",
        "_timer",
        "_who",
    )

    def __init__(
        self,
        quotas: RequestQuotas,
        timer: "Timer",
        connection: Mutable,
        who: Callable[[], tuple[Principal, str]],
        resume: Callable[[], None],
    ) -> None:
        """`who` gives principal and client id as they are now; `resume` is called when the client may have more."""
        self._quotas = quotas
        self._timer = timer
        self._connection = connection
        self._who = who
        self._resume = resume
        self._charge: RequestCharge | None = None
        self._brought_bytes = 0
        self._is_waiting = False
        self._rest: TimerTask | None = None

    @property
    def is_resting(self) -> bool:
        """Whether the client is over a quota, and is to get nothing more for now."""
        return self._rest is not None or self._connection.is_muted

    @property
    def is_counting(self) -> bool:
        """Whether a quota applies to who brings what is worked on."""
        return self._charge is not None

    def begin(self) -> None:
        """Something has arrived, and is worked on until `end`."""
        if not self._quotas.manager.has_limits:
            return
        who = self._who()
        if self._quotas.binds(*who):
            self._charge = self._quotas.begin(*who, self._connection)

    def brings(self, size_bytes: int) -> None:
        """Payload to be stored was in it."""
        self._brought_bytes += size_bytes

    def end(self) -> None:
        """Count what was brought and the time since `begin`."""
        charge, self._charge = self._charge, None
        brought_bytes, self._brought_bytes = self._brought_bytes, 0
        if charge is None:
            return
        if brought_bytes:
            charge.produced(brought_bytes)
        charge.end()
        if self._connection.is_muted and not self._is_waiting:
            self._is_waiting = True
            self._connection.when_unmuted(self._on_unmuted)

    def pushed(self, size_bytes: int) -> None:
        """Count what the client was sent."""
        if not self._quotas.manager.has_limits:
            return
        who = self._who()
        if not self._quotas.binds(*who):
            return
        throttle_ms = self._quotas.manager.pushed(*who, size_bytes)
        if throttle_ms:
            self.stop()
            self._rest = self._timer.schedule(throttle_ms, self._on_rested)

    def stop(self) -> None:
        """The connection is gone."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _on_unmuted(self) -> None:
        self._is_waiting = False
        self._resume()

    def _on_rested(self) -> None:
        self._rest = None
        self._resume()
