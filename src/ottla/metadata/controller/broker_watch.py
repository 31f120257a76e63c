"""Which brokers the controller hears: sessions in the store, heartbeats, connections that cannot be made any more.

    store: sessions came or went --> brokers_changed --+
    heartbeat ------------------> heartbeat -----------+--> decide_registrations, decide_fencing, ... --> records
    nobody listens any more ----> unreachable ---------+
    the timer ------------------> overdue -------------+
    the timer ------------------> too few are heard ---> it resigns, and another decides

Lives while this broker is the controller; what is decided is in the metadata, so that another controller goes on.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar
from uuid import UUID

from msgspec import Struct

from ottla.metadata.controller.broker_fencing import (
    HAS_STOPPED,
    BrokerState,
    decide_fencing,
    decide_offline_directories,
    decide_removal,
    decide_shutdown,
    decide_unfencing,
    has_leadership,
    next_state,
)
from ottla.metadata.controller.broker_registration import Refusal, decide_registrations
from ottla.metadata.controller.check_quorum import CheckQuorum
from ottla.metadata.controller.decision import Decide, Decision
from ottla.metadata.controller.heartbeat_tracker import HeartbeatTracker
from ottla.metadata.image.image import BrokerImage, MetadataImage
from ottla.metadata.store.interface import LiveBroker, StoreError
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask
from ottla.settings.broker_settings import BrokerSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

LATE_MS: Final = 1_000
"""A timer that comes later than this means that this broker stood still: then it does not know who was silent."""

RETRY_MS: Final = 500
"""When a decision to fence is taken again that the store did not take."""


class HeartbeatAnswer(Struct, frozen=True):
    """What a broker is told: whether it has read its registration, serves nobody, may stop."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


class DecidingController(Protocol):
    """What the watch needs of the controller."""

    @property
    def image(self) -> MetadataImage:
        """The newest image."""
        ...

    async def decide(self, decide: Decide[T]) -> T:
        """Take a decision and return its result once it is durable."""
        ...


