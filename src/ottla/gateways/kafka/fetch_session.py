"""Fetch sessions: the broker remembers what a consumer reads, and both speak only of what changed (KIP-227).

request: id 0, epoch 0        -> full fetch; a session is made, its id is in the response
request: id N, epoch 1, 2, .. -> the partitions that changed, those to forget; answered with those that have news
request: id N, epoch -1       -> full fetch without a session; N is closed
request: id 0, epoch -1       -> full fetch without a session

A session is its principal's: what it reads was allowed to that one, so to others it is not there.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from msgspec import Struct

from ottla.broker.fetch import FetchTarget, PartitionRead
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.protocol.messages.fetch import FetchPartition
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
PARTITIONS_MAX: Final = 250_000
"""Partitions that all sessions remember together, about 600 bytes each; a thousand consumers of 250 each."""

SESSION_PARTITIONS_MAX: Final = 16_384
"""Partitions of one session. Each request of a few bytes looks at all of them; who reads more names them each time.
Followers are brokers that proved it: what they follow is the cluster's to say, however much it is."""

NAME_CHARACTERS_MAX: Final = 512
"""A client may name topics that are not there, and not even could be; so much of a name is in the price of one."""

_EPOCH_MAX: Final = 2**31 - 1

PartitionKey = tuple[str, UUID, int]
"""Topic name (empty from version 13 on), topic id (zero before it), partition."""


class SessionPartition(Struct):
    """One partition of a session: what the consumer asked for last, and what it was told last."""

    request: FetchPartition
    target: FetchTarget | None = None
    """Where `request` reads, once that was looked up."""
    told_version: int = -1
    """The version of the partition that a response told of last; -1 before it, and after what is told each time."""
    told_offsets: tuple[int, int, int] | None = None
    """The high watermark, last stable offset and log start that it told."""
    told_error: ErrorCode = ErrorCode.NONE
    """The error that a response told of it last, if it was one."""

    def has_news(self, read: PartitionRead) -> bool:
        """Whether an incremental response must speak of this partition; remembers what it will say.

        There is none in a read without records at `told_version`.
        """
        if read.error is not self.told_error:
            self.told_error = read.error
            if self.target is not None:
                self.target.known_error = read.error
        self.told_version = read.version if read.diverging_epoch is None else -1
        if read.error is not ErrorCode.NONE:
            self.told_offsets = None
            return True
        before, self.told_offsets = (
            self.told_offsets,
            (read.high_watermark, read.last_stable_offset, read.log_start_offset),
        )
        return (
            read.total_bytes > 0
            or read.diverging_epoch is not None
            or read.preferred_read_replica >= 0
            or self.told_offsets != before
        )


class FetchSession:
    """The partitions one consumer reads, in the order in which they are served.

    A partition that gave records goes to the end, so that a small `max_bytes` does not starve the others.
    """

    __slots__ = ("cost", "epoch", "is_replica", "last_used_ms", "owner", "partitions", "session_id", "uses_topic_ids")

    def __init__(
        self, session_id: int, owner: Principal, *, uses_topic_ids: bool, now_ms: int, is_replica: bool = False
    ) -> None:
        self.is_replica = is_replica
        self.owner = owner
        self.cost = 0
        """What it counts for in `FetchSessionCache`: one for each partition, more for those with long names."""
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.last_used_ms = now_ms
        self.partitions: dict[PartitionKey, SessionPartition] = {}

    def advance(self, epoch: int, now_ms: int) -> None:
        """Accept the next incremental request; raises ApiError INVALID_FETCH_SESSION_EPOCH."""
        if epoch != self.epoch:
            raise ApiError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {self.session_id} is at epoch {self.epoch}, the request at {epoch}",
            )
        self.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        self.last_used_ms = now_ms

    def update(self, changed: Iterator[tuple[PartitionKey, FetchPartition]], forgotten: Iterator[PartitionKey]) -> None:
        """Take over what an incremental request adds, changes and drops."""
        for key, request in changed:
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = SessionPartition(request)
                self.cost += _cost(key)
            else:
                known.request, known.target, known.told_error = request, None, ErrorCode.NONE
        for key in forgotten:
            if self.partitions.pop(key, None) is not None:
                self.cost -= _cost(key)

    def served(self, key: PartitionKey) -> None:
        """The partition gave records: its turn comes last next time."""
        self.partitions[key] = self.partitions.pop(key)


