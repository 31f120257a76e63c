"""What settings hold for topics, brokers, groups and subscriptions to metrics, where they come from, and how they are
changed."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ottla.broker.access import ALLOW_ALL, Authorizer, Operation, ResourceType, require
from ottla.broker.config_entry import ConfigEntry, ConfigSource, ConfigSynonym
from ottla.broker.delivery_rights import require_delivery
from ottla.broker.redis_key_rights import require_key
from ottla.metadata.controller.config_alteration import AlterOperation, ResourceAlteration
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import (
    ALL_BROKERS,
    SETTINGS_OF_NAMES,
    ConfigResource,
    ConfigResourceType,
    MetadataImage,
    TopicImage,
    topic_resource,
)
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.topic_name import validate_topic_name
from ottla.model.unknown_topic import no_such_topic
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.broker_table import BROKER_SETTINGS
from ottla.settings.client_metrics_table import CLIENT_METRICS_SETTINGS
from ottla.settings.definition import InvalidSettingError, SettingDefinition, UpdateMode, shortened
from ottla.settings.group_settings import GroupSettings, group_settings
from ottla.settings.group_table import GROUP_BOUNDS, GROUP_SETTINGS
from ottla.settings.listener_overrides import PREFIX as LISTENER_PREFIX
from ottla.settings.listener_overrides import definition_of, parse_override
from ottla.settings.topic_settings import MIN_ISR, effective_topic_settings
from ottla.settings.topic_table import BROKER_SYNONYMS, TOPIC_SETTINGS

if TYPE_CHECKING:
    from ottla.broker.loggers import BrokerLoggers

ConfigEntries = tuple[ConfigEntry, ...]

DESCRIBED_MAX: Final = 256
"""How many different sets of entries are kept: thousands of topics usually set the same few things."""

_RESOURCE_TYPES: Final = frozenset(ConfigResourceType) - {ConfigResourceType.UNKNOWN}


class ConfigService:
    """Belongs to the event loop."""

    __slots__ = (
        "_authorizer",
        "_controller",
        "_described",
        "_described_for",
        "_effective",
        "_effective_for",
        "_groups",
        "_groups_for",
        "_node_id",
        "_settings",
        "check_settings",
    )

    def __init__(self, controller: Controller, settings: BrokerSettings, authorizer: Authorizer = ALLOW_ALL) -> None:
        self._controller = controller
        self._authorizer = authorizer
        self._settings = settings
        self._node_id = settings.node_id
        self.check_settings: Callable[[BrokerSettings], Awaitable[None]] | None = None
        """Looks at settings of this broker before they are changed; raises InvalidSettingError for what cannot be."""
        # Entries by what the resource sets itself, for as long as nothing is set on brokers that was not set before.
        self._described: dict[tuple[ConfigResourceType, frozenset[tuple[str, str]]], ConfigEntries] = {}
        self._described_for: tuple[Mapping[str, str], ...] = ()
        self._effective = settings
        self._effective_for: tuple[Mapping[str, str], ...] = ()
        self._groups: dict[frozenset[tuple[str, str]], GroupSettings] = {}
        self._groups_for: BrokerSettings | None = None

    def topic_settings(self, topic: str, image: MetadataImage | None = None) -> dict[str, str]:
        """Every topic setting with the value that holds for a topic, as text, in the given or the current image."""
        image = image if image is not None else self._controller.image
        return effective_topic_settings(image.config(topic_resource(topic)), self._set_on_broker(image))

    def broker_settings(self, image: MetadataImage | None = None) -> BrokerSettings:
        """What holds on this broker, in the given or the current image: dynamic settings over those of its start."""
        image = image if image is not None else self._controller.image
        dynamic = (image.config(ALL_BROKERS), image.config(self._own_resource))
        if not _are_the_same(dynamic, self._effective_for):
            self._effective_for = dynamic
            self._effective = self._settings.overlaid({**dynamic[0], **self._set_on_this_broker(image)})
        return self._effective

    def group_settings(self, group_id: str) -> GroupSettings:
        """What holds for a group now, be it there or not; made once for all that set the same things."""
        own = self._controller.image.config(ConfigResource(ConfigResourceType.GROUP, group_id))
        broker = self.broker_settings()
        if broker is not self._groups_for or len(self._groups) >= DESCRIBED_MAX:
            self._groups.clear()
            self._groups_for = broker
        key = frozenset(own.items())
        settings = self._groups.get(key)
        if settings is None:
            settings = self._groups[key] = group_settings(own, broker)
        return settings

    def topics_with_changed_settings(self, image: MetadataImage, delta: MetadataDelta) -> list[TopicImage]:
        """Topics, without new ones, for which another value may hold since `delta`."""
        known = delta.base.topics_by_id
        if any(resource.type == ConfigResourceType.BROKER for resource in delta.changed_configs):
            return [topic for topic_id, topic in image.topics_by_id.items() if topic_id in known]
        names = (each.name for each in delta.changed_configs if each.type == ConfigResourceType.TOPIC)
        changed = map(image.topic, names)
        return [topic for topic in changed if topic is not None and topic.topic_id in known]

    def created_topic_entries(self, principal: Principal, topic: str, own: Mapping[str, str]) -> ConfigEntries:
        """The entries of a topic that was just created, or is only checked, with these settings of its own.

        Raises ApiError TOPIC_AUTHORIZATION_FAILED.
        """
        self._require(principal, Operation.DESCRIBE_CONFIGS, topic_resource(topic))
        return self._entries(ConfigResourceType.TOPIC, own)

    def resources(self, principal: Principal, types: Collection[int]) -> list[ConfigResource]:
        """The resources of these types that settings may be asked for, of every type when none is given.

        Of groups and of subscriptions to metrics of clients these are the ones that set something; loggers are those of
        each broker. Raises ApiError UNSUPPORTED_VERSION for a type that nobody knows, and CLUSTER_AUTHORIZATION_FAILED.
        """
        require(self._authorizer, principal, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
        unknown = [number for number in types if number not in _RESOURCE_TYPES]
        if unknown:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {unknown[0]}")
        image = self._controller.image
        found: list[ConfigResource] = []
        if not types or ConfigResourceType.TOPIC in types:
            found.extend(topic_resource(topic.name) for topic in image.topics())
        if not types or ConfigResourceType.BROKER in types:
            found.extend(ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in sorted(image.brokers))
        if not types or ConfigResourceType.BROKER_LOGGER in types:
            loggers = ConfigResourceType.BROKER_LOGGER
            found.extend(ConfigResource(loggers, str(broker)) for broker in sorted(image.live_brokers()))
        wanted = SETTINGS_OF_NAMES.intersection(types) if types else SETTINGS_OF_NAMES
        found.extend(sorted(resource for resource in image.configs if resource.type in wanted))
        return found

    def describe(self, principal: Principal, resource: ConfigResource, names: Collection[str] | None) -> ConfigEntries:
        """The settings of a resource, sorted by name; those asked for, or with None all of them.

        Resources that set the same things get the same value, which is made once. A group or a subscription that nobody
        has set anything for has the defaults. Raises ApiError INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION,
        INVALID_REQUEST, or that the principal may not.
        """
        self._require(principal, Operation.DESCRIBE_CONFIGS, resource)
        entries = self._all_entries(resource)
        return entries if names is None else tuple(each for each in entries if each.name in names)

    def _all_entries(self, resource: ConfigResource) -> ConfigEntries:
        image = self._controller.image
        if resource.type == ConfigResourceType.TOPIC:
            validate_topic_name(resource.name)
            if image.topic(resource.name) is None:
                raise no_such_topic(resource.name)
            return self._entries(resource.type, image.config(resource))
        if resource.type == ConfigResourceType.BROKER:
            if resource == ALL_BROKERS:
                return self._all_brokers_entries()
            if resource.name != str(self._node_id):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {self._node_id} or empty string: this broker describes itself and "
                    "all brokers, "
                    f"not {shortened(resource.name)!r}",
                )
            return self._entries(resource.type, {})
        if resource.type == ConfigResourceType.BROKER_LOGGER:
            return self._loggers().describe(resource.name)
        if resource.type not in SETTINGS_OF_NAMES:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"resources of type {resource.type.name} have no settings here")
        if not resource.name:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"a resource of type {resource.type.name}: its name must not be empty"
            )
        return self._entries(resource.type, image.config(resource))

    async def alter(
        self, principal: Principal, requests: Sequence[ResourceAlteration], *, validate_only: bool = False
    ) -> dict[ConfigResource, Outcome[None]]:
        """Change settings; of each resource all that was asked, or nothing and the reason.

        Levels of loggers are those of this process, and changed here; all else is decided by the controller.
        """
        outcomes: dict[ConfigResource, Outcome[None]] = {}
        allowed: list[ResourceAlteration] = []
        for request in requests:
            try:
                self._require(principal, Operation.ALTER_CONFIGS, request.resource)
                if request.resource.type == ConfigResourceType.BROKER_LOGGER:
                    if request.replaces_all:
                        raise ApiError(ErrorCode.INVALID_REQUEST, "levels of loggers are changed one by one")
                    self._loggers().alter(request.resource.name, request.alterations, validate_only=validate_only)
                    outcomes[request.resource] = None
                else:
                    require_delivery(self._authorizer, principal, request, self._controller.image)
                    require_key(self._authorizer, principal, request, self._controller.image)
                    await self._check_own(request)
                    allowed.append(request)
            except ApiError as error:
                outcomes[request.resource] = error
        try:
            return outcomes | await self._controller.alter_configs(allowed, validate_only=validate_only)
        except ApiError as error:
            return outcomes | {request.resource: error for request in allowed}

    async def _check_own(self, request: ResourceAlteration) -> None:
        """What only this broker can see: whether the files are good that its listeners are to have.

        Raises InvalidSettingError.
        """
        of_listeners = [each for each in request.alterations if each.name.startswith(LISTENER_PREFIX)]
        if request.resource != self._own_resource or not of_listeners or self.check_settings is None:
            return
        image = self._controller.image
        own = dict(self._set_on_this_broker(image))
        for each in of_listeners:
            if each.operation == AlterOperation.DELETE or each.value is None:
                own.pop(each.name, None)
            else:
                own[each.name] = each.value
        await self.check_settings(self._settings.overlaid({**image.config(ALL_BROKERS), **own}))

    def _loggers(self) -> "BrokerLoggers":
        from ottla.broker.loggers import BrokerLoggers  # hardly anybody asks for them

        return BrokerLoggers(self._node_id)

    def _require(self, principal: Principal, operation: Operation, resource: ConfigResource) -> None:
        """Settings of a topic or group belong to it, all others to the cluster. Raises ApiError."""
        if resource.type == ConfigResourceType.TOPIC:
            require(self._authorizer, principal, operation, ResourceType.TOPIC, resource.name)
        elif resource.type == ConfigResourceType.GROUP:
            require(self._authorizer, principal, operation, ResourceType.GROUP, resource.name)
        else:
            require(self._authorizer, principal, operation, ResourceType.CLUSTER)

    def _set_on_broker(self, image: MetadataImage) -> Mapping[str, str]:
        return self.broker_settings(image).explicit

    def _set_on_this_broker(self, image: MetadataImage) -> Mapping[str, str]:
        """What was set for this broker alone, without `min.insync.replicas`, which earlier releases took: a leader that
        counted otherwise than the controller would acknowledge what the next leader has not.
        """
        own = image.config(self._own_resource)
        return own if MIN_ISR not in own else {name: value for name, value in own.items() if name != MIN_ISR}

    def _entries(self, kind: ConfigResourceType, own: Mapping[str, str]) -> ConfigEntries:
        """The entries of a topic that sets `own`, or of this broker, made now or found."""
        image = self._controller.image
        current = (image.config(ALL_BROKERS), image.config(self._own_resource))
        if len(self._described) >= DESCRIBED_MAX or not _are_the_same(current, self._described_for):
            self._described.clear()
            self._described_for = current
        key = (kind, frozenset(own.items()))
        entries = self._described.get(key)
        if entries is None:
            entries = self._described[key] = self._made_entries(kind, own)
        return entries

    def _made_entries(self, kind: ConfigResourceType, own: Mapping[str, str]) -> ConfigEntries:
        match kind:
            case ConfigResourceType.TOPIC:
                return self._topic_entries(own)
            case ConfigResourceType.GROUP:
                return self._group_entries(own)
            case ConfigResourceType.CLIENT_METRICS:
                return _client_metrics_entries(own)
            case _:
                return self._broker_entries()

    @property
    def _own_resource(self) -> ConfigResource:
        return ConfigResource(ConfigResourceType.BROKER, str(self._node_id))

    def _topic_entries(self, own: Mapping[str, str]) -> ConfigEntries:
        effective = effective_topic_settings(own, self._set_on_broker(self._controller.image))
        return tuple(
            _entry(definition, effective[definition.name], self._topic_synonyms(definition.name, own))
            for definition in TOPIC_SETTINGS.values()
        )

    def _topic_synonyms(self, name: str, own: Mapping[str, str]) -> tuple[ConfigSynonym, ...]:
        inherited = self._broker_synonyms([synonym.name for synonym in BROKER_SYNONYMS[name]])
        if name in own:
            return (ConfigSynonym(name, own[name], ConfigSource.TOPIC), *inherited)
        return inherited

    def _group_entries(self, own: Mapping[str, str]) -> ConfigEntries:
        effective = group_settings(own, self.broker_settings())
        entries = []
        for name, definition in GROUP_SETTINGS.items():
            bounds = GROUP_BOUNDS.get(name)
            inherited = _default_of(definition) if bounds is None else self._broker_synonyms([bounds.default])
            synonyms = (ConfigSynonym(name, own[name], ConfigSource.GROUP), *inherited) if name in own else inherited
            entries.append(_entry(definition, effective.as_text(name), synonyms))
        return tuple(entries)

    def _broker_entries(self) -> ConfigEntries:
        image = self._controller.image
        own = _overrides_in(self._settings.explicit, image.config(ALL_BROKERS), image.config(self._own_resource))
        found = ((each, self._broker_synonyms(_names_of(each))) for each in (*BROKER_SETTINGS.values(), *own))
        return tuple(_entry(each, synonyms[0].value if synonyms else None, synonyms) for each, synonyms in found)

    def _broker_synonyms(self, names: Sequence[str]) -> tuple[ConfigSynonym, ...]:
        """The values under any of the names, the one that holds first."""
        image = self._controller.image
        layers: tuple[tuple[ConfigSource, Callable[[str], str | None]], ...] = (
            (ConfigSource.DYNAMIC_BROKER, self._set_on_this_broker(image).get),
            (ConfigSource.DYNAMIC_ALL_BROKERS, image.config(ALL_BROKERS).get),
            (ConfigSource.STATIC_BROKER, self._settings.explicit.get),
            (ConfigSource.DEFAULT, lambda name: BROKER_SETTINGS[name].default if name in BROKER_SETTINGS else None),
        )
        return tuple(
            ConfigSynonym(name, value, source)
            for source, value_of in layers
            for name in names
            if (value := value_of(name)) is not None
        )

    def _all_brokers_entries(self) -> ConfigEntries:
        """Only what was set for all brokers while they ran, as Kafka describes the resource without a name."""
        present = self._controller.image.config(ALL_BROKERS)
        return tuple(
            _entry(
                definition,
                present[definition.name],
                (ConfigSynonym(definition.name, present[definition.name], ConfigSource.DYNAMIC_ALL_BROKERS),),
            )
            for definition in (*BROKER_SETTINGS.values(), *_overrides_in(present))
            if definition.name in present
        )


def _overrides_in(*settings: Mapping[str, str]) -> list[SettingDefinition]:
    """What is set for single listeners, sorted by name."""
    names = {name for each in settings for name in each if name.startswith(LISTENER_PREFIX)}
    found = []
    for name in sorted(names):
        with suppress(InvalidSettingError):  # another release may have let it be set
            found.append(definition_of(name, BROKER_SETTINGS))
    return [each for each in found if each is not None]


def _names_of(definition: SettingDefinition) -> list[str]:
    """Under which names a setting of brokers may have its value, the first before all others."""
    override = parse_override(definition.name)
    return [definition.name] if override is None else [definition.name, override.setting]


def _are_the_same(first: Sequence[object], second: Sequence[object]) -> bool:
    return len(first) == len(second) and all(one is other for one, other in zip(first, second, strict=True))


def _default_of(definition: SettingDefinition) -> tuple[ConfigSynonym, ...]:
    return (ConfigSynonym(definition.name, definition.default, ConfigSource.DEFAULT),)


def _client_metrics_entries(own: Mapping[str, str]) -> ConfigEntries:
    entries = []
    for name, definition in CLIENT_METRICS_SETTINGS.items():
        synonyms = _default_of(definition)
        if name in own:
            synonyms = (ConfigSynonym(name, own[name], ConfigSource.CLIENT_METRICS), *synonyms)
        entries.append(_entry(definition, synonyms[0].value, synonyms))
    return tuple(entries)


def _entry(definition: SettingDefinition, value: str | None, synonyms: tuple[ConfigSynonym, ...]) -> ConfigEntry:
    if definition.is_secret:
        value, synonyms = None, tuple(replace(each, value=None) for each in synonyms)
    elif value is not None:
        value = definition.shown(value)
    return ConfigEntry(
        name=definition.name,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_read_only=definition.update_mode == UpdateMode.READ_ONLY,
        type=definition.type,
        documentation=definition.full_documentation,
        synonyms=synonyms,
    )
