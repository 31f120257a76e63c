"""Client quotas: how much a client may move, how long it may keep the broker busy, how fast it may change metadata.

Who is over a quota is served all the same, told for how long to be quiet, and not read from until then (KIP-124, 219);
only changes of the metadata are refused (KIP-599). Here it is decided for how long; the gateway keeps it.

    record what was done --> rate over the last windows --> above the bound of the client? --> by so many milliseconds
"""

from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

from ottla.broker.quota_limits import FOUND_MAX, ClientQuotas, Limit, QuotaLimits, Sharer
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.runtime.clock import Clock
from ottla.runtime.sampled_rate import SampledRate, Windows
from ottla.runtime.token_bucket import TokenBucket

NANOSECONDS_PER_PERCENT = 10_000_000
"""A hundredth of a second: `request_percentage` counts the time of the one thread that handles requests."""

NAME_CHARACTERS_MAX = 255
"""So much of a client's name tells it from others: names are kept, and clients choose them."""

M = TypeVar("M", SampledRate, TokenBucket)


class QuotaKey(StrEnum):
    """What is bounded; the names are those of AlterClientQuotas."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


class _Measures(Generic[M]):
    """What those who share a bound have done, for one key; of too many, whoever was quiet longest is forgotten."""

    __slots__ = ("_by_sharer", "_count_max", "_make", "limits")

    def __init__(self, limits: QuotaLimits, make: Callable[[], M], count_max: int) -> None:
        self.limits = limits
        self._make: Callable[[], M] = make
        self._count_max = count_max
        self._by_sharer: OrderedDict[Sharer, M] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_sharer)

    def of(self, sharer: Sharer) -> M:
        """What they have done; nothing when they are new."""
        measure = self._by_sharer.get(sharer)
        if measure is None:
            if len(self._by_sharer) >= self._count_max:
                self._by_sharer.popitem(last=False)
            measure = self._by_sharer[sharer] = self._make()
        else:
            self._by_sharer.move_to_end(sharer)
        return measure

    def find(self, principal: Principal, client_id: str | None) -> tuple[Limit, M] | None:
        """The limit of a client and what was done under it; None where there is no limit."""
        limit = self.limits.find(principal.name, _name(client_id))
        return None if limit is None else (limit, self.of(limit.sharer))


class ClientQuotaManager:
    """The quotas of a broker's clients. Belongs to the event loop; answers from memory."""

    __slots__ = ("_bound", "_changes", "_clock", "_consumed", "_produced", "_time", "_windows", "has_limits")

    def __init__(self, clock: Clock, windows: Windows, change_windows: Windows, clients_max: int) -> None:
        """`change_windows` are those of changes of the metadata (`controller.quota.window.*`)."""

        def rate() -> SampledRate:
            return SampledRate(windows)

        none = QuotaLimits({}, "")
        self._clock = clock
        self._windows = windows
        self._produced = _Measures(none, rate, clients_max)
        self._consumed = _Measures(none, rate, clients_max)
        self._time = _Measures(none, rate, clients_max)
        self._changes = _Measures(none, lambda: TokenBucket(change_windows), clients_max)
        self._bound: dict[tuple[str, str], bool] = {}
        self.has_limits = False
        """Whether anybody is bound to anything; while nobody is, nothing needs to be asked."""

    def configure(self, quotas: ClientQuotas) -> None:
        """Have these quotas hold. What was done so far counts on."""
        self._produced.limits = QuotaLimits(quotas, QuotaKey.PRODUCER_BYTE_RATE)
        self._consumed.limits = QuotaLimits(quotas, QuotaKey.CONSUMER_BYTE_RATE)
        self._time.limits = QuotaLimits(quotas, QuotaKey.REQUEST_PERCENTAGE)
        self._changes.limits = QuotaLimits(quotas, QuotaKey.CONTROLLER_MUTATION_RATE)
        self._bound.clear()
        every = (self._produced, self._consumed, self._time, self._changes)
        self.has_limits = any(each.limits for each in every)

    def binds(self, principal: Principal, client_id: str | None) -> bool:
        """Whether a quota applies to this client. If none does, none of its requests needs to be counted."""
        client = principal.name, _name(client_id)
        found = self._bound.get(client)
        if found is None:
            if len(self._bound) >= FOUND_MAX:
                self._bound.clear()
            every = (self._produced, self._consumed, self._time, self._changes)
            found = self._bound[client] = any(each.limits.find(*client) is not None for each in every)
        return found

    def produced(self, principal: Principal, client_id: str | None, size_bytes: int) -> int:
        """Count a produce request of that size; for how many milliseconds the client is to be quiet."""
        found = self._produced.find(principal, client_id)
        if found is None:
            return 0
        limit, rate = found
        now_ms = self._clock.monotonic_ms()
        rate.record(size_bytes, now_ms)
        return rate.excess_ms(limit.bound, now_ms)

    def fetch_bytes_max(self, principal: Principal, client_id: str | None) -> int | None:
        """What one fetch gives at most: what may be read in all windows but one; None for no bound."""
        limit = self._consumed.limits.find(principal.name, _name(client_id))
        if limit is None:
            return None
        return int(limit.bound * max(self._windows.count - 1, 1) * self._windows.size_ms / 1_000)

    def fetched(self, principal: Principal, client_id: str | None, size_bytes: int) -> "FetchVerdict":
        """Count the answer to a fetch; for how long the client is to be quiet, and whether it gets what it asked for.

        Who is over the quota gets nothing this time, and nothing is counted. But a single batch may be larger than what
        all windows allow: who has read nothing lately gets it, and is quiet for so much longer.
        """
        found = self._consumed.find(principal, client_id)
        if found is None:
            return _SERVED
        limit, rate = found
        now_ms = self._clock.monotonic_ms()
        was_idle = rate.is_idle(now_ms)
        rate.record(size_bytes, now_ms)
        throttle_ms = rate.excess_ms(limit.bound, now_ms)
        if throttle_ms and not was_idle:
            rate.record(-size_bytes, now_ms)
            return FetchVerdict(throttle_ms, is_served=False)
        return FetchVerdict(throttle_ms, is_served=True)

    def pushed(self, principal: Principal, client_id: str | None, size_bytes: int) -> int:
        """Count what a client was sent without asking for each; for how many milliseconds it is to get nothing more."""
        found = self._consumed.find(principal, client_id)
        if found is None:
            return 0
        limit, rate = found
        now_ms = self._clock.monotonic_ms()
        rate.record(size_bytes, now_ms)
        return rate.excess_ms(limit.bound, now_ms)

    def handled(self, principal: Principal, client_id: str | None, elapsed_ns: int) -> int:
        """Count the time that a request took; for how long the client is to be quiet, one window at most."""
        found = self._time.find(principal, client_id)
        if found is None:
            return 0
        limit, rate = found
        now_ms = self._clock.monotonic_ms()
        rate.record(elapsed_ns / NANOSECONDS_PER_PERCENT, now_ms)
        return min(rate.excess_ms(limit.bound, now_ms), self._windows.size_ms)

    def changes(self, principal: Principal, client_id: str | None, *, is_strict: bool) -> "MutationQuota":
        """What a request may change of the metadata; a strict one is refused what is too much."""
        found = self._changes.find(principal, client_id)
        if found is None:
            return MutationQuota()
        limit, bucket = found
        return _BoundedMutations(bucket, limit.bound, self._clock, is_strict=is_strict)


