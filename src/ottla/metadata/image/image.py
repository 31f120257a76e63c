"""The image: everything the cluster agrees on, as one immutable value.

Images share what did not change. A new topic copies the two dictionaries of topics, which Python does in 2 ns an entry
(40 us at 10,000 topics), far below the disk write that made the topic durable; everything inside is shared.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import Struct, field

from ottla.metadata.features import FEATURES
from ottla.metadata.records import PartitionState
from ottla.model.acl import AclBinding
from ottla.model.delegation_token import DelegationToken
from ottla.model.quota_entity import QuotaEntity
from ottla.model.scram_credential import ScramCredential
from ottla.model.topic_name import is_internal_topic

NO_LEADER: Final = -1


class ConfigResourceType(IntEnum):
    """What settings belong to; the numbers are those of DescribeConfigs and AlterConfigs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


SETTINGS_OF_NAMES: Final = frozenset({ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS})
"""The types of resources that are there as soon as something is set for their name: groups, which come to be later or
never, and subscriptions to metrics of clients, which are nothing but their settings."""


class ConfigResource(NamedTuple):
    """A topic by name, a broker by its number, or, with the name "", all brokers."""

    type: ConfigResourceType
    name: str


def topic_resource(name: str) -> ConfigResource:
    """The resource of a topic's settings."""
    return ConfigResource(ConfigResourceType.TOPIC, name)


ALL_BROKERS: Final = ConfigResource(ConfigResourceType.BROKER, "")
"""The resource of settings that hold for every broker."""


class BrokerImage(Struct, frozen=True):
    """A broker of the cluster. A host of None means the address by which each client reached it."""

    broker_id: int
    broker_epoch: int
    host: str | None
    port: int
    rack: str | None
    endpoints: Mapping[str, tuple[str, int]] = MappingProxyType({})
    """The address of each listener, by its name."""
    incarnation: str = ""
    directories: tuple[str, ...] = ()
    flush: bool = True
    """Whether it flushes before it acknowledges; what it left unclean is whole only then."""
    fenced: bool = False
    """Whether it is out of reach: it leads nothing, is in no ISR, and clients are not told of it."""
    shutting_down: bool = False
    """Whether it gives its leaderships away and is given none."""
    offline: tuple[UUID, ...] = ()
    """Those of its log directories that failed."""

    @property
    def is_active(self) -> bool:
        """Whether it may lead and join an ISR."""
        return not (self.fenced or self.shutting_down)


class PartitionImage(Struct, frozen=True):
    """Who holds a partition; a leader of -1 means that it has none at the moment."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment adds; they are in `replicas` too, as are those that it is `removing`."""
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    """Replicas that are not in sync and have everything committed nevertheless (KIP-966)."""
    last_known_leader: int = NO_LEADER
    """Who led last, while nobody leads."""

    @classmethod
    def from_state(cls, index: int, state: PartitionState) -> "PartitionImage":
        """The partition of a record."""
        return cls(index, *state)

    @property
    def state(self) -> PartitionState:
        """The partition as a record has it."""
        return PartitionState(
            self.leader,
            self.leader_epoch,
            self.replicas,
            self.isr,
            self.partition_epoch,
            self.adding,
            self.removing,
            self.elr,
            self.last_known_leader,
        )

    @property
    def is_reassigned(self) -> bool:
        """Whether it is on its way to other brokers."""
        return bool(self.adding or self.removing)


class TopicImage(Struct, frozen=True, eq=False, weakref=True):
    """A topic. Compared by identity: the same object means that nothing of it changed."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]

    @property
    def is_internal(self) -> bool:
        """Whether it holds a coordinator's state."""
        return is_internal_topic(self.name)

    @property
    def replication_factor(self) -> int:
        """How many replicas the first partition has, or is to have when it is where it is moved."""
        first = self.partitions[0]
        return len(first.replicas) - len(first.removing)

    def __repr__(self) -> str:
        """Short: a topic may have thousands of partitions."""
        return f"TopicImage({self.name!r}, {self.topic_id}, {len(self.partitions)} partitions)"


