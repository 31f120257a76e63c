"""Decides about changed settings, one operation at a time (KIP-339), or all of a resource at once (KIP-133).

Errors, as Kafka answers them: INVALID_REQUEST (a resource or a key twice, a resource that has no settings here, no
value), UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED, INVALID_CONFIG (unknown, not supported, read-only, a bad
value, APPEND to what is no list); that one names every setting of the resource it is about. Kafka takes an unknown
setting of a broker without a word and refuses a read-only one with INVALID_REQUEST.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Final

from msgspec import Struct

from ottla.metadata.controller.decision import Decision, Outcome
from ottla.metadata.controller.delay_target import require_sound_target
from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.image import (
    ALL_BROKERS,
    SETTINGS_OF_NAMES,
    ConfigResource,
    ConfigResourceType,
    MetadataImage,
)
from ottla.metadata.records import ConfigRecord, MetadataRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.redis_key import changed_setting
from ottla.model.topic_name import validate_topic_name
from ottla.model.unknown_topic import no_such_topic
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.broker_table import BROKER_SETTINGS
from ottla.settings.client_metrics_table import CLIENT_METRICS_SETTINGS
from ottla.settings.definition import Complaints, InvalidSettingError, SettingDefinition, UpdateMode, shortened
from ottla.settings.foreign_settings import ignored_reason, refused_reason
from ottla.settings.group_settings import require_valid_group_settings
from ottla.settings.group_table import GROUP_SETTINGS
from ottla.settings.listener_overrides import definition_of
from ottla.settings.listeners import require_listeners_of_the_start
from ottla.settings.topic_settings import (
    DELIVER_TO,
    MIN_ISR,
    REDIS_KEY,
    require_consistent_topic_settings,
    topic_default,
)
from ottla.settings.topic_table import TOPIC_SETTINGS
from ottla.settings.unknown_settings import unknown_broker_setting, unknown_topic_setting
from ottla.settings.value import SettingType, parse_list, trimmed

NAMES_MAX: Final = {ConfigResourceType.GROUP: 10_000, ConfigResourceType.CLIENT_METRICS: 100}
"""How many groups may have settings of their own, and how many subscriptions to metrics there may be: each client that
comes is matched against all of them."""

NAME_BYTES_MAX: Final = 1_024

_PER_LISTENER: Final = ("ssl.", "sasl.")
"""How settings begin that are changed for one listener at a time, as in Kafka."""

_NO_BROKER_ID: Final = "Broker id must be an integer, but it is: {}"


class AlterOperation(IntEnum):
    """What happens to a setting; the numbers are those of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(Struct, frozen=True):
    """One operation on one setting. DELETE needs no value."""

    name: str
    operation: AlterOperation
    value: str | None


class ResourceAlteration(Struct, frozen=True):
    """The operations on one resource: all are done or none."""

    resource: ConfigResource
    alterations: Sequence[Alteration]
    replaces_all: bool = False
    """Whether what the resource sets and no operation names is taken back."""


def decide_config_alteration(
    image: MetadataImage,
    requests: Sequence[ResourceAlteration],
    broker_settings: Mapping[str, str],
    own_id: int | None = None,
) -> Decision[dict[ConfigResource, Outcome[None]]]:
    """Decide about each resource by itself. `broker_settings` is what broker `own_id` was started with, or all were.

    What another broker was started with is not known here: that each of its settings is a good one is checked, and it
    passes over those that do not fit its start, with a line in its log.
    """
    outcomes: dict[ConfigResource, Outcome[None]] = {}
    records: list[MetadataRecord] = []
    names = _Names(image, broker_settings)
    occurrences = Counter(request.resource for request in requests)
    for request in requests:
        try:
            if occurrences[request.resource] > 1:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Each resource must appear at most once: the request repeats {request.resource.name}",
                )
            changes = _changes(image, request, broker_settings, names, own_id)
        except ApiError as error:
            outcomes[request.resource] = error
            continue
        changed = [ConfigRecord(*request.resource, name, value) for name, value in changes.items()]
        records.extend(changed)
        if changed and request.resource.type == ConfigResourceType.BROKER:
            image, _ = apply_records(image, changed)  # what brokers set holds together with what the next one asks for
        outcomes[request.resource] = None
    return Decision(tuple(records), outcomes)