def _name(client_id: str | None) -> str:
    return (client_id or "")[:NAME_CHARACTERS_MAX]


class FetchVerdict:
    """What becomes of a fetch that was counted."""

    __slots__ = ("is_served", "throttle_ms")

    def __init__(self, throttle_ms: int, *, is_served: bool) -> None:
        self.throttle_ms = throttle_ms
        self.is_served = is_served
        """Whether the client gets what was read; if not it gets nothing, and asks again."""


_SERVED = FetchVerdict(0, is_served=True)


class MutationQuota:
    """How many partitions one request may create and delete: as many as it likes."""

    __slots__ = ()

    @property
    def throttle_ms(self) -> int:
        """For how long whoever asked is to be quiet."""
        return 0

    def take(self, partitions: int) -> None:
        """Count partitions that are about to be created or deleted. Raises ApiError THROTTLING_QUOTA_EXCEEDED."""

    def give_back(self, partitions: int) -> None:
        """They were not, for another reason."""


NO_MUTATION_QUOTA = MutationQuota()


class _BoundedMutations(MutationQuota):
    """The same for a client that has a quota."""

    __slots__ = ("_bucket", "_clock", "_is_strict", "_rate", "_throttle_ms")

    def __init__(self, bucket: TokenBucket, rate: float, clock: Clock, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._rate = rate
        self._clock = clock
        self._is_strict = is_strict
        self._throttle_ms = 0

    @property
    def throttle_ms(self) -> int:
        return self._throttle_ms

    def take(self, partitions: int) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._is_strict:
            debt_ms = self._bucket.debt_ms(self._rate, now_ms)
            if debt_ms:
                self._throttle_ms = debt_ms
                raise ApiError(
                    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                    f"The throttling quota has been exceeded: {self._rate:g} partitions a second are used up for "
                    f"{debt_ms} ms",
                )
        self._bucket.take(partitions, self._rate, now_ms)
        if not self._is_strict:
            self._throttle_ms = max(self._throttle_ms, self._bucket.debt_ms(self._rate, now_ms))

    def give_back(self, partitions: int) -> None:
        now_ms = self._clock.monotonic_ms()
        self._bucket.take(-partitions, self._rate, now_ms)
        if not self._is_strict:
            self._throttle_ms = self._bucket.debt_ms(self._rate, now_ms)
