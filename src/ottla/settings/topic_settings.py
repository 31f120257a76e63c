"""The settings of a topic that hold: its own, else the broker's under one of their synonyms, else the default."""

from collections.abc import Mapping
from typing import Final

from ottla.settings.definition import InvalidSettingError
from ottla.settings.topic_table import BROKER_SYNONYMS, TOPIC_SETTINGS
from ottla.settings.value import SettingValue

MIN_ISR: Final = "min.insync.replicas"
DELIVER_TO: Final = "ottla.deliver.to"
REDIS_KEY: Final = "redis.key"
DELIVER_DELAY_MS: Final = "ottla.deliver.delay.ms"
RETENTION_MS: Final = "retention.ms"
"""Brokers may say "for ever" by any negative number, topics only by -1."""


def require_consistent_topic_settings(own: Mapping[str, str]) -> None:
    """Refuse settings of one topic that contradict each other. Raises InvalidSettingError."""
    lags = [
        int(own.get(name) or TOPIC_SETTINGS[name].default or 0)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    ]
    if lags[0] > lags[1]:
        raise InvalidSettingError(f"conflict: min.compaction.lag.ms ({lags[0]}) > max.compaction.lag.ms ({lags[1]})")
    if own.get(DELIVER_TO) and "compact" in (own.get("cleanup.policy") or ""):
        raise InvalidSettingError(
            f"conflict: {DELIVER_TO}={own[DELIVER_TO]} with cleanup.policy={own['cleanup.policy']}: compaction would "
            "remove records that wait; take compact out of cleanup.policy"
        )
    if own.get(REDIS_KEY):
        for name in ("ottla.ttl.header", "ottla.ttl.ms"):
            if own.get(name, TOPIC_SETTINGS[name].default) != TOPIC_SETTINGS[name].default:
                raise InvalidSettingError(
                    f"conflict: {name}={own[name]} with {REDIS_KEY}={own[REDIS_KEY]}: entries of streams have no time "
                    "to live; use XADD or XTRIM with MINID"
                )


def topic_default(name: str, broker_settings: Mapping[str, str]) -> str:
    """The value of a topic setting that the topic does not set itself.

    `broker_settings` holds what is set on the broker, in whatever way, without the defaults.
    """
    for synonym in BROKER_SYNONYMS[name]:
        text = broker_settings.get(synonym.name)
        if text is not None:
            return _scaled(name, text, synonym.factor)
    default = TOPIC_SETTINGS[name].default
    assert default is not None
    return default


def effective_topic_settings(own: Mapping[str, str], broker_settings: Mapping[str, str]) -> dict[str, str]:
    """Every topic setting with the value that holds, as text, sorted by name."""
    return {name: own[name] if name in own else topic_default(name, broker_settings) for name in TOPIC_SETTINGS}


def typed_topic_settings(effective: Mapping[str, str]) -> dict[str, SettingValue]:
    """The same with types."""
    return {name: TOPIC_SETTINGS[name].parse(text) for name, text in effective.items()}


def _scaled(name: str, text: str, factor: int) -> str:
    if factor == 1 and name != RETENTION_MS:
        return text
    number = int(text)
    return str(number * factor if number >= 0 else -1)
