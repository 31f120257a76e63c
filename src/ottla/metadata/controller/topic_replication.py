"""What settings say of replication: the topic's own, else what is set on all brokers, else the default."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.metadata.image.image import ALL_BROKERS, MetadataImage, topic_resource
from ottla.metadata.records import ConfigRecord, MetadataRecord
from ottla.settings.topic_settings import MIN_ISR, topic_default
from ottla.settings.topic_table import BROKER_SYNONYMS

UNCLEAN: Final = "unclean.leader.election.enable"

SETTINGS: Final = frozenset({MIN_ISR, UNCLEAN}) | {
    synonym.name for name in (MIN_ISR, UNCLEAN) for synonym in BROKER_SYNONYMS[name]
}
"""The settings of topics and brokers that decide about replication."""


class ReplicationRule(NamedTuple):
    """`min.insync.replicas` and `unclean.leader.election.enable` of one topic."""

    min_isr: int
    may_lose_records: bool


class ReplicationRules:
    """The rule of each topic of an image. `broker_settings` is what the brokers were started with."""

    def __init__(self, image: MetadataImage, broker_settings: Mapping[str, str]) -> None:
        self._image = image
        inherited = {**broker_settings, **image.config(ALL_BROKERS)}
        self._inherited = {name: topic_default(name, inherited) for name in (MIN_ISR, UNCLEAN)}
        self._rule = _rule(self._inherited)

    def of(self, topic: str) -> ReplicationRule:
        """The rule of a topic."""
        own = self._image.config(topic_resource(topic))
        if MIN_ISR not in own and UNCLEAN not in own:
            return self._rule
        return _rule({**self._inherited, **own})


def changes_replication(records: Sequence[MetadataRecord]) -> bool:
    """Whether a setting changes that decides about replication."""
    return any(isinstance(record, ConfigRecord) and record.key in SETTINGS for record in records)


def _rule(settings: Mapping[str, str]) -> ReplicationRule:
    return ReplicationRule(int(settings[MIN_ISR]), settings[UNCLEAN].strip().lower() == "true")
