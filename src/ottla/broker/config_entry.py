"""What a setting is described by: its value, and where the value comes from."""

from enum import IntEnum

from ottla.model.lazy_dataclass import dataclass
from ottla.settings.value import SettingType


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs (KIP-226)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_ALL_BROKERS = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value that holds, or would hold if those before it were not set."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting of a resource. The first of the synonyms is the one that holds."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    type: SettingType
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]