_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


class MetadataImage(Struct, frozen=True, eq=False):
    """The metadata after `end_offset` records. Two images are compared by identity; read it from any thread."""

    cluster_id: str
    end_offset: int = 0
    """The offset of the first record that is not in the image."""
    controller_id: int = -1
    controller_epoch: int = 0
    next_producer_id: int = 0
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics_by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    replica_counts: Mapping[int, int] = field(default_factory=dict)
    """How many replicas each broker holds."""
    feature_levels: Mapping[str, int] = field(default_factory=dict)
    """The features of which a level was finalized; see `feature_level`."""
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    """Quotas by key, of the entities that have any."""
    replica_directories: Mapping[UUID, Mapping[tuple[int, int], UUID]] = field(default_factory=dict)
    """By topic, the data directory of each replica (partition, broker) whose broker has several."""
    acls: Mapping[AclBinding, None] = field(default_factory=dict)
    """The ACLs, in the order in which they came."""
    scram_credentials: Mapping[str, Mapping[int, ScramCredential]] = field(default_factory=dict)
    """By user, what passwords are checked against, by mechanism (`SCRAM_TYPES`)."""
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    """The delegation tokens by their ids."""

    def live_brokers(self) -> dict[int, BrokerImage]:
        """The brokers that clients are told of: those that are not fenced."""
        return {broker_id: broker for broker_id, broker in self.brokers.items() if not broker.fenced}

    def active_brokers(self) -> frozenset[int]:
        """The brokers that may lead: neither fenced nor shutting down."""
        return frozenset(broker_id for broker_id, broker in self.brokers.items() if broker.is_active)

    def topic(self, name: str) -> TopicImage | None:
        """The topic of that name, or None."""
        return self.topics_by_name.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        """The topic of that id, or None."""
        return self.topics_by_id.get(topic_id)

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        """The partition, or None."""
        image = self.topics_by_name.get(topic)
        if image is None or not 0 <= index < len(image.partitions):
            return None
        return image.partitions[index]

    def replica_directory(self, topic_id: UUID, index: int, broker_id: int) -> UUID | None:
        """The data directory in which a broker has its replica of a partition, if it has said so."""
        places = self.replica_directories.get(topic_id)
        return None if places is None else places.get((index, broker_id))

    def unusable_on(self, topic_id: UUID, index: int) -> frozenset[int]:
        """The brokers whose replica of a partition lies in a log directory that failed."""
        return frozenset(
            broker_id for broker_id, broker in self.brokers.items() if self.is_offline_on(broker, topic_id, index)
        )

    def is_offline_on(self, broker: BrokerImage, topic_id: UUID, index: int) -> bool:
        """Whether a broker's replica of a partition lies in a log directory that failed."""
        return bool(broker.offline) and self.replica_directory(topic_id, index, broker.broker_id) in broker.offline

    def topics(self) -> Iterator[TopicImage]:
        """All topics, sorted by name."""
        for name in sorted(self.topics_by_name):
            yield self.topics_by_name[name]

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """What a resource sets itself."""
        return self.configs.get(resource, _NO_SETTINGS)

    def feature_level(self, name: str) -> int:
        """The level of a feature that holds: what was finalized, within what this release serves, or its newest."""
        feature = FEATURES[name]
        return min(self.feature_levels.get(name, feature.default_level), feature.max_level)

    def broker_config(self, broker_id: int) -> dict[str, str]:
        """What was set on a broker while it ran: its own settings over those of all brokers."""
        own = self.config(ConfigResource(ConfigResourceType.BROKER, str(broker_id)))
        return {**self.config(ALL_BROKERS), **own}

    @property
    def partition_count(self) -> int:
        """How many partitions all topics have together."""
        return sum(len(topic.partitions) for topic in self.topics_by_id.values())
