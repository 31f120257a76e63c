"""The metadata stage of a broker: the store, the image read from it, and who decides."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ottla.metadata.broker_lifecycle import BrokerLifecycle
from ottla.metadata.controller.controller import Controller
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.store.interface import MetadataStore
from ottla.metadata.store.outage import StoreOutage
from ottla.metadata.store.probe import StoreProbe
from ottla.runtime.environment import Environment
from ottla.settings.broker_settings import BrokerSettings

if TYPE_CHECKING:
    from ottla.metadata.controller.partition_upkeep import LogEnds


class Metadata:
    """What this broker knows of what the cluster agreed on. Belongs to the event loop."""

    def __init__(self, environment: Environment, store: MetadataStore) -> None:
        self.store = store
        self.loader = MetadataLoader(store, environment.tasks)
        self.probe = StoreProbe(
            store,
            self.loader.publisher,
            clock=environment.clock,
            timer=environment.timer,
            tasks=environment.tasks,
        )

    @property
    def publisher(self) -> MetadataPublisher:
        """Who acts on each image."""
        return self.loader.publisher

    def current_image(self) -> MetadataImage:
        """The newest image whose topics have their partitions on this broker."""
        return self.loader.image


class Deciding:
    """How this broker stands for election, and what it decides once it is elected."""

    def __init__(
        self,
        settings: BrokerSettings,
        environment: Environment,
        metadata: Metadata,
        *,
        others_reach: Callable[[], Coroutine[Any, Any, bool]] | None = None,
        log_ends: "LogEnds | None" = None,
    ) -> None:
        """`others_reach` and `log_ends` ask other brokers, of `StoreOutage` and `Controller`; None where there are
        none.
        """
        rng, clock, timer, tasks = environment.rng, environment.clock, environment.timer, environment.tasks
        self.outage = StoreOutage(
            metadata.probe.trouble, clock=clock, timer=timer, tasks=tasks, others_reach=others_reach
        )
        self.controller = Controller(
            metadata.store,
            metadata.loader,
            settings,
            rng,
            tasks,
            clock=clock,
            timer=timer,
            outage=self.outage,
            log_ends=log_ends,
        )
        self.lifecycle = BrokerLifecycle(
            metadata.store, metadata.loader, self.controller, rng=rng, timer=timer, tasks=tasks
        )
