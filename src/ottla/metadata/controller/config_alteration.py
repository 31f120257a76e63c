"""Decides about changed settings, one operation at a time (KIP-339).

Errors, as Kafka answers them: INVALID_REQUEST (a resource or a key twice, a resource that has no settings here),
UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG (unknown, not supported, read-only, a bad value, APPEND to what is no list).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum

from ottla.metadata.controller.decision import Decision, Outcome
from ottla.metadata.image.image import ALL_BROKERS, ConfigResource, ConfigResourceType, MetadataImage
from ottla.metadata.records import ConfigRecord, MetadataRecord
from ottla.model.broker_setting_table import BROKER_SETTINGS
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.lazy_dataclass import dataclass
from ottla.model.setting import InvalidSettingError, SettingType, UpdateScope, format_value, parse_list
from ottla.model.topic_name import validate_topic_name
from ottla.model.topic_settings import (
    TOPIC_SETTINGS,
    UNSUPPORTED_TOPIC_SETTINGS,
    require_consistent_topic_settings,
    topic_default,
    validate_topic_setting,
)


class AlterOperation(IntEnum):
    """What happens to a setting; the numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Alteration:
    """One operation on one setting. DELETE needs no value."""

    name: str
    operation: AlterOperation
    value: str | None


@dataclass(frozen=True, slots=True)
class ResourceAlteration:
    """The operations on one resource: all are done or none."""

    resource: ConfigResource
    alterations: Sequence[Alteration]


def decide_config_alteration(
    image: MetadataImage, requests: Sequence[ResourceAlteration], broker_settings: Mapping[str, str]
) -> Decision[dict[ConfigResource, Outcome[None]]]:
    """Decide about each resource by itself. `broker_settings` is what the brokers were started with."""
    outcomes: dict[ConfigResource, Outcome[None]] = {}
    records: list[MetadataRecord] = []
    occurrences = Counter(request.resource for request in requests)
    for request in requests:
        try:
            if occurrences[request.resource] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"the request names {request.resource.name} more than once")
            changes = _changes(image, request, broker_settings)
        except ApiError as error:
            outcomes[request.resource] = error
            continue
        records.extend(
            ConfigRecord(request.resource.type, request.resource.name, name, value) for name, value in changes.items()
        )
        outcomes[request.resource] = None
    return Decision(tuple(records), outcomes)


def _changes(
    image: MetadataImage, request: ResourceAlteration, broker_settings: Mapping[str, str]
) -> dict[str, str | None]:
    """The settings that change, with None for those that are removed."""
    kind, name = request.resource
    repeated = [key for key, count in Counter(each.name for each in request.alterations).items() if count > 1]
    if repeated:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the request names the setting {repeated[0]} more than once")
    if kind == ConfigResourceType.TOPIC:
        validate_topic_name(name)
        if image.topic(name) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return _topic_changes(image, request, broker_settings)
    if kind == ConfigResourceType.BROKER:
        if name and name not in map(str, image.brokers):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no broker {name}")
        return _broker_changes(image, request)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"settings of {kind.name} resources cannot be changed here")


def _topic_changes(
    image: MetadataImage, request: ResourceAlteration, broker_settings: Mapping[str, str]
) -> dict[str, str | None]:
    own = image.config(request.resource)
    inherited = {**broker_settings, **image.config(ALL_BROKERS)}
    changes: dict[str, str | None] = {}
    for alteration in request.alterations:
        name = alteration.name
        if name in UNSUPPORTED_TOPIC_SETTINGS and alteration.operation in (AlterOperation.SET, AlterOperation.DELETE):
            if alteration.operation == AlterOperation.SET:
                validate_topic_setting(name, _required_value(alteration))
            continue
        definition = TOPIC_SETTINGS.get(name)
        if definition is None:
            raise InvalidSettingError(f"{name} is not a topic setting that can be changed")
        present = own[name] if name in own else topic_default(name, inherited)
        value = _new_value(alteration, definition.type, present)
        if value is not None:
            definition.parse(value)
        if value != own.get(name):
            changes[name] = value
    after = {**own, **changes}
    require_consistent_topic_settings({name: value for name, value in after.items() if value is not None})
    return changes


def _broker_changes(image: MetadataImage, request: ResourceAlteration) -> dict[str, str | None]:
    own = image.config(request.resource)
    changes: dict[str, str | None] = {}
    for alteration in request.alterations:
        definition = BROKER_SETTINGS.get(alteration.name)
        if definition is None:
            raise InvalidSettingError(f"{alteration.name} is not a broker setting")
        if definition.scope == UpdateScope.READ_ONLY:
            raise InvalidSettingError(
                f"{definition.name} is read-only: set it in the broker's file or on its command line and restart it"
            )
        present = own.get(definition.name, definition.default)
        value = _new_value(alteration, definition.type, present)
        if value is not None:
            definition.parse(value)
        if value != own.get(definition.name):
            changes[definition.name] = value
    return changes


def _new_value(alteration: Alteration, kind: SettingType, present: str | None) -> str | None:
    if alteration.operation == AlterOperation.DELETE:
        return None
    value = _required_value(alteration)
    if alteration.operation == AlterOperation.SET:
        return value
    if kind != SettingType.LIST:
        raise InvalidSettingError(f"{alteration.name} is no list: nothing can be appended to it or taken from it")
    items = parse_list(present or "")
    if alteration.operation == AlterOperation.APPEND:
        return format_value((*items, *(item for item in parse_list(value) if item not in items)))
    return format_value(tuple(item for item in items if item not in parse_list(value)))


def _required_value(alteration: Alteration) -> str:
    if alteration.value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{alteration.name} is given without a value")
    return alteration.value.strip()
