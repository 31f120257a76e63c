"""What of a broker agrees on the metadata: a store on disk, the images, the controller, and its life in the cluster."""

from pathlib import Path

from ottla.metadata.broker_lifecycle import BrokerAddress, BrokerLifecycle
from ottla.metadata.controller.controller import Controller
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.store.embedded import EmbeddedStore
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.settings.broker_settings import BrokerSettings


class MetadataBroker:
    """The parts as the server wires them."""

    def __init__(self, directory: Path, settings: BrokerSettings, rng: Rng, tasks: Tasks) -> None:
        self.store = EmbeddedStore(directory)
        self.loader = MetadataLoader(self.store, tasks)
        self.controller = Controller(self.store, self.loader, settings, rng, tasks)
        self.lifecycle = BrokerLifecycle(settings, self.store, self.loader, self.controller, rng)

    async def start(self) -> None:
        """Register it and make it the controller."""
        await self.lifecycle.start(BrokerAddress(None, 9092))

    async def close(self) -> None:
        """End its session."""
        await self.lifecycle.close()
