"""Which topic a key has in the cluster, and which broker leads it, as the metadata say.

key --> the topic of its name, if that one's setting `redis.key` is the key            the common case
    --> the topic that has the key in its setting: it has another name, or was renamed  an index over all settings
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.metadata.image.image import NO_LEADER, ConfigResourceType, topic_resource
from ottla.model import redis_key
from ottla.settings.topic_settings import REDIS_KEY

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


Place = tuple[int, bytes]
"""Database and key."""

COPIES: Final = 999_999_999
"""The database of the keys that topics have in their settings while a copy is made that takes another stream's place.
There is no such database, so nobody sees them.
"""


class ElsewhereError(Exception):
    """A command needs a key that another broker leads; NO_LEADER where nobody does at the moment."""

    def __init__(self, place: Place, leader: int) -> None:
        super().__init__("another broker leads a key")
        self.place = place
        self.leader = leader


class Placement:
    """Belongs to the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.own_id = broker.config.node_id
        self.has_peers = broker.redis_exchange.remote is not None
        """Whether there may be other brokers."""
        self._configs: object = None
        self._topics: dict[Place, str] = {}

    def key_of(self, topic: str) -> Place | None:
        """The key that a topic was made for, or has since; None for a topic that is no stream."""
        setting = self._broker.image.config(topic_resource(topic)).get(REDIS_KEY, "")
        return redis_key.key_of_setting(setting) if setting else None

    def topic_of(self, place: Place) -> str | None:
        """The topic of a key; None where the key is not known."""
        name = redis_key.topic_of_key(*place)
        if self.key_of(name) == place and self._broker.image.topic(name) is not None:
            return name
        return self.topics.get(place)

    @property
    def topics(self) -> dict[Place, str]:
        """The topics of all keys."""
        image = self._broker.image
        if image.configs is not self._configs:
            self._configs = image.configs
            found: dict[Place, str] = {}
            for resource, settings in image.configs.items():
                if resource.type is ConfigResourceType.TOPIC and REDIS_KEY in settings:
                    place = redis_key.key_of_setting(settings[REDIS_KEY])
                    if place is not None:
                        found[place] = resource.name
            self._topics = found
        return self._topics

    def another_topic_of(self, place: Place, known: set[str]) -> str | None:
        """A topic of a key that is none of those."""
        for resource, settings in self._broker.image.configs.items():
            is_topic = resource.type is ConfigResourceType.TOPIC and resource.name not in known
            if is_topic and redis_key.key_of_setting(settings.get(REDIS_KEY, "")) == place:
                return resource.name
        return None

    def leader_of(self, topic: str) -> int:
        """The broker that leads a topic; NO_LEADER for nobody."""
        partition = self._broker.image.partition(topic, 0)
        return NO_LEADER if partition is None else partition.leader

    def in_sync_of(self, topic: str) -> int:
        """How many replicas have all of a topic that was answered."""
        partition = self._broker.image.partition(topic, 0)
        return 0 if partition is None else len(partition.isr)

    def owner_of(self, place: Place) -> int | None:
        """The broker that leads the topic of a key; None for a key that has no topic."""
        topic = self.topic_of(place)
        return None if topic is None else self.leader_of(topic)

    def led_here(self) -> Iterator[tuple[Place, str]]:
        """The keys whose topics this broker leads."""
        for place, topic in self.topics.items():
            if self.leader_of(topic) == self.own_id:
                yield place, topic

    @property
    def others(self) -> list[int]:
        """The other brokers that may lead."""
        return sorted(self._broker.image.active_brokers() - {self.own_id})