def _changes(
    image: MetadataImage,
    request: ResourceAlteration,
    broker_settings: Mapping[str, str],
    names: "_Names",
    own_id: int | None,
) -> dict[str, str | None]:
    """The settings that change, with None for those that are removed."""
    kind, name = request.resource
    repeated = [key for key, count in Counter(each.name for each in request.alterations).items() if count > 1]
    if repeated:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"duplicate config keys: the request repeats the setting {shortened(repeated[0])}",
        )
    if kind == ConfigResourceType.TOPIC:
        validate_topic_name(name)
        if image.topic(name) is None:
            raise no_such_topic(name)
        return _topic_changes(image, request, broker_settings)
    if kind == ConfigResourceType.BROKER:
        if name and name not in map(str, image.brokers):
            code = ErrorCode.BROKER_ID_NOT_REGISTERED if name.isdecimal() else ErrorCode.INVALID_REQUEST
            what = (
                f"Broker ID {name} is not currently registered"
                if name.isdecimal()
                else _NO_BROKER_ID.format(shortened(name))
            )
            raise ApiError(code, what)
        is_known = not name or own_id in (None, int(name))
        return _broker_changes(image, request, broker_settings if is_known else None, own_id)
    if kind in SETTINGS_OF_NAMES and name:
        return names.changes(request)
    if kind in SETTINGS_OF_NAMES:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a resource of type {kind.name}: its name must not be empty")
    raise ApiError(ErrorCode.INVALID_REQUEST, f"settings of {kind.name} resources cannot be changed here")


def _topic_changes(
    image: MetadataImage, request: ResourceAlteration, broker_settings: Mapping[str, str]
) -> dict[str, str | None]:
    own = image.config(request.resource)
    inherited = {**broker_settings, **image.config(ALL_BROKERS)}

    def new_value(alteration: Alteration) -> str | None:
        name = alteration.name
        definition = TOPIC_SETTINGS.get(name)
        if definition is not None:
            return _new_value(alteration, definition, own[name] if name in own else topic_default(name, inherited))
        if alteration.operation == AlterOperation.DELETE and name in own:
            return None  # a release that knew it set it
        raise InvalidSettingError(unknown_topic_setting(name))

    changes = _collected(own, request, new_value)
    if wanted := trimmed(changes.get(REDIS_KEY) or ""):
        changes[REDIS_KEY] = _key_setting(own.get(REDIS_KEY, ""), wanted)
        if changes[REDIS_KEY] == own.get(REDIS_KEY):
            del changes[REDIS_KEY]
    after = {**own, **changes}
    kept = {name: value for name, value in after.items() if value is not None}
    require_consistent_topic_settings(kept)
    if DELIVER_TO in changes:
        require_sound_target(image, request.resource.name, kept)
    return changes


def _key_setting(before: str, wanted: str) -> str:
    """With where the stream begins, which its leader finds out when the topic gets a key that had none."""
    setting = changed_setting(trimmed(before), wanted)
    if setting is None:
        raise InvalidSettingError(
            f"Invalid value {shortened(wanted)} for configuration {REDIS_KEY}: the leader of the topic says at which "
            "offset the stream begins; give only database, colon and key"
        )
    return setting


def _broker_changes(
    image: MetadataImage,
    request: ResourceAlteration,
    broker_settings: Mapping[str, str] | None,
    own_id: int | None,
) -> dict[str, str | None]:
    own = image.config(request.resource)

    def new_value(alteration: Alteration) -> str | None:
        definition = definition_of(alteration.name, BROKER_SETTINGS)
        if definition is None:
            if alteration.operation == AlterOperation.DELETE and (
                alteration.name in own or _is_kafkas(alteration.name)
            ):
                return (
                    None  # a release that knew it set it, or it was never set: Kafka's tools clear what they may find
                )
            raise InvalidSettingError(unknown_broker_setting(alteration.name))
        if definition.update_mode == UpdateMode.PER_BROKER and request.resource == ALL_BROKERS:
            raise InvalidSettingError(
                f"Cannot update {definition.name} at default cluster level, broker id must be specified: it is not "
                "the same "
                "for all brokers"
            )
        if (
            definition.name == MIN_ISR
            and request.resource != ALL_BROKERS
            and alteration.operation != AlterOperation.DELETE
        ):
            raise InvalidSettingError(
                f"{MIN_ISR} is one for all brokers, since leaders and the controller have to count alike: set it for "
                "all of them, or on topics"
            )
        if definition.name.startswith(_PER_LISTENER) and alteration.operation != AlterOperation.DELETE:
            raise InvalidSettingError(
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                f"set listener.name.NAME.{definition.name}, with the name of the listener in lower case"
            )
        if definition.update_mode == UpdateMode.READ_ONLY:
            raise InvalidSettingError(
                f"Cannot update {definition.name} dynamically, it is read-only: give it in the broker's file or on its "
                "command line, and restart it"
            )
        return _new_value(alteration, definition, own.get(definition.name, definition.default))

    changes = _collected(own, request, new_value)
    if broker_settings is None:
        return changes
    wanted = changes.get("listeners")
    if wanted is not None:
        static = broker_settings.get("listeners", BROKER_SETTINGS["listeners"].default or "")
        require_listeners_of_the_start(static, wanted)
    after: Mapping[str, str] = {name: value for name, value in {**own, **changes}.items() if value is not None}
    if request.resource == ALL_BROKERS:
        for_all, for_one = after, _of_brokers_started_so(image, own_id)
    else:
        for_all, for_one = image.config(ALL_BROKERS), [after]
    for each in for_one:  # what no setting can check alone
        dynamic = {name: value for name, value in {**for_all, **each}.items() if _is_known(name)}
        BrokerSettings({**broker_settings, **dynamic})
    return changes


