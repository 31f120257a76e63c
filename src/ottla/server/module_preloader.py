"""What a broker reads from its files only when somebody may need it, and then before anybody waits for it.

                                  read a while after the start, or as soon as it is so
    everywhere                    APIs of producers and consumers
    there are committed offsets   groups: their APIs, their shards
    there are transactions        the same of them
    there may be other brokers    APIs that brokers ask each other for

All the others, of administrators and of rare clients, are read when they are first asked for: a few milliseconds each.
What is here takes longer all together: it is read one file in a turn of the event loop, which serves others meanwhile.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from ottla.gateways.kafka.api_table import ApiTable
from ottla.groups.group_kind import MODULES_READ_LATER
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import MetadataImage
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.protocol.api_keys import ApiKey
from ottla.runtime import garbage
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

READ_AFTER_MS: Final = 1_000
"""When what the first clients did not need is read: after they have been served."""


class Part(Struct, frozen=True):
    """What is needed together: APIs, and modules, those below first."""

    apis: tuple[ApiKey, ...]
    modules: tuple[str, ...] = ()


OF_CLIENTS: Final = Part(
    (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
    )
)
OF_BROKERS: Final = Part(
    (
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    )
)
OF_TOPICS: Final[Mapping[str, Part]] = MappingProxyType(
    {
        CONSUMER_OFFSETS_TOPIC: Part(
            (
                ApiKey.OFFSET_COMMIT,
                ApiKey.OFFSET_FETCH,
                ApiKey.JOIN_GROUP,
                ApiKey.HEARTBEAT,
                ApiKey.LEAVE_GROUP,
                ApiKey.SYNC_GROUP,
                ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ),
            (
                "ottla.coordination.shard_runner",
                "ottla.groups.classic_group",
                "ottla.groups.joining",
                "ottla.groups.group_shard",
                *MODULES_READ_LATER,
            ),
        ),
        TRANSACTION_STATE_TOPIC: Part(
            (
                ApiKey.ADD_PARTITIONS_TO_TXN,
                ApiKey.ADD_OFFSETS_TO_TXN,
                ApiKey.END_TXN,
                ApiKey.WRITE_TXN_MARKERS,
                ApiKey.TXN_OFFSET_COMMIT,
            ),
            ("ottla.coordination.shard_runner", "ottla.transactions.transaction_shard"),
        ),
        SHARE_GROUP_STATE_TOPIC: Part(
            (
                ApiKey.SHARE_GROUP_HEARTBEAT,
                ApiKey.SHARE_FETCH,
                ApiKey.SHARE_ACKNOWLEDGE,
                ApiKey.INITIALIZE_SHARE_GROUP_STATE,
                ApiKey.READ_SHARE_GROUP_STATE,
                ApiKey.WRITE_SHARE_GROUP_STATE,
                ApiKey.DELETE_SHARE_GROUP_STATE,
                ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
                ApiKey.SHARE_READS,
            ),
            ("ottla.coordination.shard_runner", "ottla.groups.share.share_groups"),
        ),
    }
)
"""What is needed once the topic is there that it keeps its state in."""


class ModulePreloader:
    """Belongs to the event loop. A part is read once."""

    def __init__(self, apis: ApiTable, timer: Timer, tasks: Tasks, *, is_shared: bool) -> None:
        """`is_shared` says that there may be other brokers."""
        self._apis = apis
        self._timer = timer
        self._tasks = tasks
        self._waiting: list[Callable[[], object]] = []
        self._unread = dict(OF_TOPICS)
        self._is_reading = False
        self._is_due = False
        self._add(OF_CLIENTS)
        if is_shared:
            self._add(OF_BROKERS)

    def start(self, image: MetadataImage) -> None:
        """Begin in a while; what is in the image counts, and what is decided from now on."""
        self._look(image)
        self._timer.schedule(READ_AFTER_MS, self._begin)

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Whoever made the topic of a part is about to use it."""
        if self._unread and delta.touched_topics:
            self._look(image)

    def _look(self, image: MetadataImage) -> None:
        for topic in [topic for topic in self._unread if topic in image.topics_by_name]:
            self._add(self._unread.pop(topic))
        if self._is_due:
            self._begin()

    def _add(self, part: Part) -> None:
        self._waiting += [partial(self._apis.find, key) for key in part.apis]
        self._waiting += [partial(import_module, module) for module in part.modules]

    def _begin(self) -> None:
        self._is_due = True
        if self._waiting and not self._is_reading:
            self._is_reading = True
            self._tasks.spawn(self._read(), "reading what may be needed")

    async def _read(self) -> None:
        try:
            while self._waiting:
                self._waiting.pop(0)()
                await self._timer.sleep(1)
        finally:
            self._is_reading = False
        garbage.settle()
