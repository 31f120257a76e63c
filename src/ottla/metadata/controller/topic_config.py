"""Checks the settings a topic is to have."""

from collections.abc import Mapping

from ottla.settings.definition import Complaints, InvalidSettingError, shortened
from ottla.settings.topic_settings import require_consistent_topic_settings
from ottla.settings.topic_table import TOPIC_SETTINGS, UNSUPPORTED_TOPIC_SETTINGS
from ottla.settings.unknown_settings import unknown_topic_setting


def validated_topic_config(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The settings to keep, sorted; those that ask for what happens anyway are left out.

    Raises ApiError INVALID_CONFIG, which names every setting that cannot be and says why.
    """
    kept: dict[str, str] = {}
    complaints = Complaints()
    for name, value in sorted(configs.items()):
        try:
            if value is None:
                raise InvalidSettingError(f"{shortened(name)} is given without a value")
            if validate_topic_setting(name, value):
                kept[name] = value.strip()
        except InvalidSettingError as error:
            complaints.add(error)
    complaints.raise_any()
    require_consistent_topic_settings(kept)
    return kept


def validate_topic_setting(name: str, text: str) -> bool:
    """Check one setting of a topic; whether there is anything to keep.

    False for a setting of Kafka's that is not supported but is given its default, which asks for what happens anyway.
    Raises InvalidSettingError, which names the setting, for an unknown one, an unsupported one and a bad value.
    """
    definition = TOPIC_SETTINGS.get(name)
    if definition is not None:
        definition.parse(text)
        return True
    unsupported = UNSUPPORTED_TOPIC_SETTINGS.get(name)
    if unsupported is None:
        raise InvalidSettingError(unknown_topic_setting(name))
    if text.strip() != unsupported.default:
        raise InvalidSettingError(
            f"{name}={shortened(text)!r} is not supported: {unsupported.reason}; "
            f"leave it out or at {unsupported.default!r}"
        )
    return False
