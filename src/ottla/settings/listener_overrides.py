"""Settings for one listener alone: `listener.name.NAME.` before the name of a setting (KIP-103, KIP-226).

listener.name.external.ssl.keystore.location=/etc/ottla/external.pem
              |        `- the setting
              `- the listener, in lower case
listener.name.external.scram-sha-512.sasl.jaas.config=...
                       `- a mechanism, for settings of SASL
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.settings.definition import InvalidSettingError, SettingDefinition, SettingTable, shortened
from ottla.settings.value import SettingValue

PREFIX: Final = "listener.name."
OVERRIDABLE: Final = ("ssl.", "sasl.", "connections.max.reauth.ms")
"""How settings begin that a listener may have of its own."""

_OF_A_MECHANISM: Final = "sasl."


class ListenerOverride(Struct, frozen=True):
    """The parts of such a name."""

    listener: str
    """In upper case, as in `listeners`."""
    mechanism: str | None
    setting: str


def parse_override(name: str) -> ListenerOverride | None:
    """The parts of a name; None for one that does not begin with `listener.name.`. Raises InvalidSettingError.

    >>> parse_override("listener.name.external.ssl.keystore.type")
    ListenerOverride(listener='EXTERNAL', mechanism=None, setting='ssl.keystore.type')
    >>> parse_override("listener.name.a.plain.sasl.jaas.config").mechanism
    'plain'
    """
    if not name.startswith(PREFIX):
        return None
    listener, _, rest = name[len(PREFIX) :].partition(".")
    if listener != listener.lower():
        raise InvalidSettingError(f"{shortened(name)}: the name of the listener is written in lower case here")
    mechanism, dot, of_mechanism = rest.partition(".")
    if dot and not rest.startswith(OVERRIDABLE) and of_mechanism.startswith(_OF_A_MECHANISM):
        return ListenerOverride(listener.upper(), mechanism, of_mechanism)
    if not (listener and rest.startswith(OVERRIDABLE)):
        raise InvalidSettingError(
            f"{shortened(name)} cannot be set for one listener: it is for settings that begin with ssl. or sasl."
        )
    return ListenerOverride(listener.upper(), None, rest)


def definition_of(name: str, table: SettingTable) -> SettingDefinition | None:
    """The setting of a table with this name, which may be that of a setting for one listener. None for an unknown one.

    Raises InvalidSettingError for a name of a listener's that cannot be.
    """
    known = table.get(name)
    if known is not None:
        return known
    override = parse_override(name)
    known = None if override is None else table.get(override.setting)
    return None if known is None else replace(known, name=name)


def value_for_listener(
    values: Mapping[str, SettingValue], listener: str, setting: str, mechanism: str | None = None
) -> SettingValue:
    """What holds for a listener: its own value for the mechanism, its own, the one for all listeners."""
    own = f"{PREFIX}{listener.lower()}."
    for prefix in (own, "") if mechanism is None else (f"{own}{mechanism.lower()}.", own, ""):
        if prefix + setting in values:
            return values[prefix + setting]
    raise KeyError(setting)
