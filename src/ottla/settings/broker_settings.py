"""The settings a broker was started with: what is said in a file or on the command line, checked, over the defaults."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ottla.model.sasl import OAUTHBEARER
from ottla.model.security_protocol import SecurityProtocol
from ottla.settings.broker_group_table import require_consistent_group_bounds
from ottla.settings.broker_oauth_table import UNSIGNED_CLASS
from ottla.settings.broker_table import ALIASES, BROKER_SETTINGS
from ottla.settings.broker_zookeeper_table import require_consistent_zookeeper
from ottla.settings.definition import Complaints, InvalidSettingError
from ottla.settings.foreign_settings import ignored_reason, refused_reason
from ottla.settings.listener_overrides import definition_of, parse_override, value_for_listener
from ottla.settings.listeners import LISTENER_SETTINGS, ListenerEndpoints, listeners_of, listeners_set_while_running
from ottla.settings.topic_settings import effective_topic_settings
from ottla.settings.value import SettingValue, format_value

_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})

_DEFAULTS: Mapping[str, SettingValue] = MappingProxyType(
    {name: definition.default_value for name, definition in BROKER_SETTINGS.items()}
)

REDIS: Final = "REDIS"
"""The name of the listener of Redis clients, in listener.security.protocol.map and before settings of its own."""

_ABOUT_LISTENERS = (
    "listeners",
    "listener.security.protocol.map",
    "advertised.listeners",
    "controller.listener.names",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
)

LOG_DIRECTORIES_MAX = 64
"""A directory costs a thread and what goes with it; a machine has a few dozen disks at most."""


class BrokerSettings:
    """Immutable. `settings["log.flush.before.ack"]` is the typed value, set or default.

    >>> settings = BrokerSettings({"broker.id": "7"})
    >>> settings["node.id"], settings["num.partitions"], settings.is_set("num.partitions")
    (7, 1, False)
    """

    __slots__ = ("_explicit", "_values", "listeners", "warnings")

    def __init__(self, given: Mapping[str, str] = _NO_SETTINGS) -> None:
        """Check every setting. Raises InvalidSettingError; each of its complaints names a setting and says what to do.

        What settings must be together is checked where each of them is good.
        """
        explicit: dict[str, str] = {}
        warnings: list[str] = []
        values = dict(_DEFAULTS)
        complaints = Complaints()
        for name, text in given.items():
            known_name = ALIASES.get(name, name)
            try:
                definition = definition_of(known_name, BROKER_SETTINGS)
                if definition is not None:
                    if known_name != name and known_name in given:
                        raise InvalidSettingError(f"{name} is the old name of {known_name}: give only {known_name}")
                    values[known_name] = definition.parse(text)
                    explicit[known_name] = format_value(values[known_name]) or ""
                    continue
                reason = ignored_reason(name, text)
                if reason is None:
                    raise InvalidSettingError(_refusal(name))
                warnings.append(f"{name} is ignored: {reason}")
            except InvalidSettingError as error:
                complaints.add(error, name)
        self._explicit = MappingProxyType(explicit)
        self._values = values
        self.listeners = self._checked_together(given, complaints)
        """Where the broker listens, and what it tells clients."""
        warnings.extend(
            f"{name} has no effect yet: {BROKER_SETTINGS[name].no_effect}"
            for name in explicit
            if name in BROKER_SETTINGS
            and BROKER_SETTINGS[name].no_effect is not None
            and self._values[name] != BROKER_SETTINGS[name].default_value
        )
        warnings.extend(
            f"{each} of listeners is not opened: it is for controllers of a KRaft quorum, and Ottla has none"
            for each in self.listeners.not_opened
        )
        warnings.extend(
            f"{name} is ignored: listeners has no {override.listener}"
            for name in explicit
            if (override := parse_override(name)) is not None and not self._is_open(override.listener)
        )
        self.warnings = tuple(warnings)
        """One line for each setting that has no effect, and each listener that is not opened."""

    def overlaid(self, dynamic: Mapping[str, str]) -> "BrokerSettings":
        """These settings with what was set while the broker ran over them.

        What does not validate, as a later release may have left it, is passed over with a line in `warnings`, and so
        are listeners that do not fit those it was started with.
        """
        valid: dict[str, str] = {}
        passed_over: list[str] = []
        for name, text in dynamic.items():
            try:
                definition = definition_of(name, BROKER_SETTINGS)
                if definition is None:
                    raise InvalidSettingError(f"Unknown broker config name: {name}")
                definition.parse(text)
                valid[name] = text
            except InvalidSettingError as error:
                passed_over.append(f"a dynamic setting is ignored: {error.message}")
        if "listeners" in valid:
            valid["listeners"] = listeners_set_while_running(self._text_of("listeners"), valid["listeners"])
        settings = None
        for left_out in ((), LISTENER_SETTINGS, tuple(valid)):
            try:
                settings = BrokerSettings(
                    {**self._explicit, **{name: text for name, text in valid.items() if name not in left_out}}
                )
                break
            except InvalidSettingError as error:
                passed_over.append(f"dynamic settings do not fit the broker's static settings: {error.message}")
        assert settings is not None, "the settings of the start are good"
        settings.warnings = tuple(passed_over)
        return settings

    def _text_of(self, name: str) -> str:
        return self._explicit.get(name, BROKER_SETTINGS[name].default or "")

    def __getitem__(self, name: str) -> SettingValue:
        """The typed value; KeyError for a name that is not a broker setting."""
        return self._values[name]

    def for_listener(self, listener: str, name: str, mechanism: str | None = None) -> SettingValue:
        """The typed value that holds for one listener: its own for a mechanism of SASL, its own, else that of all."""
        return value_for_listener(self._values, listener, name, mechanism)

    def protocol_of(self, listener: str) -> SecurityProtocol:
        """How a listener speaks, which may be that of Redis clients: it does not stand in `listeners`."""
        known = self.listeners.protocols.get(listener) or self.listeners.others.get(listener)
        return SecurityProtocol.PLAINTEXT if known is None else known

    @property
    def encrypted_listeners(self) -> list[str]:
        """The names of those that speak TLS."""
        names = dict.fromkeys((*self.listeners.protocols, REDIS))
        return [name for name in names if self._is_open(name) and self.protocol_of(name).is_encrypted]

    def _is_open(self, listener: str) -> bool:
        return listener in self.listeners.protocols or (listener == REDIS and bool(self.text("redis.listener")))

    @property
    def explicit(self) -> Mapping[str, str]:
        """What was set, as text, without the defaults."""
        return self._explicit

    def is_set(self, name: str) -> bool:
        """Whether the setting was given, be it with its default."""
        return name in self._explicit

    def integer(self, name: str) -> int:
        """The value of an INT, SHORT or LONG setting."""
        value = self._values[name]
        assert isinstance(value, int), name
        return value

    def number(self, name: str) -> float:
        """The value of a DOUBLE setting."""
        value = self._values[name]
        assert isinstance(value, float), name
        return value

    def boolean(self, name: str) -> bool:
        """The value of a BOOLEAN setting."""
        value = self._values[name]
        assert isinstance(value, bool), name
        return value

    def text(self, name: str) -> str | None:
        """The value of a STRING or PASSWORD setting."""
        value = self._values[name]
        assert value is None or isinstance(value, str), name
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """The items of a LIST setting."""
        value = self._values[name]
        assert isinstance(value, tuple), name
        return value

    @property
    def node_id(self) -> int:
        """The number of this broker."""
        return self.integer("node.id")

    @property
    def data_directory(self) -> str:
        """Where the metadata lies: the first of `data_directories`."""
        return self.data_directories[0]

    @property
    def data_directories(self) -> tuple[str, ...]:
        """Where the logs lie: `log.dirs`, else `log.dir`."""
        directories = self._values["log.dirs"]
        if isinstance(directories, tuple):
            return directories
        directory = self.text("log.dir")
        assert directory is not None
        return (directory,)

    def topic_defaults(self) -> dict[str, str]:
        """Every topic setting with the value a topic has that sets nothing itself, as text."""
        return effective_topic_settings({}, self._explicit)

    def _checked_together(self, given: Mapping[str, str], complaints: Complaints) -> ListenerEndpoints:
        """The listeners. Raises InvalidSettingError with the complaints, and with all that does not fit together."""
        bad = {ALIASES.get(name, name) for name in complaints.settings}
        listeners: list[ListenerEndpoints] = []

        def check_listeners() -> None:
            listeners.append(listeners_of(self._values))

        for prefixes, check in (
            (_ABOUT_LISTENERS, check_listeners),
            (("sasl.", "listener"), lambda: self._check_tokens(listeners)),
            (("log.dir",), self._check_directories),
            (("group.",), self._check_groups),
            (("max.connections.per.ip",), self._check_connections),
            (("metadata.zookeeper.", "zookeeper."), lambda: require_consistent_zookeeper(self._values)),
        ):
            if any(name.startswith(prefixes) for name in bad):
                continue
            try:
                check()
            except InvalidSettingError as error:
                complaints.add(error, _named_in(error, given))
        complaints.raise_any()
        return listeners[0]

    def _check_tokens(self, listeners: list[ListenerEndpoints]) -> None:
        for listener, protocol in listeners[0].protocols.items() if listeners else ():
            mechanisms = self.for_listener(listener, "sasl.enabled.mechanisms") if protocol.has_sasl else ()
            assert isinstance(mechanisms, tuple)
            if (
                OAUTHBEARER in mechanisms
                and self.for_listener(listener, "sasl.oauthbearer.jwks.endpoint.url", OAUTHBEARER) is None
                and self.for_listener(listener, "sasl.server.callback.handler.class", OAUTHBEARER) != UNSIGNED_CLASS
            ):
                raise InvalidSettingError(
                    f"sasl.oauthbearer.jwks.endpoint.url is missing: listener {listener} takes tokens of OAUTHBEARER, "
                    "and it says whose; for tests alone, sasl.server.callback.handler.class may name the class that "
                    "takes tokens which nobody has signed"
                )

    def _check_directories(self) -> None:
        directories = [Path(path).absolute() for path in self.data_directories]
        if len(set(directories)) < len(directories):
            raise InvalidSettingError("log.dirs names a directory twice")
        if len(directories) > LOG_DIRECTORIES_MAX:
            raise InvalidSettingError(
                f"log.dirs names {len(directories)} directories, up to {LOG_DIRECTORIES_MAX} are supported: each has "
                "a thread of its own"
            )

    def _check_groups(self) -> None:
        if self.integer("group.min.session.timeout.ms") > self.integer("group.max.session.timeout.ms"):
            raise InvalidSettingError("group.min.session.timeout.ms is above group.max.session.timeout.ms")
        require_consistent_group_bounds(self._values)
        protocols = self._values["group.coordinator.rebalance.protocols"]
        if isinstance(protocols, tuple) and "classic" not in protocols:
            raise InvalidSettingError(
                "group.coordinator.rebalance.protocols must name classic: it cannot be turned off"
            )

    def _check_connections(self) -> None:
        if self.integer("max.connections.per.ip") == 0 and not self.text("max.connections.per.ip.overrides"):
            raise InvalidSettingError(
                "max.connections.per.ip=0 lets nobody connect: name who may in max.connections.per.ip.overrides"
            )


def _named_in(error: InvalidSettingError, given: Mapping[str, str]) -> str | None:
    """The setting that was given and that the message names, the one with which it begins before all others."""
    named = {name: ALIASES.get(name, name) for name in given}

    def rank(name: str) -> tuple[bool, int]:
        return error.message.startswith(named[name]), len(name)

    return max((name for name in named if named[name] in error.message), key=rank, default=None)


def _refusal(name: str) -> str:
    reason = refused_reason(name)
    if reason is not None:
        return f"{name} is not supported: {reason}"  # its value may be a secret
    import difflib  # only who makes a mistake waits for it

    similar = difflib.get_close_matches(name, BROKER_SETTINGS, n=1)
    hint = f"; did you mean {similar[0]}?" if similar else ""
    return f"Unknown broker config name: {name}{hint}"
