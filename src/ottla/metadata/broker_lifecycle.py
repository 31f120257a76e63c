"""The life of this broker in its cluster: from the open store to the end of its session.

    open --> register: session, broker epoch --> load --> does somebody decide? <-----------------------------+
                ^                                          yes |         | no                                 |
                |                                              |         +--> elect --lost------------------->+
                |                                              v                |                             |
                |                                        follow the log         +--won--> read to the end,    |
                |                                              |                          take over           |
                |                                              |                             |                |
                |                      the controller's session ended, or an election    fenced, or           |
                |                                              |                         an outcome unknown   |
                |                                              +-------------------------> resign ----------->+
                +------- this broker's session ended, at any time: resign

Who was elected reads the log to its end before it decides: nobody else appends from the election on. A broker that
loses an election goes on following. One whose session ended resigns at once, and registers anew.

A controller that hears too few of the others resigns as well, though its session lives. For a while it lets the others
be elected before it stands again, and does not resign for that reason once more: where all hear nobody each of them has
its turn, and then one of them decides.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from ottla.metadata.controller.controller import Controller
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import topic_id_text
from ottla.metadata.registration import UNCLEAN, BrokerRegistration
from ottla.metadata.store.interface import (
    FencedError,
    MetadataStore,
    Session,
    SessionExpiredError,
    StaleOffsetError,
    StoreError,
)
from ottla.model.errors import ApiError, InvalidInputError
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)

RETRY_MS: Final = 250
"""How long to wait before a store that could not be asked is asked again."""

START_POLL_MS: Final = 20
"""How often a broker that starts looks whether the controller has taken it in."""

STAND_BACK_MS: Final = 5_000
"""How long a broker that resigned because it was cut off lets the others be elected first. They stand at once; the time
is for those that are slow."""

STAY_MS: Final = 300_000
"""For so long after that it does not do so again, unless it has decided and heard enough since: where nobody hears
anybody each has one turn, then one of them decides."""

SECRET_BYTES: Final = 32
"""More than anybody can guess."""


class BrokerLifecycle:
    """Starts once and closes once. Belongs to the event loop.

    The lists of callbacks are for other parts to add to before `start`; each is called on the event loop.
    """

    def __init__(
        self,
        store: MetadataStore,
        loader: MetadataLoader,
        controller: Controller,
        *,
        rng: Rng,
        timer: Timer,
        tasks: Tasks,
    ) -> None:
        self._store = store
        self._loader = loader
        self._controller = controller
        self._rng = rng
        self._timer = timer
        self._tasks = tasks
        self._cluster_id = ""
        self._unreachable_controller: int | None = None
        self._trouble = ""
        """What was said of the store last, while it cannot be used."""
        self._session: Session | None = None
        self._registration: BrokerRegistration | None = None
        self._controller_epoch: int | None = None
        self._left_epoch: int | None = None
        """The epoch in which this broker resigned, while the store shows it as the controller still."""
        self._stands_back: TimerTask | None = None
        self._cut_off_epoch = -1
        """The last in which this broker resigned because it was cut off."""
        self._stands_back_from = self._stands_after = -1
        """The epoch after which it lets others be elected first, and that after which it has done so."""
        self._has_session = False
        self._has_told_end = False
        self._has_news = False
        self._has_election_news = False
        self._is_settling = True
        self._is_closed = False
        self.on_registered: list[Callable[[Session], object]] = []
        """A session began: at the start, and each time one had ended."""
        self.on_session_lost: list[Callable[[], object]] = []
        """The session ended: what the cluster agreed on may have changed already, and the ISR stays as it is."""
        self.on_became_controller: list[Callable[[int], object]] = []
        """This broker decides from now on, with this controller epoch."""
        self.on_resigned: list[Callable[[], object]] = []
        """This broker decides no more."""

    @property
    def session(self) -> Session:
        """The newest session of this broker, which may have ended."""
        assert self._session is not None, "not registered yet"
        return self._session

    @property
    def is_controller(self) -> bool:
        """Whether this broker decides."""
        return self._controller_epoch is not None

    async def open(self) -> str:
        """Open the store; returns the id of the cluster, which is new at the first start. Raises StoreError."""
        self._cluster_id = await self._store.open(topic_id_text(self._rng.uuid()))
        self._store.watch(lambda _end_offset: self._settle_soon())
        self._store.watch_brokers(self._on_brokers)
        self._store.watch_controller(self._on_election)
        self._store.watch_session(self._on_session_end)
        self._controller.on_refused = self._on_refused
        self._controller.on_cut_off = self._on_cut_off
        self._controller.on_heard = self._stand_as_others
        return self._cluster_id

    async def cluster_secret(self) -> bytes:
        """What the brokers of the cluster know and nobody else, made when it is asked for the first time.

        Raises StoreError.
        """
        return await self._store.cluster_secret(self._rng.token_bytes(SECRET_BYTES))

    async def start(self, broker_id: int, registration: BrokerRegistration) -> MetadataImage:
        """Register this broker, become the controller unless somebody is; returns the image with this broker in it.

        No other image follows, and no decision is seen, until `follow`. Raises StoreError, BrokerIdTakenError among
        them, and InvalidInputError when the stored metadata is damaged.
        """
        await self._register(broker_id, registration)
        await self._loader.load(self._cluster_id)
        while not self._is_in_image():
            if len(self._loader.image.brokers) > 1:
                from ottla.metadata.controller.broker_registration import registration_refusal

                live = await self._store.live_brokers()
                refusal = registration_refusal(self._loader.image, live, broker_id, registration)
                if refusal is not None:
                    raise StoreError(refusal)
            self._has_news = False
            try:
                await self._settle()
            except (FencedError, StaleOffsetError, SessionExpiredError) as error:
                self._on_refused(error)
            if not self._is_in_image() and not self._has_news:
                await self._timer.sleep(START_POLL_MS)
        await self._loader.hold()
        return self._loader.image

    def follow(self) -> None:
        """Let images come: those who act on them have subscribed."""
        self._loader.release()
        self._is_settling = False
        self._settle_soon()

    def controller_unreachable(self, controller_epoch: int) -> None:
        """The controller of this epoch refuses connections: have it followed by another, though its session lasts."""
        self._unreachable_controller = controller_epoch
        self._settle_soon()

    async def close(self) -> None:
        """End the session. What waits for a decision is told that this broker is no longer the controller."""
        self._is_closed = True
        self._resign()
        await self._store.close()

    async def _register(self, broker_id: int, registration: BrokerRegistration) -> None:
        self._session = await self._store.register_broker(
            broker_id, registration.encode(), takes_over=registration.directory_token
        )
        self._has_session = True
        self._has_told_end = False
        # While its process lives, what a broker wrote is not lost with its session.
        epoch = self._session.broker_epoch
        clean_since = registration.clean_since if registration.clean_since != UNCLEAN else epoch
        self._registration = replace(registration, previous_epoch=epoch, clean_since=clean_since)
        for callback in _each(self.on_registered):
            callback(self._session)

    def _is_in_image(self) -> bool:
        registered = self._loader.image.brokers.get(self.session.broker_id)
        return registered is not None and registered.broker_epoch == self.session.broker_epoch

    def _on_brokers(self) -> None:
        if self.is_controller:
            self._tasks.spawn(self._tell_of_brokers(), "brokers came or went")

    async def _tell_of_brokers(self) -> None:
        try:
            await self._controller.brokers_changed()
        except (ApiError, StoreError) as error:
            if not self.is_controller:
                return  # who decides now takes them in
            logger.warning("could not register or fence brokers, retrying: %s", error)
            await self._timer.sleep(RETRY_MS)
            self._on_brokers()

    def _on_election(self) -> None:
        self._has_election_news = True
        self._settle_soon()

    def _on_session_end(self) -> None:
        self._has_session = False
        self._resign()
        self._settle_soon()

    def _on_refused(self, error: StoreError) -> None:
        """The store took no decision of ours: another broker decides, or nobody knows what became of it."""
        if isinstance(error, SessionExpiredError):
            self._has_session = False
        self._resign()
        self._settle_soon()

    def _on_cut_off(self) -> bool:
        """This controller hears too few of the others: have one of them elected. False when that was done lately."""
        if self._controller_epoch is None or self._stands_back is not None:
            return False
        logger.warning(
            "controller %d hears fewer than half of the live brokers and resigns",
            self.session.broker_id,
        )
        self._stands_back = self._timer.schedule(STAY_MS, self._stand_as_others)
        self._left_epoch = self._cut_off_epoch = self._controller_epoch
        self._resign()
        self._on_election()
        return True

    def _stand_as_others(self) -> None:
        if self._stands_back is not None:
            self._stands_back.cancel()
            self._stands_back = None

    def _lets_others_stand(self, epoch: int) -> bool:
        """Whether others are to be elected first after an epoch that is over; this broker looks again in a while."""
        if self._stands_back is None or self._stands_after == epoch:
            return False
        if self._cut_off_epoch != epoch and self._is_unfenced():
            return False  # whoever decided heard this broker: it is cut off no more
        if self._stands_back_from != epoch:
            self._stands_back_from = epoch

            def stand() -> None:
                self._stands_after = epoch
                self._on_election()

            self._timer.schedule(STAND_BACK_MS, stand)
        return True

    def _is_unfenced(self) -> bool:
        broker = self._loader.image.brokers.get(self.session.broker_id)
        return broker is not None and broker.broker_epoch == self.session.broker_epoch and not broker.fenced

    def _resign(self) -> None:
        self._controller.resign()
        if self._controller_epoch is None:
            return
        logger.info("broker %d is no longer the controller", self.session.broker_id)
        self._controller_epoch = None
        for callback in _each(self.on_resigned):
            callback()

    def _settle_soon(self) -> None:
        """Look at the store again, in a task: something changed there, or here."""
        self._has_news = True
        if not self._is_settling and not self._is_closed:
            self._is_settling = True
            self._tasks.spawn(self._settle_all(), "broker lifecycle")

    def _was_closed(self) -> bool:
        return self._is_closed

    async def _settle_all(self) -> None:
        try:
            while self._has_news and not self._is_closed:
                self._has_news = False
                try:
                    await self._settle()
                    self._trouble = ""
                except (FencedError, StaleOffsetError, SessionExpiredError) as error:
                    logger.info("another broker became the controller first: %s", error)
                    self._on_refused(error)
                except StoreError as error:
                    if self._was_closed():
                        return
                    if str(error) != self._trouble:
                        self._trouble = str(error)
                        logger.warning("the metadata store is unreachable, retrying: %s", error)
                    await self._timer.sleep(RETRY_MS)
                    self._has_news = True
                except InvalidInputError:
                    logger.exception("cannot read the metadata; this broker keeps the metadata that it has")
        finally:
            self._is_settling = False

    async def _settle(self) -> None:
        """Take the role that the store says is this broker's, and read what there is to read."""
        if not self._has_session:
            await self._register_again()
        if self.is_controller and not self._has_election_news:
            return
        self._has_election_news = False
        if self._left_epoch is not None:
            with suppress(FencedError):
                await self._store.resign(controller_epoch=self._left_epoch)
            self._left_epoch = None
        try:
            newest = await self._store.controller()
        except StoreError:
            # Who cannot find out that it is still the controller is none.
            self._resign()
            self._has_election_news = True
            raise
        if newest.epoch == self._controller_epoch:
            return
        self._resign()
        own_id = self.session.broker_id
        if newest.alive and newest.broker_id != own_id and newest.epoch != self._unreachable_controller:
            await self._loader.catch_up()
            return
        if self._lets_others_stand(newest.epoch):
            await self._loader.catch_up()
            return
        epoch = await self._store.elect(self.session, seen_epoch=newest.epoch)
        await self._loader.catch_up()
        await self._controller.take_over(own_id, epoch)
        self._controller_epoch = epoch
        logger.info("broker %d is the controller, with epoch %d", own_id, epoch)
        for callback in _each(self.on_became_controller):
            callback(epoch)
        self._on_brokers()

    async def _register_again(self) -> None:
        assert self._registration is not None
        if not self._has_told_end:
            self._has_told_end = True
            logger.warning("the session of broker %d has expired; registering again", self.session.broker_id)
            for callback in _each(self.on_session_lost):
                callback()
        await self._register(self.session.broker_id, self._registration)


def _each(callbacks: Iterable[Callable[..., object]]) -> Iterable[Callable[..., None]]:
    """The callbacks, made so that one which fails stops no other."""

    def guarded(callback: Callable[..., object]) -> Callable[..., None]:
        def call(*args: object) -> None:
            try:
                callback(*args)
            except Exception:
                logger.exception("a listener of this broker's lifecycle failed")

        return call

    return map(guarded, callbacks)