def _cost(key: PartitionKey) -> int:
    return 1 + len(key[0]) // NAME_CHARACTERS_MAX


class FetchSessionCache:
    """All sessions of a broker: at most `slots_max` (`max.incremental.fetch.session.cache.slots`), with `cost_max`
    partitions together.

    When it is full a session idle for `eviction_ms` makes room; with none idle that long, newcomers fetch without one.
    Sessions of followers take no room from the others and always get it, as many as there are; those that are idle for
    so long go when the next one comes.
    """

    __slots__ = ("_clock", "_cost_max", "_eviction_ms", "_replicas", "_rng", "_sessions", "_slots_max", "cost")

    def __init__(
        self, clock: Clock, rng: Rng, *, slots_max: int, eviction_ms: int, cost_max: int = PARTITIONS_MAX
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._slots_max = slots_max
        self._eviction_ms = eviction_ms
        self._cost_max = cost_max
        self.cost = 0
        """What all sessions hold together: their partitions, those with very long names counted several times."""
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._replicas: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions) + len(self._replicas)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions or session_id in self._replicas

    def create(
        self,
        partitions: Iterator[tuple[PartitionKey, FetchPartition]],
        owner: Principal,
        *,
        uses_topic_ids: bool,
        is_replica: bool = False,
    ) -> FetchSession | None:
        """A new session for these partitions, or None when there is no room. `is_replica` is for a follower alone."""
        now_ms = self._clock.monotonic_ms()
        if not is_replica and len(self._sessions) >= self._slots_max and not self._evict(now_ms):
            return None
        session_id = 0
        while session_id == 0 or session_id in self:
            session_id = 1 + self._rng.randbelow(2**31 - 1)
        session = FetchSession(session_id, owner, uses_topic_ids=uses_topic_ids, now_ms=now_ms, is_replica=is_replica)
        session.update(partitions, iter(()))
        if is_replica:
            for idle in [each for each in self._replicas.values() if now_ms - each.last_used_ms >= self._eviction_ms]:
                self.close(idle.session_id)
            self._replicas[session_id] = session
            return session
        if session.cost > SESSION_PARTITIONS_MAX:
            return None
        while self.cost + session.cost > self._cost_max:
            if not self._evict(now_ms):
                return None
        self._sessions[session_id] = session
        self.cost += session.cost
        return session

    def advance(self, session_id: int, epoch: int, owner: Principal, *, uses_topic_ids: bool) -> FetchSession:
        """The session of an incremental request.

        Raises ApiError FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id) or self._replicas.get(session_id)
        if session is None or session.owner != owner:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {session_id}")
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                f"fetch session {session_id} was made with topic {'ids' if session.uses_topic_ids else 'names'}",
            )
        session.advance(epoch, self._clock.monotonic_ms())
        if not session.is_replica:
            self._sessions.move_to_end(session_id)
        return session

    def update(
        self,
        session: FetchSession,
        changed: Iterator[tuple[PartitionKey, FetchPartition]],
        forgotten: Iterator[PartitionKey],
    ) -> None:
        """Take over what an incremental request adds, changes and drops.

        Raises ApiError FETCH_SESSION_ID_NOT_FOUND when that is more than there is room for: the session is closed, and
        its client begins anew, without one if need be.
        """
        before = session.cost
        session.update(changed, forgotten)
        if session.is_replica:
            return
        self.cost += session.cost - before
        is_too_much = self.cost > self._cost_max or session.cost > SESSION_PARTITIONS_MAX
        if is_too_much and session.cost > before:
            self.close(session.session_id)
            raise ApiError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "fetch sessions hold more partitions than there is room for"
            )

    def end(self, session_id: int, owner: Principal) -> None:
        """Its client wants it no more; one that is unknown or of somebody else is passed over."""
        session = self._sessions.get(session_id) or self._replicas.get(session_id)
        if session is not None and session.owner == owner:
            self.close(session_id)

    def close(self, session_id: int) -> None:
        """Forget a session; an unknown one is passed over."""
        self._replicas.pop(session_id, None)
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.cost -= session.cost

    def _evict(self, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms < self._eviction_ms:
            return False
        self.close(oldest.session_id)
        return True
