"""Reads topics as a member of a share group: each record goes to one member, which acknowledges it (KIP-932)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self, TypeVar
from uuid import UUID

from ottla.client.arguments import (
    INT64_MAX,
    function,
    instance_of,
    member_of,
    partition_of,
    topic_name,
    topic_names,
    whole_number,
)
from ottla.client.consuming.share_deliveries import Acknowledgements, ShareDeliveries
from ottla.client.consuming.share_membership import ShareMembership
from ottla.client.consuming.share_options import (
    AcknowledgementMode,
    AcknowledgeType,
    AcquireMode,
    ShareConsumerOptions,
)
from ottla.client.consuming.share_record import ShareRecord, acquired_records
from ottla.client.consuming.share_session import Place, ShareSession
from ottla.client.errors import (
    BrokerError,
    ClientError,
    InvalidOptionError,
    ProtocolViolationError,
    UnsupportedApiError,
    broker_error,
)
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.io.connection_pool import Lane
from ottla.client.io.retry import Deadline
from ottla.client.io.troubles import Troubles
from ottla.client.options import ClientOptions, require_client_options
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ottla.protocol.messages.share_fetch import PartitionData, ShareFetchRequest, ShareFetchResponse
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

Response = TypeVar("Response", ShareFetchResponse, ShareAcknowledgeResponse)

ACQUIRED_MAX: Final = 1_000_000
"""Records of one partition in one response; a broker that says more is broken."""

logger = logging.getLogger(__name__)

OnAcknowledged = Callable[[TopicPartition, list[int], ClientError | None], None]
"""Called with a partition, the offsets whose acknowledgement was answered, and what went wrong, if anything did."""

_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_SESSION_LOST = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


class ShareConsumer:
    """A member of a share group on the running event loop, for one task at a time.

    >>> async with ShareConsumer(ClientOptions.of("localhost:9092"), "workers") as consumer:  # doctest: +SKIP
    ...     consumer.subscribe(["jobs"])
    ...     while True:
    ...         for record in await consumer.poll():
    ...             work(record.value)

    Each record is locked for this member until it is acknowledged, at most for the lock duration of the group (30
    seconds by default); then another member gets it. By default the next `poll` or `commit` accepts what the last
    `poll` returned. With `acknowledgement_mode="explicit"` each record is acknowledged with `acknowledge`.
    Acknowledgements are sent with the next `poll` or `commit`. Closing releases what is not acknowledged.
    """

    def __init__(
        self,
        options: ClientOptions,
        share_options: ShareConsumerOptions | str,
        *,
        on_acknowledged: OnAcknowledged | None = None,
        io: AsyncioIo | None = None,
    ) -> None:
        if isinstance(share_options, str):
            share_options = ShareConsumerOptions(share_options)
        hint = ": give the name of the group, or ShareConsumerOptions(group_id=...)"
        self._options = instance_of("share_options", share_options, ShareConsumerOptions, hint)
        if on_acknowledged is not None:
            function("on_acknowledged", on_acknowledged)
        self._on_acknowledged = on_acknowledged
        self._io = io or AsyncioIo()
        self._cluster = Cluster(require_client_options(options), self._io)
        self._deliveries = ShareDeliveries()
        self._tasks = Tasks("share consumer", on_failure=self._on_crash)
        self._membership: ShareMembership | None = None
        self._topics: tuple[str, ...] = ()
        self._sessions: dict[int, ShareSession] = {}
        self._locks: dict[int, asyncio.Lock] = {}
        self._busy: set[int] = set()
        """Brokers that a fetch, or a pause before the next one, is going on for."""
        self._waiting: set[int] = set()
        """Brokers whose acknowledgements wait for a request before them."""
        self._names: dict[UUID, str] = {}
        self._empty: dict[int, frozenset[Place]] = {}
        """For each broker the partitions of which its newest response had no record."""
        self._looks_up = False
        self._is_closed = False
        self._arrived = asyncio.Event()
        self._error: ClientError | None = None
        self._fatal: ClientError | None = None
        self._polled_ms: int | None = None
        self._lock_timeout_ms: int | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Reach the cluster. Raises BrokerUnreachableError at once when none of the addresses answers."""
        await self._cluster.connect()
        timer = Timer(self._io.clock, asyncio.get_running_loop().call_later)
        self._membership = ShareMembership(self._cluster, self._options, timer)
        self._tasks.spawn(self._membership.keep_alive(self._idle_ms, self._arrived.set), "heartbeats")

    # --- what to read -----------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics, from the next poll on; replaces an earlier subscription."""
        names = tuple(sorted(set(topic_names(topics))))
        self._member.subscribe(names)
        self._topics = names

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this member reads now; other members may read the same ones."""
        names = self._cluster.metadata.topic_names
        return sorted(TopicPartition(names[each], number) for each, number in self._member.assigned if each in names)

    @property
    def has_nothing(self) -> bool:
        """Whether the newest response for every assigned partition had no record for this member."""
        assigned = self._member.assigned
        return bool(assigned) and assigned <= frozenset().union(*self._empty.values()) and not self._deliveries.buffered

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic. Raises TopicNotFoundError."""
        found = await self._cluster.topic(topic_name(topic), self._cluster.deadline())
        return [TopicPartition(topic, each.partition) for each in found.partitions]

    @property
    def group_id(self) -> str:
        """The share group that this consumer is a member of."""
        return self._options.group_id

    @property
    def lock_timeout_ms(self) -> int | None:
        """How long the group locks an acquired record for a member; None before the first response."""
        return self._lock_timeout_ms

    @property
    def io(self) -> AsyncioIo:
        """Its clock and its pauses."""
        return self._io

    @property
    def troubles(self) -> Troubles:
        """The problems that this client is waiting for, such as an unreachable broker."""
        return self._cluster.troubles

    # --- reading ----------------------------------------------------------------------------------------------------

    async def poll(self, max_records: int | None = None, timeout_ms: int = 1_000) -> list[ShareRecord]:
        """Records that are locked for this member now; empty when none arrives within the timeout.

        At most `max_records`, by default `max_poll_records`. Records whose renewal was confirmed are returned again,
        before others. Raises InvalidOptionError in explicit mode while a returned record is not acknowledged (they are
        `unacknowledged`), permanent errors of brokers, and ClientError for batches that cannot be decoded, which are
        rejected.
        """
        count = self._options.max_poll_records if max_records is None else whole_number("max_records", max_records, 1)
        deadline = Deadline(self._io.clock, whole_number("timeout_ms", timeout_ms))
        member = self._member
        if not self._topics:
            raise InvalidOptionError("nothing to poll: subscribe to topics first")
        self._settle_last_poll()
        with self._polling():
            member.be_in()
            if self._deliveries.renews:
                await self._acknowledge_all({})
            if renewed := self._deliveries.give_renewed():
                return renewed
            while True:
                self._raise_error()
                self._deliveries.release_all_but(member.assigned)
                if records := self._deliveries.give(count):
                    self._acknowledge_soon()
                    return records
                self._arrived.clear()
                self._fetch_from_idle_brokers()
                self._acknowledge_soon()
                if deadline.passed:
                    return []
                await self._until_arrival(deadline.left_ms)

    async def __aiter__(self) -> AsyncGenerator[ShareRecord, None]:
        """Records one by one, for ever. In implicit mode a record is accepted when the next one is asked for."""
        while True:
            for record in await self.poll(1):
                yield record

    def _settle_last_poll(self) -> None:
        if self._options.acknowledgement_mode is AcknowledgementMode.IMPLICIT:
            self._deliveries.accept_all()
        elif left := self._deliveries.unacknowledged:
            count = f"{len(left)} records of the last poll are" if len(left) > 1 else "a record of the last poll is"
            raise InvalidOptionError(
                f"{count} not acknowledged, offset {left[0].offset} of {left[0].topic_partition} first: in explicit"
                " mode acknowledge each before the next poll. `unacknowledged()` has them: acknowledge what is done,"
                " and with AcknowledgeType.RELEASE give back what is not"
            )

    @contextmanager
    def _polling(self) -> Iterator[None]:
        self._polled_ms = None
        try:
            yield
        finally:
            self._polled_ms = self._io.clock.monotonic_ms()

    def _idle_ms(self) -> int:
        return 0 if self._polled_ms is None else self._io.clock.monotonic_ms() - self._polled_ms

    async def _until_arrival(self, timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._arrived.wait()
        except TimeoutError:
            pass

    # --- acknowledging ----------------------------------------------------------------------------------------------

    def acknowledge(
        self, record: ShareRecord | tuple[str, int, int], kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Say what happens to a record of the last poll, or to the one at (topic, partition, offset).

        The acknowledgement is sent with the next `poll` or `commit`; until then the last call for a record counts.
        Raises InvalidOptionError in implicit mode, and for a record that this consumer does not hold.
        """
        given = member_of(AcknowledgeType, "kind", kind)
        if not isinstance(record, tuple) or len(record) < 3:
            raise InvalidOptionError("record must be a ShareRecord, or its topic, partition and offset")
        where = partition_of(record[:2])
        offset = whole_number("offset", record[2], highest=INT64_MAX)
        if self._options.acknowledgement_mode is AcknowledgementMode.IMPLICIT:
            raise InvalidOptionError(
                "this consumer acknowledges implicitly: set acknowledgement_mode='explicit' to acknowledge records"
            )
        self._deliveries.acknowledge(where, offset, given)

    def unacknowledged(self) -> list[ShareRecord]:
        """The records that `poll` has returned and that are not acknowledged, in this order. In explicit mode the next
        `poll` raises while there are any: after an error of its own a program releases what it did not come to.

        >>> for record in consumer.unacknowledged():  # doctest: +SKIP
        ...     consumer.acknowledge(record, AcknowledgeType.RELEASE)
        """
        return self._deliveries.unacknowledged

    async def commit(self) -> dict[TopicPartition, ClientError | None]:
        """Send all acknowledgements and wait for the answers: for each partition None, or what went wrong.

        In implicit mode it accepts what the last poll returned. Partitions without an acknowledgement are left out.
        INVALID_RECORD_STATE means that a lock had expired: another member may have the record.
        """
        self._require_running()
        if self._options.acknowledgement_mode is AcknowledgementMode.IMPLICIT:
            self._deliveries.accept_all()
        results: dict[TopicPartition, ClientError | None] = {}
        await self._acknowledge_all(results)
        return results

    def commit_async(self) -> None:
        """Send all acknowledgements without waiting; `on_acknowledged` gets the results."""
        self._require_running()
        if self._options.acknowledgement_mode is AcknowledgementMode.IMPLICIT:
            self._deliveries.accept_all()
        self._acknowledge_soon()

    async def close(self) -> None:
        """Send what was acknowledged, release all other records, leave the group and end the connections."""
        was_closed, self._is_closed = self._is_closed, True
        if self._membership is not None and not was_closed:
            for session in list(self._sessions.values()):
                await self._acknowledge(session, {}, ends=True)
            await self._membership.leave()
        await self._tasks.close()
        self._cluster.close()

    async def _acknowledge_all(self, results: dict[TopicPartition, ClientError | None]) -> None:
        sessions = sorted(self._deliveries.sessions(), key=lambda session: session.node_id)
        await self._io.together([self._acknowledge(session, results) for session in sessions])

    def _acknowledge_soon(self) -> None:
        """Send what there is once the request before it is answered, and with it what gathers meanwhile."""
        for session in self._deliveries.sessions():
            if session.node_id not in self._waiting:
                self._waiting.add(session.node_id)
                self._tasks.spawn(self._acknowledge_next(session), f"acknowledge to broker {session.node_id}")

    async def _acknowledge_next(self, session: ShareSession) -> None:
        async with self._lock(session):
            self._waiting.discard(session.node_id)
            await self._acknowledge_in(session, {})

    async def _acknowledge(
        self, session: ShareSession, results: dict[TopicPartition, ClientError | None], *, ends: bool = False
    ) -> None:
        async with self._lock(session):
            await self._acknowledge_in(session, results, ends=ends)

    async def _acknowledge_in(
        self, session: ShareSession, results: dict[TopicPartition, ClientError | None], *, ends: bool = False
    ) -> None:
        given = self._deliveries.take(session)
        if session.ended is not None:
            self._finish(session, given, dict.fromkeys(given, session.ended), results)
            return
        if session.is_new or not (given or ends):
            return
        try:
            response = await self._ask(session, session.acknowledge(given, ends=ends), ShareAcknowledgeResponse)
        except ClientError as error:
            self._end(session, error, given, results)
            return
        errors = {
            (topic.topic_id, each.partition_index): (each.error_code, each.error_message)
            for topic in response.responses
            for each in topic.partitions
        }
        self._lock_timeout_ms = response.acquisition_lock_timeout_ms or self._lock_timeout_ms
        self._finish(session, given, self._outcomes(given, errors), results)

    def _outcomes(
        self, given: Acknowledgements, errors: Mapping[Place, tuple[int, str | None]]
    ) -> dict[Place, ClientError | None]:
        outcomes: dict[Place, ClientError | None] = {}
        for place in given:
            what = f"acknowledging records of {self._named(place)}"
            number, message = errors.get(place, (int(ErrorCode.UNKNOWN_SERVER_ERROR), "the broker did not answer it"))
            outcomes[place] = broker_error(number, what, message) if number else None
        return outcomes

    def _finish(
        self,
        session: ShareSession,
        given: Acknowledgements,
        outcomes: Mapping[Place, ClientError | None],
        results: dict[TopicPartition, ClientError | None],
    ) -> None:
        for place, types in given.items():
            error = outcomes[place]
            self._deliveries.confirm(session, place, types, succeeded=error is None)
            offsets = sorted(offset for offset, kind in types.items() if kind)
            if not offsets:
                continue
            where = self._named(place)
            results[where] = results.get(where) or error
            if self._on_acknowledged is not None:
                try:
                    self._on_acknowledged(where, offsets, error)
                except Exception:
                    logger.exception("the callback on_acknowledged failed for %s", where)
            elif error is not None:
                logger.debug("%s", error)

    # --- fetching ---------------------------------------------------------------------------------------------------

    def _fetch_from_idle_brokers(self) -> None:
        metadata = self._cluster.metadata
        by_node: dict[int, set[Place]] = {}
        is_missing = self._cluster.is_old
        for place in self._member.assigned:
            name = metadata.topic_names.get(place[0])
            if name is not None:
                self._names[place[0]] = name
            leader = metadata.leader(TopicPartition(name, place[1])) if name is not None else None
            if leader is None:
                is_missing = True
            else:
                by_node.setdefault(leader.leader, set()).add(place)
        if is_missing and not self._looks_up and self._member.assigned:
            self._looks_up = True
            self._tasks.spawn(self._look_up(), "look for leaders")
        for node_id, session in self._sessions.items():
            if session.partitions:
                by_node.setdefault(node_id, set())
        for node_id, places in by_node.items():
            if node_id not in self._busy and (places or self._sessions[node_id].partitions):
                self._busy.add(node_id)
                self._tasks.spawn(self._fetch(node_id, frozenset(places)), f"fetch from broker {node_id}")

    async def _look_up(self) -> None:
        try:
            await self._member.look_up()
        except ClientError as error:
            logger.debug("looking for leaders: %s", error)
        finally:
            await self._io.pause(self._cluster.options.retry_backoff_ms)
            self._looks_up = False
            self._arrived.set()

    async def _fetch(self, node_id: int, places: frozenset[Place]) -> None:
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = ShareSession(node_id, self._options, self._member.member_id)
        try:
            async with self._lock(session):
                is_well = await self._fetch_in(session, places)
            if not is_well:
                await self._io.pause(self._cluster.options.retry_backoff_ms)
        finally:
            self._busy.discard(node_id)
            self._arrived.set()

    async def _fetch_in(self, session: ShareSession, places: frozenset[Place]) -> bool:
        given = self._deliveries.take(session)
        try:
            response = await self._ask(session, session.fetch(places, given), ShareFetchResponse)
        except ClientError as error:
            self._end(session, error, given, {})
            return False
        answers = {
            (topic.topic_id, each.partition_index): each for topic in response.responses for each in topic.partitions
        }
        self._lock_timeout_ms = response.acquisition_lock_timeout_ms or self._lock_timeout_ms
        errors = {
            place: (each.acknowledge_error_code, each.acknowledge_error_message) for place, each in answers.items()
        }
        self._finish(session, given, self._outcomes(given, errors), {})
        filled = {place for place, each in answers.items() if each.acquired_records or each.error_code}
        self._empty[session.node_id] = places - filled
        is_well = True
        for place, each in answers.items():
            is_well &= self._take(session, place, each)
        return is_well

    def _take(self, session: ShareSession, place: Place, answer: PartitionData) -> bool:
        """Keep what was acquired of a partition; False when its leader has to be looked for."""
        if answer.error_code:
            error = broker_error(answer.error_code, f"fetching from {self._named(place)}", answer.error_message)
            if error.code in _MOVED or error.retriable:
                logger.debug("broker %d: %s", session.node_id, error)
                self._cluster.troubles.note(("share", place), error)
                self._cluster.metadata.stale = True
                return False
            self._error = error
            return True
        self._cluster.troubles.over(("share", place))
        if not answer.acquired_records:
            return True
        where = self._named(place)
        count = sum(each.last_offset - each.first_offset + 1 for each in answer.acquired_records)
        if count > ACQUIRED_MAX or any(each.first_offset > each.last_offset for each in answer.acquired_records):
            self._error = ProtocolViolationError(
                f"broker {session.node_id} says it acquired {count} records of {where}"
            )
            return True
        data = answer.records if isinstance(answer.records, memoryview) else memoryview(b"")
        limit = self._options.decompressed_bytes_max
        try:
            found = acquired_records(where, data, answer.acquired_records, decompressed_bytes_max=limit)
        except InvalidInputError as broken:
            offsets = [n for run in answer.acquired_records for n in range(run.first_offset, run.last_offset + 1)]
            self._deliveries.settle(session, place, offsets, AcknowledgeType.RELEASE)
            self._error = ClientError(f"{where}: the response cannot be decoded: {broken}")
            return True
        self._deliveries.settle(session, place, found.gaps)
        if found.broken:
            self._deliveries.settle(session, place, found.broken, AcknowledgeType.REJECT)
            first, last = min(found.broken), max(found.broken)
            self._error = ClientError(f"{where}: records {first} to {last} are rejected: {found.reason}")
        self._deliveries.add(session, place, found.records)
        return True

    # --- requests ---------------------------------------------------------------------------------------------------

    async def _ask(
        self, session: ShareSession, request: ShareFetchRequest | ShareAcknowledgeRequest, response: type[Response]
    ) -> Response:
        cluster = self._cluster
        connection = await cluster.connection(session.node_id, Lane.FETCH)
        wait_ms = 0
        if isinstance(request, ShareFetchRequest):
            wait_ms = request.max_wait_ms
            needs_second = self._options.acquire_mode is not AcquireMode.BATCH_OPTIMIZED
        else:
            needs_second = request.is_renew_ack
        if needs_second and connection.versions.choose(type(request)) < 2:
            self._fatal = UnsupportedApiError(
                f"broker {session.node_id} is too old for renewals and acquire_mode='record_limit'"
            )
            raise self._fatal
        timeout_ms = cluster.options.request_timeout_ms + wait_ms
        answer = await cluster.ask_node(session.node_id, request, response, timeout_ms=timeout_ms, lane=Lane.FETCH)
        if answer.error_code:
            error = broker_error(
                answer.error_code, f"share session with broker {session.node_id}", answer.error_message
            )
            if error.code not in _SESSION_LOST and not error.retriable:
                self._fatal = error
            raise error
        session.answered()
        return answer

    def _end(
        self,
        session: ShareSession,
        error: ClientError,
        given: Acknowledgements,
        results: dict[TopicPartition, ClientError | None],
    ) -> None:
        """A session is over: the broker has released, or will, what was acquired in it."""
        logger.debug("share session with broker %d: %s", session.node_id, error)
        session.ended = error
        if self._sessions.get(session.node_id) is session:
            del self._sessions[session.node_id]
        if not isinstance(error, BrokerError):
            self._cluster.metadata.stale = True
        self._deliveries.forget(session)
        self._empty.pop(session.node_id, None)
        self._finish(session, given, dict.fromkeys(given, error), results)

    def _lock(self, session: ShareSession) -> asyncio.Lock:
        return self._locks.setdefault(session.node_id, asyncio.Lock())

    def _named(self, place: Place) -> TopicPartition:
        return TopicPartition(self._names.get(place[0], str(place[0])), place[1])

    def _raise_error(self) -> None:
        fatal = self._fatal or self._member.fatal
        if fatal is not None:
            raise fatal
        error, self._error = self._error, None
        if error is not None:
            raise error

    @property
    def _member(self) -> ShareMembership:
        if self._is_closed:
            raise ClientError("the share consumer is closed")
        if self._membership is None:
            raise ClientError(
                "the share consumer is not started: use `async with ShareConsumer(...)` or `await consumer.start()`"
            )
        return self._membership

    def _require_running(self) -> None:
        assert self._member is not None
        if self._fatal is not None:
            raise self._fatal

    def _on_crash(self, task: str, error: BaseException) -> None:
        self._fatal = ClientError(f"the share consumer failed in {task!r}: {error!r}")
        self._arrived.set()
