"""What a setting is described by: its value, and where the value comes from."""

from enum import IntEnum

from msgspec import Struct

from ottla.settings.value import SettingType


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs (KIP-226)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_ALL_BROKERS = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigSynonym(Struct, frozen=True):
    """A value that holds, or would hold if those before it were not set."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(Struct, frozen=True):
    """A setting of a resource. The first of the synonyms is the one that holds."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    type: SettingType
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is shown to nobody."""
        return self.type is SettingType.PASSWORD
