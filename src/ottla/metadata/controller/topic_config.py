"""Checks the settings a topic is to have."""

from collections.abc import Mapping

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_settings import require_consistent_topic_settings, validate_topic_setting


def validated_topic_config(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The settings to keep, sorted; those that ask for what happens anyway are left out.

    Raises ApiError INVALID_CONFIG, which names the setting.
    """
    kept: dict[str, str] = {}
    for name, value in sorted(configs.items()):
        if value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{name} is given without a value")
        if validate_topic_setting(name, value):
            kept[name] = value.strip()
    require_consistent_topic_settings(kept)
    return kept
