"""The settings of a group that hold: its own, within the broker's bounds, else the broker's, else the default."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError
from ottla.settings.group_table import GROUP_BOUNDS, GROUP_SETTINGS
from ottla.settings.value import SettingValue, format_value

_TIMES: Final = ("consumer", "streams", "share")


class GroupSettings(Struct, frozen=True, eq=False):
    """What holds for one group, with types."""

    values: Mapping[str, SettingValue]

    def integer(self, name: str) -> int:
        """The value of an INT setting, such as `consumer.session.timeout.ms`."""
        value = self.values[name]
        assert isinstance(value, int), name
        return value

    def boolean(self, name: str) -> bool:
        """The value of a BOOLEAN setting."""
        value = self.values[name]
        assert isinstance(value, bool), name
        return value

    def text(self, name: str) -> str:
        """The value of a STRING setting."""
        value = self.values[name]
        assert isinstance(value, str), name
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """The value of a LIST setting."""
        value = self.values[name]
        assert isinstance(value, tuple), name
        return value

    def as_text(self, name: str) -> str | None:
        """A value as it is described."""
        return format_value(self.values[name])


def group_settings(own: Mapping[str, str], broker: BrokerSettings) -> GroupSettings:
    """What holds for a group that sets `own`.

    A value that has come to lie outside of the broker's bounds since it was set counts as the bound it is beyond; one
    that a later release left is passed over.
    """
    values: dict[str, SettingValue] = {}
    for name, definition in GROUP_SETTINGS.items():
        bounds = GROUP_BOUNDS.get(name)
        value: SettingValue = definition.default_value if bounds is None else broker[bounds.default]
        if name in own:
            try:
                value = definition.parse(own[name])
            except InvalidSettingError:
                values[name] = value
                continue
            if bounds is not None:
                assert isinstance(value, int)
                low, high = _range(name, broker)
                value = max(low, min(value, high))
        values[name] = value
    return GroupSettings(values)


def require_valid_group_settings(own: Mapping[str, str], broker: BrokerSettings) -> None:
    """Refuse settings of one group that the broker's bounds do not allow, or that contradict each other.

    Raises InvalidSettingError with the first of them.
    """
    for name, text in own.items():
        if name not in GROUP_BOUNDS or name not in GROUP_SETTINGS:
            continue
        value = GROUP_SETTINGS[name].parse(text)
        assert isinstance(value, int)
        low, high = _range(name, broker)
        bounds = GROUP_BOUNDS[name]
        if value < low:
            raise InvalidSettingError(f"{name}={value} must be greater than or equal to {bounds.low}, which is {low}")
        if value > high:
            raise InvalidSettingError(f"{name}={value} must be less than or equal to {bounds.high}, which is {high}")
    settings = group_settings(own, broker)
    for kind in _TIMES:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if (session in own or heartbeat in own) and settings.integer(session) <= settings.integer(heartbeat):
            raise InvalidSettingError(
                f"{session}={settings.integer(session)} must be above {heartbeat}={settings.integer(heartbeat)}"
            )


def _range(name: str, broker: BrokerSettings) -> tuple[int, int]:
    bounds = GROUP_BOUNDS[name]
    low = 0 if bounds.low is None else broker.integer(bounds.low)
    high = 2**31 - 1 if bounds.high is None else broker.integer(bounds.high)
    return low, high
