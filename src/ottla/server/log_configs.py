"""What the settings of topics ask of their partitions, made once for all topics that set the same things.

Making it takes a tenth of a millisecond, so that a default of the broker that changes under ten thousand topics would
hold the event loop for a second.
"""

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ottla.broker.configs import ConfigService
from ottla.metadata.image.image import MetadataImage, topic_resource
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_config import LogConfig

if TYPE_CHECKING:
    from ottla.replication.replication_quota import ThrottledReplicas

CONFIGS_MAX: Final = 256
"""How many different ones are kept: thousands of topics usually set the same few things."""


class TopicConfig(Struct, frozen=True):
    """What holds for the partitions of a topic."""

    log: LogConfig
    min_insync_replicas: int
    leader_throttled: "ThrottledReplicas | None" = None
    """The replicas whose followers keep to a rate; None for none."""
    follower_throttled: "ThrottledReplicas | None" = None
    """The replicas that do when they copy."""


class LogConfigs:
    """Belongs to the event loop."""

    __slots__ = ("_configs", "_flush_before_ack", "_made", "_made_for")

    def __init__(self, configs: ConfigService, *, flush_before_ack: bool) -> None:
        self._configs = configs
        self._flush_before_ack = flush_before_ack
        self._made: dict[frozenset[tuple[str, str]], TopicConfig] = {}
        self._made_for: BrokerSettings | None = None

    def of(self, topic: str, image: MetadataImage) -> TopicConfig:
        """What holds for a topic in an image."""
        broker = self._configs.broker_settings(image)
        if broker is not self._made_for or len(self._made) >= CONFIGS_MAX:
            self._made.clear()
            self._made_for = broker
        key = frozenset(image.config(topic_resource(topic)).items())
        made = self._made.get(key)
        if made is None:
            settings = self._configs.topic_settings(topic, image)
            log = LogConfig.from_settings(
                settings,
                flush_before_ack=self._flush_before_ack,
                producer_id_expiration_ms=broker.integer("producer.id.expiration.ms"),
            )
            made = self._made[key] = TopicConfig(
                log,
                int(settings["min.insync.replicas"]),
                _throttled(settings["leader.replication.throttled.replicas"]),
                _throttled(settings["follower.replication.throttled.replicas"]),
            )
        return made


def _throttled(text: str) -> "ThrottledReplicas | None":
    if not text:
        return None
    from ottla.replication.replication_quota import ThrottledReplicas  # late: nearly no topic has any

    return ThrottledReplicas(item.strip() for item in text.split(","))
