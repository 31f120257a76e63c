"""A controller that decides about several brokers, whose sessions and heartbeats are what a test says they are."""

import json
from uuid import UUID

from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.decision import Decision
from ottla.metadata.controller.replica_assignment import new_partition
from ottla.metadata.image.image import MetadataImage, PartitionImage
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import ConfigRecord, TopicRecord
from ottla.metadata.registration import BrokerRegistration
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.settings.broker_settings import BrokerSettings
from tests.unit.metadata.memory_store import MemoryStore

OWN_ID = 1


class SeveralBrokers:
    """Broker 1 is the controller. Time passes by `timer.advance` only."""

    def __init__(self, tasks: Tasks, settings: dict[str, str] | None = None, timer: ManualTimer | None = None) -> None:
        self.timer = ManualTimer() if timer is None else timer
        self.tasks = tasks
        self.settings = BrokerSettings(settings or {})
        self.store = MemoryStore()
        self.loader = MetadataLoader(self.store, tasks)
        self.controller = self.new_controller()
        self.epochs: dict[int, int] = {}

    def new_controller(self) -> Controller:
        """Another one over the same store and image, as after a move."""
        rng = SeededRng(0)
        clock = self.timer.clock
        return Controller(self.store, self.loader, self.settings, rng, self.tasks, clock=clock, timer=self.timer)

    @property
    def image(self) -> MetadataImage:
        """What is decided by now."""
        return self.loader.image

    async def start(self, *broker_ids: int) -> "SeveralBrokers":
        """Begin sessions, have broker 1 take over, and all be heard."""
        for broker_id in broker_ids:
            await self.session(broker_id)
        await self.take_over(self.controller)
        for broker_id in broker_ids:
            await self.heartbeat(broker_id)
        return self

    async def take_over(self, controller: Controller, broker_id: int = OWN_ID) -> None:
        """Have a controller decide, of broker 1 unless another is named."""
        self.controller = controller
        newest = await self.store.controller()
        session = next(each for each in await self.store.live_brokers() if each.broker_id == broker_id)
        epoch = await self.store.elect(session, seen_epoch=newest.epoch)  # type: ignore[arg-type]
        await self.loader.catch_up()
        await controller.take_over(broker_id, epoch)

    async def session(self, broker_id: int, **said: object) -> int:
        """Begin a session, in place of the one there is; returns its epoch."""
        given = {"host": f"b{broker_id}", "port": 9092, "directories": (f"d{broker_id}",)} | said
        incarnation = f"{broker_id} for the {len(self.store.log)}th time"
        given.setdefault("incarnation", incarnation)
        registration = BrokerRegistration(**given)  # type: ignore[arg-type]
        session = await self.store.register_broker(broker_id, registration.encode())
        self.epochs[broker_id] = session.broker_epoch
        return session.broker_epoch

    async def end_session(self, broker_id: int) -> None:
        """End it, and let the controller hear."""
        del self.store._sessions[broker_id]
        await self.controller.brokers_changed()

    async def heartbeat(self, broker_id: int, offset: int | None = None, **wants):
        """Say that a broker lives, and has read the metadata to its end unless an offset is given."""
        offset = self.image.end_offset if offset is None else offset
        return await self.controller.heartbeat(broker_id, self.epochs[broker_id], offset, **wants)

    async def topic(self, name: str, *replicas: tuple[int, ...], **configs: str) -> None:
        """Have a topic whose partitions have these replicas, the live ones in sync."""
        active = self.image.active_brokers()
        record = TopicRecord(
            name, UUID(int=len(self.store.log)), tuple(new_partition(each, active) for each in replicas)
        )
        settings = tuple(ConfigRecord(2, name, key.replace("_", "."), value) for key, value in configs.items())
        await self.controller.decide(lambda _image: Decision((record, *settings), None))

    def partition(self, name: str, index: int = 0) -> PartitionImage:
        """As it is now."""
        partition = self.image.partition(name, index)
        assert partition is not None
        return partition

    def stored(self) -> list[list[object]]:
        """The records of the log."""
        return [json.loads(record) for record in self.store.log]

    def live(self) -> set[int]:
        """The brokers that clients are told of."""
        return set(self.image.live_brokers())
