"""What of a broker agrees on the metadata: a store on disk, the images, the controller, and its life in the cluster."""

import asyncio
from pathlib import Path

from ottla.metadata.broker_lifecycle import BrokerLifecycle
from ottla.metadata.controller.controller import Controller
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.registration import BrokerRegistration
from ottla.metadata.store.embedded import EmbeddedStore
from ottla.runtime.clock import SystemClock
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.settings.broker_settings import BrokerSettings


class MetadataBroker:
    """The parts as the server wires them."""

    def __init__(self, directory: Path, settings: BrokerSettings, rng: Rng, tasks: Tasks) -> None:
        self.store = EmbeddedStore(directory)
        self.loader = MetadataLoader(self.store, tasks)
        clock = SystemClock()
        self.timer = Timer(clock, asyncio.get_running_loop().call_later)
        self.controller = Controller(self.store, self.loader, settings, rng, tasks, clock=clock, timer=self.timer)
        self.lifecycle = BrokerLifecycle(
            self.store, self.loader, self.controller, rng=rng, timer=self.timer, tasks=tasks
        )
        self.broker_id = settings.node_id
        self.rack = settings.text("broker.rack")

    async def start(self) -> None:
        """Register it and make it the controller."""
        await self.lifecycle.open()
        registration = BrokerRegistration(
            host=None,
            port=9092,
            rack=self.rack,
            directories=(f"directory of {self.broker_id}",),
        )
        await self.lifecycle.start(self.broker_id, registration)
        self.lifecycle.follow()

    def stand_still(self) -> None:
        """Have it hear nothing of the store any more, as a process that is paused: it does not know what it lost."""
        self.lifecycle._is_closed = True
        self.lifecycle._resign = lambda: None  # type: ignore[method-assign]

    async def close(self) -> None:
        """End its session."""
        await self.lifecycle.close()
