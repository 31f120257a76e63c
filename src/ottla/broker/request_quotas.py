"""Requests of clients that have a quota, in every gateway: each is counted, and a client over its quota is throttled.

    what it brings   its bytes when it arrives         what it takes   the bytes it gets, when they are read
    any request      the time it keeps the loop busy, when its handler is done

The answer leaves at once, and nothing more of the connection is read or handled for the longest of these throttle
times, however much the client has sent already (KIP-124, KIP-219). A protocol that has a place for the time tells it.
Requests of clients that no quota applies to are not counted: a gateway asks `binds` first.
"""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar

from ottla.broker.quota_manager import ClientQuotaManager, FetchVerdict, MutationQuota
from ottla.model.principal import BROKER, Principal
from ottla.runtime.timed_steps import TimedSteps

T = TypeVar("T")


class Muted(Protocol):
    """A connection, as far as quotas go: `ottla.network.connection.Connection` is one."""

    def mute(self, throttle_ms: int) -> None:
        """Read and handle nothing more of it for so long."""
        ...


class RequestCharge:
    """Counts one request of one client, and mutes its connection for as long as the client is to be quiet."""

    __slots__ = ("_begun_ns", "_changes", "_client_id", "_connection", "_principal", "_quotas", "throttle_ms")

    def __init__(
        self,
        quotas: "RequestQuotas",
        principal: Principal,
        client_id: str | None,
        connection: Muted,
        begun_ns: int | None,
    ) -> None:
        """`begun_ns` is when it began, None while its time is measured elsewhere."""
        self._quotas = quotas
        self._principal = principal
        self._client_id = client_id
        self._connection = connection
        self._begun_ns = begun_ns
        self._changes: MutationQuota | None = None
        self.throttle_ms = 0
        """For how long the client is to be quiet."""

    def throttle(self, throttle_ms: int) -> None:
        """The client is to be quiet for at least so long, from now on."""
        if throttle_ms > self.throttle_ms:
            self.throttle_ms = throttle_ms
            self._connection.mute(throttle_ms)

    def produced(self, size_bytes: int) -> None:
        """Count what the request brings."""
        self.throttle(self._quotas.manager.produced(self._principal, self._client_id, size_bytes))

    def handled(self, elapsed_ns: int) -> None:
        """Count that time."""
        self.throttle(self._quotas.manager.handled(self._principal, self._client_id, elapsed_ns))

    def mutation_quota(self, *, is_strict: bool) -> MutationQuota:
        """How much the request may change of the metadata; with `is_strict` the rest is refused."""
        self._changes = self._quotas.manager.changes(self._principal, self._client_id, is_strict=is_strict)
        return self._changes

    def end(self) -> None:
        """Count the time since the request began, once, and its changes."""
        if self._begun_ns is not None:
            elapsed_ns = self._quotas.nanoseconds() - self._begun_ns
            self._begun_ns = None
            self.handled(elapsed_ns)
        if self._changes is not None:
            self.throttle(self._changes.throttle_ms)

    async def timed(self, work: Coroutine[Any, Any, T], before_ns: int = 0) -> T:
        """What a coroutine returns; its steps are counted, with the time that was taken before."""
        steps = TimedSteps(work, self._quotas.nanoseconds)
        result = await steps
        self.handled(before_ns + steps.elapsed_ns)
        return result


class RunCharge:
    """Counts a run of requests that bring something, of one client, whose time begins now."""

    __slots__ = ("_begun_ns", "_client_id", "_principal", "_quotas", "_size_bytes")

    def __init__(self, quotas: "RequestQuotas", principal: Principal, client_id: str | None, size_bytes: int) -> None:
        self._quotas = quotas
        self._principal = principal
        self._client_id = client_id
        self._size_bytes = size_bytes
        self._begun_ns = quotas.nanoseconds()

    def settle(self, connections: Iterable[Muted]) -> int:
        """Count the run, which is handled, and mute its connections for the throttle time, which is returned."""
        manager, client = self._quotas.manager, (self._principal, self._client_id)
        throttle_ms = max(
            manager.produced(*client, self._size_bytes),
            manager.handled(*client, self._quotas.nanoseconds() - self._begun_ns),
        )
        if throttle_ms:
            for each in set(connections):
                each.mute(throttle_ms)
        return throttle_ms


class RequestQuotas:
    """What gateways ask. Belongs to the event loop."""

    __slots__ = ("manager", "nanoseconds")

    def __init__(self, manager: ClientQuotaManager, nanoseconds: Callable[[], int]) -> None:
        self.manager = manager
        self.nanoseconds = nanoseconds

    def binds(self, principal: Principal, client_id: str | None) -> bool:
        """Whether requests of this client are counted. Those of other brokers are not."""
        return principal.type != BROKER and self.manager.binds(principal, client_id)

    def begin(
        self, principal: Principal, client_id: str | None, connection: Muted, *, is_timed: bool = True
    ) -> RequestCharge:
        """Count a request, whose time begins now, unless somebody else measures it."""
        return RequestCharge(self, principal, client_id, connection, self.nanoseconds() if is_timed else None)

    def begin_run(self, principal: Principal, client_id: str | None, size_bytes: int) -> RunCharge | None:
        """Count a run of requests of a client, `size_bytes` long; None if no quota applies to the client."""
        return RunCharge(self, principal, client_id, size_bytes) if self.binds(principal, client_id) else None

    def fetch_bytes_max(self, principal: Principal, client_id: str | None, wanted: int) -> int:
        """How much a client gets at most of what it wants."""
        allowed = self.manager.fetch_bytes_max(principal, client_id)
        return wanted if allowed is None else min(wanted, allowed)

    def fetched(self, principal: Principal, client_id: str | None, connection: Muted, size_bytes: int) -> FetchVerdict:
        """Count what a client is given; who is over the quota is muted."""
        verdict = self.manager.fetched(principal, client_id, size_bytes)
        if verdict.throttle_ms:
            connection.mute(verdict.throttle_ms)
        return verdict
