"""Fetching and acknowledging as a member of a share group (KIP-932): sessions, and records when there are some.

A session is a member's: it remembers which partitions are fetched, so that requests say only what changes. It ends with
the member's last request or the connection that began it, and what the member holds is released. Requests of the member
on other connections are part of it, and a member that begins another one keeps what it holds, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct, field

from ottla.broker.access import Authorizer, Operation, ResourceType, require
from ottla.broker.share_partitions import Place, SharePartitions
from ottla.groups.group_config import GROUP_ID_BYTES_MAX
from ottla.groups.share.share_config import MEMBER_ID_LENGTH_MAX
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.queues.record_delivery import Acquired

if TYPE_CHECKING:
    from ottla.model.principal import Principal
    from ottla.replication.partition import Partition
    from ottla.runtime.clock import Clock
    from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
PARTITIONS_PER_SESSION_MAX: Final = 10_000


class PartitionAcknowledgements(NamedTuple):
    """What a member settles in a partition: first and last offset and kind of each run."""

    place: Place
    runs: list[tuple[int, int, int]]


class ShareSession(Struct, eq=False):
    """The partitions that a member fetches, and the epoch of its next request."""

    group_id: str
    member_id: str
    connection: object
    epoch: int = 1
    places: dict[Place, None] = field(default_factory=dict)
    touched: dict[Place, None] = field(default_factory=dict)
    """Where the member may hold records."""
    known_current: set[Place] = field(default_factory=set)
    """Where the state that is loaded was seen to be the one that is stored, since the session began."""
    wakes: set[asyncio.Event] = field(default_factory=set)
    """By which its waiting fetches are woken."""


class FetchedPartition(NamedTuple):
    """What a fetch gave for a partition."""

    place: Place
    error: ErrorCode
    acquired: Acquired | None
    lock_ms: int = 0


class ShareFetchService:
    """Belongs to the event loop."""

    def __init__(
        self,
        partitions: SharePartitions,
        sessions_max: int,
        *,
        clock: Clock,
        timer: Timer,
        authorizer: Authorizer,
    ) -> None:
        self.partitions = partitions
        self._sessions_max = sessions_max
        self._clock = clock
        self._timer = timer
        self._authorizer = authorizer
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    # --- sessions -----------------------------------------------------------------------------------------------

    def session(
        self, group_id: str, member_id: str, epoch: int, connection: object, *, has_acknowledgements: bool
    ) -> ShareSession:
        """The session of a request. Raises ApiError.

        SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED, INVALID_REQUEST.
        """
        key = (group_id, member_id)
        session = self._sessions.get(key)
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise ApiError(ErrorCode.INVALID_REQUEST, "the first request of a share session acknowledges nothing")
            if session is None and len(self._sessions) >= self._sessions_max:
                raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, "there are too many share sessions")
            begun = self._sessions[key] = ShareSession(group_id, member_id, connection)
            if session is None:
                self.partitions.enter(group_id)
            else:  # the member still holds what it held, and may settle it
                begun.touched = session.touched
                _wake(session)
            return begun
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND, "the share session does not exist")
        if epoch != FINAL_EPOCH and epoch != session.epoch:
            raise ApiError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH, f"the share session is at epoch {session.epoch}, not {epoch}"
            )
        session.epoch = 1 if session.epoch == (1 << 31) - 1 else session.epoch + 1
        _wake(session)
        return session

    def change(self, session: ShareSession, added: Iterable[Place], removed: Iterable[Place]) -> None:
        """Fetch other partitions from now on. Raises ApiError for too many."""
        places = {**session.places, **dict.fromkeys(added)}
        for place in removed:
            places.pop(place, None)
            session.known_current.discard(place)
        if len(places) > PARTITIONS_PER_SESSION_MAX:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"a share session has at most {PARTITIONS_PER_SESSION_MAX} partitions"
            )
        session.places = places

    def end(self, session: ShareSession) -> None:
        """The member goes: what it holds is released."""
        self._end(session)

    def end_of(self, connection: object) -> None:
        """A connection is gone, and with it its sessions."""
        for session in [each for each in self._sessions.values() if each.connection is connection]:
            self._end(session)

    def _end(self, session: ShareSession) -> None:
        if not self._is_open(session):
            return  # its connection closed before
        del self._sessions[session.group_id, session.member_id]
        _wake(session)
        for place in session.touched:
            share = self.partitions.loaded(session.group_id, place)
            if share is not None:
                share.release_member(session.member_id)
        self.partitions.leave(session.group_id)

    def _is_open(self, session: ShareSession) -> bool:
        return self._sessions.get((session.group_id, session.member_id)) is session

    # --- describing ---------------------------------------------------------------------------------------------

    def require_describe(self, principal: Principal, group_id: str) -> None:
        """Raises ApiError GROUP_AUTHORIZATION_FAILED."""
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.GROUP, group_id)

    # --- acknowledging ------------------------------------------------------------------------------------------

    def require_member(self, principal: Principal, group_id: str | None, member_id: str | None) -> tuple[str, str]:
        """The group and the member of a request. Raises ApiError INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED."""
        if group_id is None or len(group_id.encode()) > GROUP_ID_BYTES_MAX:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the group id is missing or above {GROUP_ID_BYTES_MAX} bytes")
        if not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
            message = f"the member id is missing or above {MEMBER_ID_LENGTH_MAX} characters"
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        require(self._authorizer, principal, Operation.READ, ResourceType.GROUP, group_id)
        return group_id, member_id

    async def acknowledge(
        self, principal: Principal, session: ShareSession, given: Sequence[PartitionAcknowledgements]
    ) -> dict[Place, ErrorCode]:
        """Settle records; what became of each partition, once it is stored."""
        results = await asyncio.gather(*(self._acknowledge(principal, session, each) for each in given))
        return dict(zip((each.place for each in given), results, strict=True))

    async def _acknowledge(
        self, principal: Principal, session: ShareSession, given: PartitionAcknowledgements
    ) -> ErrorCode:
        try:
            share = await self.partitions.get(principal, session.group_id, given.place)
            limits = self.partitions.limits(session.group_id)
            return await share.settle(session.member_id, given.runs, limits, None)
        except ApiError as error:
            return error.code

    # --- fetching -----------------------------------------------------------------------------------------------

    def lock_ms(self, group_id: str) -> int:
        """How long members of a group hold what they are given."""
        return self.partitions.limits(group_id).lock_ms

    def may_renew(self, group_id: str) -> bool:
        """Whether members of a group may ask for more time."""
        return bool(self.partitions.settings_of(group_id).boolean("share.renew.acknowledge.enable"))

    async def fetch(
        self,
        principal: Principal,
        session: ShareSession,
        *,
        max_wait_ms: int,
        max_bytes: int,
        max_records: int,
        exact: bool,
        batch_size: int,
    ) -> list[FetchedPartition]:
        """Deliver records, when there are some or the time is up; partitions without any and without an error are left
        out.
        """
        deadline_ms = self._clock.monotonic_ms() + max_wait_ms
        epoch = session.epoch
        changed = asyncio.Event()
        session.wakes.add(changed)
        places = tuple(session.places)
        self.partitions.look_again(session.group_id, places)
        for place in places:
            self.partitions.add_waiter(place, changed)
        unsubscribe: list[tuple[Partition, Callable[[Partition], None]]] = []
        wake = _waking(changed)
        try:
            while self._is_open(session):
                changed.clear()
                found = await self._fetch_once(
                    principal, session, places, max_bytes, max_records, exact, batch_size, unsubscribe, wake
                )
                left_ms = deadline_ms - self._clock.monotonic_ms()
                # The member's next request ends the wait.
                if found or left_ms <= 0 or not places or session.epoch != epoch:
                    self._rotate(session)
                    return found
                timer = self._timer.schedule(left_ms, changed.set)
                try:
                    await changed.wait()
                finally:
                    timer.cancel()
            return []  # nobody is there to deliver to
        finally:
            session.wakes.discard(changed)
            for partition, on_change in unsubscribe:
                partition.unsubscribe(on_change)
            for place in places:
                self.partitions.remove_waiter(place, changed)

    async def _fetch_once(
        self,
        principal: Principal,
        session: ShareSession,
        places: tuple[Place, ...],
        max_bytes: int,
        max_records: int,
        exact: bool,
        batch_size: int,
        subscribed: list[tuple[Partition, Callable[[Partition], None]]],
        wake: Callable[[Partition], None],
    ) -> list[FetchedPartition]:
        limits = self.partitions.limits(session.group_id)
        found: list[FetchedPartition] = []
        known = {partition for partition, _ in subscribed}
        bytes_left, records_left = max_bytes, max_records
        failed = await self._load_all(principal, session, places)
        for place in places:
            try:
                if place in failed:
                    raise failed[place]
                share = await self.partitions.get(principal, session.group_id, place)
                if share.partition not in known:
                    share.partition.subscribe(wake)
                    subscribed.append((share.partition, wake))
                if bytes_left <= 0 or records_left <= 0 or not share.has_news(limits):
                    continue
                acquired = await share.acquire(
                    session.member_id,
                    limits,
                    max_bytes=bytes_left,
                    max_records=records_left,
                    exact=exact,
                    batch_size=batch_size,
                    throttles=True,
                )
                if not self._is_open(session):
                    share.release_member(session.member_id)
                    return []
            except ApiError as error:
                found.append(FetchedPartition(place, error.code, None))
                continue
            if acquired.runs:
                session.touched[place] = None
                found.append(FetchedPartition(place, ErrorCode.NONE, acquired, limits.lock_ms))
                bytes_left -= len(acquired.records)
                records_left -= sum(last - first + 1 for first, last, _ in acquired.runs)
        return found

    @staticmethod
    def _rotate(session: ShareSession) -> None:
        """The next fetch begins with another partition."""
        if len(session.places) > 1:
            first = next(iter(session.places))
            del session.places[first]
            session.places[first] = None

    async def _load_all(
        self, principal: Principal, session: ShareSession, places: Sequence[Place]
    ) -> dict[Place, ApiError]:
        """Load the partitions that are not loaded yet, all at once: one whose state is not reached must not hold back
        others. Gives those that cannot be loaded.
        """
        new = [place for place in places if place not in session.known_current]
        loads = (self.partitions.get_current(principal, session.group_id, place) for place in new)
        failed: dict[Place, ApiError] = {}
        for place, result in zip(new, await asyncio.gather(*loads, return_exceptions=True), strict=True):
            if isinstance(result, ApiError):
                failed[place] = result
            elif isinstance(result, BaseException):
                raise result
            else:
                session.known_current.add(place)
        return failed


def _wake(session: ShareSession) -> None:
    for event in session.wakes:
        event.set()


def _waking(changed: asyncio.Event) -> Callable[[Partition], None]:
    def wake(partition: Partition) -> None:
        del partition
        changed.set()

    return wake