def _is_known(name: str) -> bool:
    """Whether this release knows it: another may have set it."""
    try:
        return definition_of(name, BROKER_SETTINGS) is not None
    except InvalidSettingError:
        return False


def _is_kafkas(name: str) -> bool:
    """Whether it is a setting of a Kafka broker that cannot be set here."""
    return refused_reason(name) is not None or ignored_reason(name, "") is not None


def _of_brokers_started_so(image: MetadataImage, own_id: int | None) -> list[Mapping[str, str]]:
    """What broker `own_id`, or each one for None, sets itself; nothing for those that set nothing."""
    own = [
        settings
        for resource, settings in image.configs.items()
        if resource.type == ConfigResourceType.BROKER
        and resource != ALL_BROKERS
        and own_id in (None, int(resource.name))
    ]
    return [{}, *own]


class _Names:
    """Groups, be they there or not, and subscriptions to metrics of clients, as one request finds them."""

    def __init__(self, image: MetadataImage, broker_settings: Mapping[str, str]) -> None:
        self._image = image
        self._broker_settings = broker_settings

    @cached_property
    def _broker(self) -> BrokerSettings:
        return BrokerSettings(self._broker_settings)

    @cached_property
    def _counts(self) -> Counter[ConfigResourceType]:
        return Counter(resource.type for resource in self._image.configs)

    def changes(self, request: ResourceAlteration) -> dict[str, str | None]:
        """The settings that change, with None for those that are removed."""
        own = self._image.config(request.resource)
        is_group = request.resource.type == ConfigResourceType.GROUP
        table = GROUP_SETTINGS if is_group else CLIENT_METRICS_SETTINGS
        is_new = not own and any(each.operation != AlterOperation.DELETE for each in request.alterations)
        if is_new:
            self._require_room(request.resource)

        def new_value(alteration: Alteration) -> str | None:
            definition = table.get(alteration.name)
            if definition is not None:
                return _new_value(alteration, definition, own.get(definition.name, definition.default))
            if alteration.operation == AlterOperation.DELETE and alteration.name in own:
                return None  # a release that knew it set it
            what = "group" if is_group else "client metrics"
            raise InvalidSettingError(
                f"Unknown {what} config name: {shortened(alteration.name)}; there are {', '.join(table)}"
            )

        changes = _collected(own, request, new_value)
        if is_group:
            after = {name: value for name, value in {**own, **changes}.items() if value is not None}
            require_valid_group_settings(after, self._broker)
        self._counts[request.resource.type] += is_new
        return changes

    def _require_room(self, resource: ConfigResource) -> None:
        """Every name is kept in the metadata, and there is no end of names. Raises ApiError."""
        if len(resource.name.encode()) > NAME_BYTES_MAX:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the name may have {NAME_BYTES_MAX} bytes at most")
        limit = NAMES_MAX[resource.type]
        if self._counts[resource.type] >= limit:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, f"{limit} resources of type {resource.type.name} have settings already"
            )


def _collected(
    own: Mapping[str, str], request: ResourceAlteration, new_value: Callable[[Alteration], str | None]
) -> dict[str, str | None]:
    """What differs from `own` after every operation. Raises InvalidSettingError with all complaints together."""
    complaints = Complaints()
    wanted: dict[str, str | None] = dict.fromkeys(own) if request.replaces_all else {}
    for alteration in request.alterations:
        try:
            wanted[alteration.name] = new_value(alteration)
        except InvalidSettingError as error:
            complaints.add(error)
    complaints.raise_any()
    return {name: value for name, value in wanted.items() if value != own.get(name)}


def _new_value(alteration: Alteration, definition: SettingDefinition, present: str | None) -> str | None:
    """The value after the operation, None when the setting is taken back; `present` is the one that holds now."""
    if alteration.operation == AlterOperation.DELETE:
        return None
    value = _required_value(alteration)
    if alteration.operation != AlterOperation.SET:
        if definition.type != SettingType.LIST:
            raise InvalidSettingError(
                f"Can't {alteration.operation.name} to key {alteration.name} because its type is not LIST"
            )
        items, others = parse_list(present or ""), parse_list(value)
        if alteration.operation == AlterOperation.APPEND:
            value = ",".join((*items, *(item for item in others if item not in items)))
        else:
            value = ",".join(item for item in items if item not in others)
    return definition.canonical(value)


def _required_value(alteration: Alteration) -> str:
    if alteration.value is None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Null value not supported: {shortened(alteration.name)} is given without a value",
        )
    return alteration.value
