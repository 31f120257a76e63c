"""Checks the settings a topic is to have."""

from collections.abc import Mapping

from ottla.settings.definition import Complaints, InvalidSettingError, shortened
from ottla.settings.topic_settings import require_consistent_topic_settings
from ottla.settings.topic_table import TOPIC_SETTINGS
from ottla.settings.unknown_settings import unknown_topic_setting


def validated_topic_config(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The settings to keep, sorted, each as it is described.

    Raises InvalidSettingError, which names every setting that cannot be and says why.
    """
    kept: dict[str, str] = {}
    complaints = Complaints()
    for name, value in sorted(configs.items()):
        try:
            if value is None:
                raise InvalidSettingError(f"Null value not supported: {shortened(name)} is given without a value")
            definition = TOPIC_SETTINGS.get(name)
            if definition is None:
                raise InvalidSettingError(unknown_topic_setting(name))
            kept[name] = definition.canonical(value)
        except InvalidSettingError as error:
            complaints.add(error)
    complaints.raise_any()
    require_consistent_topic_settings(kept)
    return kept
