"""How the tables of a broker's settings write down one of them, in a line or a few."""

from ottla.settings.definition import Importance, SettingDefinition, UpdateMode
from ottla.settings.validators import Validator
from ottla.settings.value import SettingType


def broker_setting(
    name: str,
    kind: SettingType,
    default: str | None,
    validator: Validator | None,
    importance: Importance,
    documentation: str,
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
    no_effect: str | None = None,
) -> SettingDefinition:
    """A setting that is read at the start unless it is said otherwise; `no_effect` says why it changes nothing."""
    return SettingDefinition(
        name=name,
        type=kind,
        default=default,
        documentation=documentation,
        validator=validator,
        importance=importance,
        update_mode=update_mode,
        no_effect=no_effect,
    )
