"""The life of this broker in its cluster: from the open store to the end of its session.

    open the store --> register: session, broker epoch --> elect --> load the metadata --> take over --> ... --> close

The election comes before the load: from then on nobody else appends, so what is loaded is all there is to decide on.
follows the log, and sends what is to be decided to the controller it finds there.
"""

import json

from msgspec import Struct

from ottla.metadata.controller.controller import Controller
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import topic_id_text
from ottla.metadata.store.interface import MetadataStore
from ottla.runtime.rng import Rng
from ottla.settings.broker_settings import BrokerSettings


class BrokerAddress(Struct, frozen=True):
    """Where clients find this broker. A host of None means: at the address by which each of them came."""

    host: str | None
    port: int


class BrokerLifecycle:
    """Starts once and closes once. Belongs to the event loop."""

    def __init__(
        self, settings: BrokerSettings, store: MetadataStore, loader: MetadataLoader, controller: Controller, rng: Rng
    ) -> None:
        self._settings = settings
        self._store = store
        self._loader = loader
        self._controller = controller
        self._rng = rng

    async def start(self, address: BrokerAddress) -> MetadataImage:
        """Open the store, register this broker, become the controller; returns the image with this broker in it.

        Raises StoreError, and InvalidInputError when the stored metadata is damaged.
        """
        cluster_id = await self._store.open(topic_id_text(self._rng.uuid()))
        registration = {"host": address.host, "port": address.port, "rack": self._settings.text("broker.rack")}
        session = await self._store.register_broker(self._settings.node_id, json.dumps(registration).encode())
        newest = await self._store.controller()
        epoch = await self._store.elect(session, seen_epoch=newest.epoch)
        await self._loader.load(cluster_id)
        await self._controller.take_over(session.broker_id, epoch)
        return self._loader.image

    async def close(self) -> None:
        """End the session. What waits for a decision is told that this broker is no longer the controller."""
        self._controller.resign()
        await self._store.close()
