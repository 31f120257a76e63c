"""What the controller does about partitions without being asked.

    brokers came or went ---> internal topics get the replicas they should have
                         ---> partitions that may lose records to have a leader get one (unclean.leader.election.enable)
    every some minutes -----> leaderships are given back to the first replica (auto.leader.rebalance.enable)

One broker by itself has nothing of that to do.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

from ottla.metadata.controller.decision import Decide, Decision, Outcome
from ottla.metadata.controller.internal_topic_growth import REPLICATION_SETTINGS, missing_replicas
from ottla.metadata.controller.leader_election import (
    ElectionOutcomes,
    ElectionType,
    decide_leader_balance,
    decide_leader_election,
    leaderless,
)
from ottla.metadata.controller.partition_leadership import unclean_order
from ottla.metadata.controller.reassignment import decide_reassignments
from ottla.metadata.controller.topic_limits import TopicLimits
from ottla.metadata.image.image import NO_LEADER, MetadataImage
from ottla.model.errors import ApiError
from ottla.model.topic_name import KEPT_TOPIC_REPLICAS, KEPT_TOPICS
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask
from ottla.settings.broker_settings import BrokerSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

BALANCE_AGAIN_MS: Final = 1_000
"""When the next leaders are moved, when one round did not move all: clients have found the new ones by then."""

LOOK_AGAIN_MS: Final = 1_000
"""When partitions are looked at again that had to wait because the store took no decision."""

LogEnds: TypeAlias = Callable[
    [Mapping[TopicPartition, Sequence[int]]], Awaitable[Mapping[TopicPartition, Mapping[int, tuple[int, int]]]]
]
"""Of partitions and brokers: the last leader epoch and the end of each broker's log, as far as it answered in time."""


class Decider(Protocol):
    """What the upkeep needs of the controller."""

    log_ends: LogEnds | None

    @property
    def image(self) -> MetadataImage:
        """The newest image."""
        ...

    @property
    def is_active(self) -> bool:
        """Whether this broker decides."""
        ...

    async def decide(self, decide: Decide[T]) -> T:
        """Take a decision and return its result once it is durable."""
        ...


class PartitionUpkeep:
    """Belongs to the event loop."""

    def __init__(
        self, controller: Decider, settings: BrokerSettings, limits: TopicLimits, *, timer: Timer, tasks: Tasks
    ) -> None:
        self._controller = controller
        self._settings = settings
        self._limits = limits
        self._timer = timer
        self._tasks = tasks
        self._balance: TimerTask | None = None
        self._again: TimerTask | None = None
        self._is_tending = False
        self._has_news = False

    def stop(self) -> None:
        """This broker decides no more, for now."""
        if self._balance is not None:
            self._balance.cancel()
            self._balance = None
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def look(self) -> None:
        """Brokers came, went or came back, settings are others than before, or this broker has begun to decide."""
        if self._balance is None and self._settings.boolean("auto.leader.rebalance.enable"):
            self._balance_in(self._settings.integer("leader.imbalance.check.interval.seconds") * 1_000)
        self._has_news = True
        if not self._is_tending:
            self._is_tending = True
            self._tasks.spawn(self._tend(), "controller: tending partitions")

    async def elect(self, election: ElectionType, partitions: Sequence[TopicPartition] | None) -> ElectionOutcomes:
        """Elect leaders, with None for all partitions: of each that it was done, or why it was not."""
        orders = {}
        if election is ElectionType.UNCLEAN:
            orders = await self._unclean_orders(partitions)
        return await self._controller.decide(
            lambda image: decide_leader_election(image, election, partitions, self._settings.explicit, orders)
        )

    async def _tend(self) -> None:
        factors = dict.fromkeys(KEPT_TOPICS, KEPT_TOPIC_REPLICAS)
        factors |= {topic: self._settings.integer(name) for topic, name in REPLICATION_SETTINGS.items()}
        try:
            while self._has_news and self._controller.is_active:
                self._has_news = False
                if missing_replicas(self._controller.image, factors):
                    await self._controller.decide(lambda image: self._decide_growth(image, factors))
                wanted = leaderless(self._controller.image, self._settings.explicit)
                if wanted:
                    await self.elect(ElectionType.UNCLEAN, wanted)
        except ApiError as error:
            logger.warning("could not assign replicas or leaders to partitions, retrying later: %s", error)
            if self._controller.is_active and self._again is None:
                self._again = self._timer.schedule(LOOK_AGAIN_MS, self._look_again)
        finally:
            self._is_tending = False

    def _look_again(self) -> None:
        self._again = None
        self.look()

    def _decide_growth(self, image: MetadataImage, factors: Mapping[str, int]) -> Decision[list[Outcome[None]]]:
        requests = missing_replicas(image, factors)
        reason = "an internal topic has too few replicas"
        return decide_reassignments(image, requests, self._limits, self._settings.explicit, reason=reason)

    def _balance_in(self, delay_ms: int) -> None:
        def due() -> None:
            self._balance = None
            self._tasks.spawn(self._balance_leaders(), "controller: balancing leaders")

        self._balance = self._timer.schedule(delay_ms, due)

    async def _balance_leaders(self) -> None:
        delay_ms = self._settings.integer("leader.imbalance.check.interval.seconds") * 1_000
        try:
            if await self._controller.decide(lambda image: decide_leader_balance(image, self._settings.explicit)):
                delay_ms = BALANCE_AGAIN_MS
        except ApiError as error:
            logger.warning("could not balance leaders, retrying later: %s", error)
        if self._controller.is_active and self._balance is None:
            self._balance_in(delay_ms)

    async def _unclean_orders(
        self, partitions: Sequence[TopicPartition] | None
    ) -> dict[TopicPartition, tuple[int, ...]]:
        """In which order an unclean election is to prefer the replicas of partitions, where they could be asked."""
        ask = self._controller.log_ends
        if ask is None:
            return {}
        image = self._controller.image
        active = image.active_brokers()
        names = partitions
        if names is None:
            names = [TopicPartition(topic.name, each.index) for topic in image.topics() for each in topic.partitions]
        replicas = {
            name: partition.replicas
            for name in names
            if (partition := image.partition(*name)) is not None and partition.leader == NO_LEADER
        }
        if not replicas:
            return {}
        ends = await ask(
            {name: [broker for broker in brokers if broker in active] for name, brokers in replicas.items()}
        )
        return {name: unclean_order(brokers, ends.get(name, {})) for name, brokers in replicas.items()}
