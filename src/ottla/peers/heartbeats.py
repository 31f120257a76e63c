"""Heartbeats of this broker to the controller, from the event loop that serves clients: who hangs is not heard.

registered --beat--> fenced --beat after each new image, until it has read its registration--> serves
                       ^                                                                         |
                       +------- silence for broker.session.timeout.ms, or the session ends ------+
to stop: beats that ask for it, until the controller has given the leaderships to others
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from ottla.client.errors import ClientError
from ottla.metadata.controller.broker_watch import HeartbeatAnswer
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.peers.controller_channel import ControllerChannel
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

logger = logging.getLogger(__name__)


class Disks(NamedTuple):
    """What the controller hears of the data directories of a broker."""

    offline: frozenset[UUID] = frozenset()
    """Those that failed, while others serve."""
    has_none: bool = False
    """Whether none can be written: others are to lead what this broker leads."""


IMPATIENT_MS: Final = 100
"""The time between heartbeats while the next one may change something: fenced, not answered, on its way to stop."""


def _nobody_listens(is_fenced: bool) -> None:
    """For brokers that act on the metadata alone."""


class Heartbeats:
    """Belongs to the event loop. Starts once and closes once."""

    def __init__(
        self,
        controller: ControllerChannel,
        *,
        interval_ms: int,
        timeout_ms: int,
        timer: Timer,
        tasks: Tasks,
        disks: Callable[[], Disks] = Disks,
    ) -> None:
        """A heartbeat not answered within `timeout_ms` is sent again. `disks` says how the data directories are."""
        self._disks = disks
        self._controller = controller
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._timer = timer
        self._tasks = tasks
        self._wake: asyncio.Future[None] | None = None
        self._is_due = False
        self._stopped: asyncio.Future[None] | None = None
        self._is_closed = False
        self._is_heard = True
        self._is_refused = False
        self.is_fenced = True
        """Whether the controller keeps clients away from this broker, as far as it has said."""
        self._on_answer: Callable[[bool], object] = _nobody_listens
        self.on_refused: Callable[[str], None] = lambda reason: logger.error("this broker cannot join: %s", reason)
        """Called when this broker is not taken into the cluster for good, with the reason."""

    def start(self, on_answer: Callable[[bool], object] = _nobody_listens) -> None:
        """The listeners are open: say so. `on_answer` is called with each answer: whether this broker is fenced, which
        its metadata may not say yet.
        """
        self._on_answer = on_answer
        self._tasks.spawn(self._run(), "heartbeats")

    def close(self) -> None:
        """Say nothing more."""
        self._is_closed = True
        self.beat_soon()

    def beat_soon(self) -> None:
        """Do not wait for the next turn: something changed that the controller should hear of."""
        self._is_due = True
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def on_image(self, _image: object, _delta: object) -> None:
        """The metadata has changed; while this broker is fenced, it may have reached what it is waited for to reach."""
        if self.is_fenced or self._stopped is not None:
            self.beat_soon()

    async def leave(self, timeout_ms: int) -> bool:
        """Ask to stop, and return when the leaderships of this broker are with others: whether they are in time."""
        self._stopped = stopped = asyncio.get_running_loop().create_future()
        task = self._timer.schedule(timeout_ms, stopped.cancel)
        self.beat_soon()
        try:
            await asyncio.wait([stopped])
        finally:
            task.cancel()
        return not stopped.cancelled()

    async def _run(self) -> None:
        while not self._is_closed:
            self._is_due = False
            is_settled = await self._beat()
            await self._pause(self._interval_ms if is_settled else min(IMPATIENT_MS, self._interval_ms))

    async def _beat(self) -> bool:
        """One heartbeat; whether the next one can wait."""
        wants_to_stop = self._stopped is not None
        try:
            disks = self._disks()
            answer = await self._controller.heartbeat(
                want_fence=disks.has_none,
                want_shutdown=wants_to_stop,
                offline_directories=disks.offline,
                timeout_ms=self._timeout_ms,
            )
        except (ClientError, ApiError) as error:
            if isinstance(error, ApiError) and error.code is ErrorCode.INVALID_REGISTRATION:
                self._refuse(error.message)
            if self._is_heard:
                self._is_heard = False
                logger.info("cannot send heartbeats to the controller, retrying: %s", error)
            return False
        self._is_heard, self._is_refused = True, False
        return self._heard(answer, wants_to_stop=wants_to_stop)

    def _heard(self, answer: HeartbeatAnswer, *, wants_to_stop: bool) -> bool:
        if answer.is_fenced != self.is_fenced and not wants_to_stop:
            if answer.is_fenced:
                logger.warning(
                    "this broker is fenced: it serves no clients until the controller receives its heartbeats again"
                )
            else:
                logger.info("this broker is unfenced and serves clients")
        self.is_fenced = answer.is_fenced
        if not wants_to_stop:
            self._on_answer(answer.is_fenced)
        if answer.should_shut_down and self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)
        return self.is_fenced is self._disks().has_none and not wants_to_stop

    def _refuse(self, reason: str) -> None:
        if not self._is_refused:
            self._is_refused = True
            self.on_refused(reason)

    async def _pause(self, delay_ms: int) -> None:
        if self._is_closed or self._is_due:
            return
        self._wake = asyncio.get_running_loop().create_future()
        task = self._timer.schedule(delay_ms, self.beat_soon)
        try:
            await self._wake
        finally:
            task.cancel()
            self._wake = None