class BrokerWatch:
    """Belongs to the event loop; the methods may be called concurrently."""

    def __init__(
        self,
        controller: DecidingController,
        live_brokers: Callable[[], Awaitable[list[LiveBroker]]],
        settings: BrokerSettings,
        *,
        clock: Clock,
        timer: Timer,
        tasks: Tasks,
    ) -> None:
        self._controller = controller
        self._live_brokers = live_brokers
        self._broker_settings = settings.explicit
        self._clock = clock
        self._timer = timer
        self._tasks = tasks
        self._session_timeout_ms = settings.integer("broker.session.timeout.ms")
        self._tracker = HeartbeatTracker(self._session_timeout_ms)
        self._quorum = CheckQuorum(self._session_timeout_ms)
        self._own_id = -1
        self._sessions: dict[int, int] = {}
        self._registered_at: dict[int, int] = {}
        self._stopping_at: dict[int, int] = {}
        self._refused: Mapping[int, Refusal] = {}
        self._counts_from_ms = 0
        """When all were taken to be heard, whether or not they were."""
        self._check: TimerTask | None = None
        self._check_due_ms = 0
        self._is_acting = False
        """Whether it is about to fence who is silent, for as long as the store takes: until then nobody looks again."""
        self.on_liveness: Callable[[], object] = lambda: None
        """Called when brokers came, went, or came back, after the decision."""
        self.on_cut_off: Callable[[], bool] = lambda: False
        """Called when this controller hears too few of the brokers that live; whether it resigns."""
        self.on_heard: Callable[[], object] = lambda: None
        """Called now and then while it hears enough of them, from a session time after it was elected on."""

    def decide_take_over(self, image: MetadataImage, live: Sequence[LiveBroker], own_id: int) -> Decision[None]:
        """What a broker that has become the controller decides first of all; `start` follows when it is durable."""
        decision = decide_registrations(image, live, self._broker_settings, own_id=own_id, takes_over=True)
        self._note(live, decision.result)
        return Decision(decision.records, None, decision.lines)

    def start(self, own_id: int) -> None:
        """This broker decides: give every other one a whole session time from now."""
        self._own_id = own_id
        image = self._controller.image
        self._registered_at = dict.fromkeys(image.brokers, image.end_offset)
        watched, now_ms = self._watched(image), self._clock.monotonic_ms()
        self._tracker.restart(watched, now_ms)
        self._quorum.restart({each: image.brokers[each].broker_epoch for each in watched}, now_ms)
        self._counts_from_ms = now_ms
        self._arm()

    def stop(self) -> None:
        """Another broker decides, or this one stops."""
        self._own_id = -1
        self._sessions, self._registered_at, self._stopping_at, self._refused = {}, {}, {}, {}
        self._tracker.restart((), 0)
        self._quorum.restart({}, 0)
        if self._check is not None:
            self._check.cancel()
            self._check = None

    async def brokers_changed(self) -> None:
        """Sessions came or went. Raises StoreError and ApiError: to be tried again."""
        live = await self._live_brokers()
        own_id = self._own_id

        def decide(image: MetadataImage) -> Decision[Mapping[int, Refusal]]:
            decision = decide_registrations(image, live, self._broker_settings, own_id=own_id, takes_over=False)
            self._note(live, decision.result)
            return decision

        before = self._controller.image.brokers
        await self._controller.decide(decide)
        image = self._controller.image
        for broker_id, broker in image.brokers.items():
            if broker_id not in before or before[broker_id].broker_epoch != broker.broker_epoch:
                self._registered_at[broker_id] = image.end_offset
                self._stopping_at.pop(broker_id, None)
            if broker.fenced:
                self._tracker.forget(broker_id)
        self._arm()
        if image.brokers is not before:
            self.on_liveness()

    async def heartbeat(
        self,
        broker_id: int,
        broker_epoch: int,
        metadata_offset: int,
        *,
        want_fence: bool,
        want_shutdown: bool,
        offline_directories: frozenset[UUID],
    ) -> HeartbeatAnswer:
        """A broker says that it lives, how far it has read the metadata, what it wants to be, and which of its log
        directories failed.

        Raises ApiError STALE_BROKER_EPOCH (it is not registered, or its session is not the newest one of its id),
        INVALID_REGISTRATION (its session is not taken into the cluster, with the reason), and what `decide` raises.
        """
        broker = await self._registered(broker_id, broker_epoch)
        if broker_id != self._own_id:
            self._quorum.heard(broker_id, broker_epoch, self._clock.monotonic_ms())
        self._hear(broker_id, broker_epoch, metadata_offset)
        image = self._controller.image
        has_session = self._sessions.get(broker_id) == broker_epoch
        has_read = metadata_offset >= self._registered_at.get(broker_id, image.end_offset)
        state = next_state(
            broker,
            is_caught_up=has_read and has_session,
            want_fence=want_fence,
            want_shutdown=want_shutdown,
            may_stop=want_shutdown and self._may_stop(image, broker),
        )
        if state is BrokerState.UNFENCED and broker.fenced:
            await self._controller.decide(
                lambda newest: decide_unfencing(newest, broker_id, broker_epoch, self._broker_settings)
            )
            self.on_liveness()
        elif state is BrokerState.SHUTTING_DOWN:
            await self._controller.decide(
                lambda newest: decide_shutdown(newest, broker_id, broker_epoch, self._broker_settings)
            )
            self._stopping_at.setdefault(broker_id, self._controller.image.end_offset)
        elif (
            state in (BrokerState.FENCED, BrokerState.STOPPED)
            and not broker.fenced
            and not self._is_last(image, broker)
        ):
            await self._fence(
                {
                    broker_id: HAS_STOPPED
                    if want_shutdown
                    else "it asked to be fenced, as a broker does when it cannot write"
                },
                {broker_id: broker_epoch},
            )
        if offline_directories != frozenset(self._controller.image.brokers.get(broker_id, broker).offline):
            await self._controller.decide(
                lambda newest: decide_offline_directories(
                    newest, broker_id, broker_epoch, offline_directories, self._broker_settings
                )
            )
        self._hear(broker_id, broker_epoch, metadata_offset)
        newest = self._controller.image.brokers.get(broker_id, broker)
        return HeartbeatAnswer(has_read, newest.fenced, should_shut_down=state is BrokerState.STOPPED)

    async def unreachable(self, broker_id: int, broker_epoch: int) -> None:
        """The connection to a broker was closed, and nobody took another one: its process is gone."""
        broker = self._controller.image.brokers.get(broker_id)
        if broker is not None and broker.broker_epoch == broker_epoch and not broker.fenced:
            reason = "its connection was closed and it accepts no new one"
            await self._fence({broker_id: reason}, {broker_id: broker_epoch})

    async def remove(self, broker_id: int) -> None:
        """Take a broker out of the cluster that does not run. Raises ApiError."""
        try:
            live = await self._live_brokers()
        except StoreError as error:
            raise _not_asked(error) from error
        has_session = any(each.broker_id == broker_id for each in live)
        await self._controller.decide(
            lambda image: decide_removal(image, broker_id, self._broker_settings, has_session=has_session)
        )

    async def _registered(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        broker = self._controller.image.brokers.get(broker_id)
        if broker is None or broker.broker_epoch < broker_epoch:
            try:
                await self.brokers_changed()  # its heartbeat was faster than the word of its session
            except StoreError as error:
                raise _not_asked(error) from error
            broker = self._controller.image.brokers.get(broker_id)
        if broker is not None and broker.broker_epoch == broker_epoch:
            return broker
        refusal = self._refused.get(broker_id)
        if refusal is not None and refusal.broker_epoch == broker_epoch:
            raise ApiError(ErrorCode.INVALID_REGISTRATION, refusal.reason)
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has no session with the epoch {broker_epoch}")

    def _may_stop(self, image: MetadataImage, broker: BrokerImage) -> bool:
        """Whether it leads nothing and the others know that, or there is nobody to lead in its place."""
        if self._is_last(image, broker):
            return True
        if has_leadership(image, broker.broker_id):
            return False
        stopping_at = self._stopping_at.get(broker.broker_id)
        if stopping_at is None:
            return not broker.shutting_down
        others = image.active_brokers() - {broker.broker_id, self._own_id}
        lowest = self._tracker.lowest_offset(others)
        return lowest is None or lowest >= stopping_at

    def _is_last(self, image: MetadataImage, broker: BrokerImage) -> bool:
        return not image.active_brokers() - {broker.broker_id}

    def _hear(self, broker_id: int, broker_epoch: int, metadata_offset: int) -> None:
        broker = self._controller.image.brokers.get(broker_id)
        if broker is None or broker.broker_epoch != broker_epoch or broker_id == self._own_id:
            return
        if broker.fenced:
            self._tracker.forget(broker_id)
            return
        self._tracker.heard(broker_id, self._clock.monotonic_ms(), metadata_offset)
        if self._check is None:
            self._arm()

    async def _fence(self, reasons: Mapping[int, str], epochs: Mapping[int, int]) -> None:
        """Fence brokers, unless they were registered anew since."""

        def decide(image: MetadataImage) -> Decision[frozenset[int]]:
            present = {
                broker_id: reason
                for broker_id, reason in reasons.items()
                if (broker := image.brokers.get(broker_id)) is not None and broker.broker_epoch == epochs[broker_id]
            }
            return decide_fencing(image, present, self._broker_settings)

        for broker_id in await self._controller.decide(decide):
            self._tracker.forget(broker_id)
            self._stopping_at.pop(broker_id, None)
        self._arm()
        self.on_liveness()

    def _note(self, live: Sequence[LiveBroker], refused: Mapping[int, Refusal]) -> None:
        self._sessions = {broker.broker_id: broker.broker_epoch for broker in live}
        for broker_id, refusal in refused.items():
            if self._refused.get(broker_id) != refusal:
                logger.error("refused to register broker %d: %s", broker_id, refusal.reason)
        self._refused = refused

    def _watched(self, image: MetadataImage) -> list[int]:
        return [each.broker_id for each in image.live_brokers().values() if each.broker_id != self._own_id]

    def _arm(self) -> None:
        """Have the timer look when the first broker will have been silent for too long, and now and then when all are
        fenced: it may be this one that is cut off.
        """
        if self._is_acting:
            return
        next_ms = self._tracker.next_check_ms()
        if next_ms is None and len(self._quorum) > 1:
            next_ms = self._clock.monotonic_ms() + self._session_timeout_ms
        if self._check is not None:
            if next_ms is not None and self._check_due_ms <= next_ms:
                return
            self._check.cancel()
            self._check = None
        if next_ms is not None:
            self._check_at(next_ms)

    def _check_at(self, due_ms: int) -> None:
        self._check_due_ms = due_ms
        self._check = self._timer.schedule(due_ms - self._clock.monotonic_ms(), self._on_check)

    def _on_check(self) -> None:
        self._check = None
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._check_due_ms > LATE_MS:
            logger.warning(
                "this controller was paused for %d ms: it waits a full session timeout before it fences a broker",
                now_ms - self._check_due_ms,
            )
            self._tracker.restart(self._watched(self._controller.image), now_ms)
            self._quorum.stood_still(now_ms)
            self._counts_from_ms = now_ms
        if self._tracker.overdue(now_ms) or self._is_cut_off(self._sessions):
            self._is_acting = True
            self._tasks.spawn(self._act_on_silence(), "fencing brokers that are silent")
            return
        if now_ms - self._counts_from_ms >= self._session_timeout_ms and self._quorum.is_there(
            self._sessions, own_id=self._own_id, now_ms=now_ms
        ):
            self.on_heard()
        self._arm()

    def _is_cut_off(self, sessions: Mapping[int, int]) -> bool:
        return self._quorum.is_lost(sessions, own_id=self._own_id, now_ms=self._clock.monotonic_ms())

    async def _act_on_silence(self) -> None:
        try:
            await self._resign_or_fence()
        finally:
            self._is_acting = False
            if self._check is None and self._own_id != -1:
                self._arm()

    async def _resign_or_fence(self) -> None:
        """Resign when others are likely to hear more, else fence who is silent."""
        try:
            if self._is_cut_off(self._sessions):
                # Those that died at once with their hosts have sessions no more, or will not soon.
                self._sessions = {each.broker_id: each.broker_epoch for each in await self._live_brokers()}
                if self._own_id == -1 or (self._is_cut_off(self._sessions) and self.on_cut_off()):
                    return
        except StoreError as error:
            logger.warning("could not check for brokers without heartbeats, retrying: %s", error)
            self._look_again()
            return
        now_ms = self._clock.monotonic_ms()
        overdue = self._tracker.overdue(now_ms)
        if overdue:
            await self._fence_silent(overdue, now_ms)

    def _look_again(self) -> None:
        if self._own_id != -1 and self._check is None:
            self._check_at(self._clock.monotonic_ms() + RETRY_MS)

    async def _fence_silent(self, broker_ids: Sequence[int], now_ms: int) -> None:
        brokers = self._controller.image.brokers
        reasons = {each: f"no heartbeat for {self._tracker.silent_ms(each, now_ms)} ms" for each in broker_ids}
        try:
            await self._fence(reasons, {each: brokers[each].broker_epoch for each in broker_ids if each in brokers})
        except ApiError as error:
            if self._own_id == -1:
                return
            logger.warning("could not fence brokers without heartbeats, retrying: %s", error)
            self._look_again()


def _not_asked(error: StoreError) -> ApiError:
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata store cannot be asked who is there: {error}")
