"""What a broker can do about topics, whoever asks."""

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from ottla.broker.internal_topics import new_internal_topic
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.leader_election import ElectionOutcomes, ElectionType
from ottla.metadata.controller.partition_growth import NewPartitions
from ottla.metadata.controller.topic_creation import CreatedTopic, NewTopic
from ottla.metadata.image.image import MetadataImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import is_internal_topic
from ottla.model.topic_partition import TopicPartition
from ottla.settings.broker_settings import BrokerSettings


class TopicService:
    """Belongs to the event loop. When a method returns, what it did is durable and visible here.

    Every method raises ApiError NOT_CONTROLLER or KAFKA_STORAGE_ERROR when nothing could be decided.
    """

    __slots__ = ("_controller", "_require_writable", "_settings")

    def __init__(
        self, controller: Controller, settings: BrokerSettings, require_writable: Callable[[], None] = lambda: None
    ) -> None:
        """`require_writable` raises ApiError KAFKA_STORAGE_ERROR while no partition can be made here."""
        self._controller = controller
        self._settings = settings
        self._require_writable = require_writable

    @property
    def image(self) -> MetadataImage:
        """What the cluster has agreed on; the topics in it have their partitions on this broker."""
        return self._controller.image

    async def create(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Outcome[CreatedTopic]]:
        """Create topics; the outcome of each by its name."""
        self._require_writable()
        return await self._controller.create_topics(topics, validate_only=validate_only)

    async def delete(self, topics: Sequence[str | UUID]) -> list[Outcome[TopicImage]]:
        """Delete topics by name or id; the outcomes in the order of `topics`."""
        return await self._controller.delete_topics(topics)

    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> dict[str, Outcome[int]]:
        """Add partitions to topics; the outcome of each, its new partition count, by its name."""
        self._require_writable()
        return await self._controller.create_partitions(requests, validate_only=validate_only)

    async def elect_leaders(
        self, election: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> ElectionOutcomes:
        """Elect leaders for partitions, with None for all; why each of them keeps the one it has."""
        return await self._controller.elect_leaders(election, partitions)

    @property
    def auto_create_enabled(self) -> bool:
        """Whether a topic that a client asks for and that is not there may be created (`auto.create.topics.enable`)."""
        return self._settings.boolean("auto.create.topics.enable")

    async def auto_create(self, names: Iterable[str]) -> dict[str, Outcome[TopicImage]]:
        """Create topics with the broker's defaults, those of coordinators as they need them.

        A topic that is there already is not an error. The outcome of each is its image, or why there is none.
        """
        outcomes: dict[str, Outcome[TopicImage]] = {}
        wanted = []
        for name in dict.fromkeys(names):
            internal = new_internal_topic(name, self._settings, len(self.image.brokers))
            if internal is None and is_internal_topic(name):
                outcomes[name] = _unknown(name)
            else:
                wanted.append(internal or NewTopic(name))
        self._require_writable()
        created = await self._controller.create_topics(wanted)
        for name, outcome in created.items():
            if isinstance(outcome, ApiError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                outcomes[name] = outcome
                continue
            topic = self.image.topic(name)
            outcomes[name] = topic if topic is not None else _unknown(name)
        return outcomes

    async def ensure_internal(self, name: str) -> TopicImage:
        """The topic of a coordinator, created now if it is not there. Raises ApiError."""
        assert is_internal_topic(name), name
        topic = self.image.topic(name)
        if topic is not None:
            return topic
        outcome = (await self.auto_create([name]))[name]
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome


def _unknown(name: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
