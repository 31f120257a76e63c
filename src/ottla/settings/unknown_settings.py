"""What to tell somebody who names a setting that is not there.

Strangers may send as many names as fit a request: what a hint costs does not grow with the number of settings.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from ottla.settings.broker_table import ALIASES, BROKER_SETTINGS
from ottla.settings.definition import shortened
from ottla.settings.foreign_settings import ignored_reason, refused_reason
from ottla.settings.similar_names import SimilarNames
from ottla.settings.topic_table import BROKER_SYNONYMS, TOPIC_SETTINGS

_UNKNOWN_TOPIC: Final = "Unknown topic config name"
"""In Kafka's words: people search for them."""

_LOOK_IT_UP: Final = "take it out, or find the right name in docs/settings.md"

_TOPIC_SETTING_OF: Final[Mapping[str, str]] = MappingProxyType(
    {synonym.name: name for name, synonyms in BROKER_SYNONYMS.items() for synonym in synonyms}
)
"""The topic setting that a broker setting is the default of."""


def unknown_topic_setting(name: str) -> str:
    """Why `name` cannot be set on a topic, and what to do instead."""
    topic_setting = _TOPIC_SETTING_OF.get(name)
    if topic_setting is not None:
        return f"{_UNKNOWN_TOPIC}: {name} is a setting of brokers: on a topic, set {topic_setting}"
    if name in BROKER_SETTINGS:
        return f"{_UNKNOWN_TOPIC}: {name} is a setting of brokers, topics have none of their own: take it out"
    return f"{_UNKNOWN_TOPIC}: {shortened(name)}: {_hint(name, 'topic')}"


def unknown_broker_setting(name: str) -> str:
    """Why `name` cannot be set on a broker, and what to do instead."""
    synonyms = BROKER_SYNONYMS.get(name)
    if synonyms == ():
        return f"{name} is a setting of topics, brokers have none of their own: take it out"
    if synonyms is not None:
        return f"{name} is a setting of topics: on a broker, set {synonyms[0].name}"
    reason = refused_reason(name)
    if reason is not None:
        return f"{name} is not supported: {reason}; take it out"
    reason = ignored_reason(name, "")
    if reason is not None:
        return f"{name} would change nothing: {reason}; take it out"
    if name in ALIASES:
        return f"{name} is the old name of {ALIASES[name]}"
    return f"Unknown broker config name: {shortened(name)}: {_hint(name, 'broker')}"


@cache
def _names(kind: str) -> SimilarNames:
    """The names of a kind, made when somebody first makes a mistake."""
    return SimilarNames(TOPIC_SETTINGS if kind == "topic" else BROKER_SETTINGS)


def _hint(name: str, kind: str) -> str:
    similar = _names(kind).similar(name)
    return f"did you mean {similar}?" if similar is not None else _LOOK_IT_UP
