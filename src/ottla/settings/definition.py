"""One setting: its name, type, default, the values it allows, when it applies and what it does, in one value.

The tables of settings are `ottla.settings.topic_table` and `ottla.settings.broker_table`. A value travels and is kept
as text, as in Kafka's requests and property files; `SettingDefinition.parse` gives it its type.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.settings.validators import OneOf, Validator
from ottla.settings.value import SettingType, SettingValue, format_value, parse_value, trimmed

NO_EFFECT: Final = "Not implemented yet: "
"""How the documentation of such a setting says so; the reason follows. `ottla topic` looks for it to warn."""

VALUE_LENGTH_MAX: Final = 32_767
"""Characters of a value, as in Kafka: every value is kept in the metadata, in memory, and described."""

SHOWN_LENGTH_MAX: Final = 100
COMPLAINTS_MAX: Final = 10
"""How many settings of one resource a message names at most."""


class Complaint(NamedTuple):
    """What is wrong with one setting."""

    setting: str | None
    """As it was given; None where it is not one setting alone."""
    message: str


class InvalidSettingError(ApiError):
    """A setting is unknown, not supported, or has a value it does not allow. The message names it.

    `complaints` has more than one where several settings were checked together.
    """

    def __init__(self, message: str, complaints: Sequence[Complaint] = ()) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)
        self.complaints = tuple(complaints) or (Complaint(None, message),)


class Complaints:
    """What is wrong with the settings of one resource, to be said in one message: the first few of very many."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: list[Complaint] = []

    def add(self, error: InvalidSettingError, setting: str | None = None) -> None:
        """Note what is wrong with one setting."""
        self._all.append(Complaint(setting, error.message))

    @property
    def settings(self) -> frozenset[str]:
        """The settings that something is wrong with, as they were given."""
        return frozenset(each.setting for each in self._all if each.setting is not None)

    def raise_any(self) -> None:
        """Raise InvalidSettingError with all of it, if there is any."""
        if self._all:
            said = [complaint.message for complaint in self._all[:COMPLAINTS_MAX]]
            more = len(self._all) - len(said)
            raise InvalidSettingError("; ".join(said) + (f"; and {more} more" if more else ""), self._all)


class Importance(Enum):
    """How likely it is that an operator cares."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """Where a setting may be changed while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    """Only in the file or on the command line; takes effect at start."""
    PER_BROKER = "per-broker"
    """At any time, for one broker by its number."""
    CLUSTER_WIDE = "cluster-wide"
    """At any time, for one broker or as the default of all; a topic's own settings are of this kind too."""


class SettingDefinition(Struct, frozen=True, kw_only=True):
    """A setting that is honoured."""

    name: str
    type: SettingType
    default: str | None
    """As text; None where there is none."""
    documentation: str
    """One or two sentences for the person who runs the broker."""
    no_effect: str | None = None
    """Why the setting changes nothing yet, though it is taken, kept and described; None when it does what it says."""
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    update_mode: UpdateMode = UpdateMode.READ_ONLY

    @property
    def full_documentation(self) -> str:
        """The documentation, with a mark where the setting has no effect yet."""
        return self.documentation if self.no_effect is None else f"{self.documentation} {NO_EFFECT}{self.no_effect}."

    @property
    def is_secret(self) -> bool:
        """Whether its value is shown to nobody."""
        return self.type is SettingType.PASSWORD

    @property
    def allowed(self) -> str:
        """Which values the setting takes: "a whole number of at least 4"."""
        return _KINDS[self.type] + ("" if self.validator is None else self.validator.allowed)

    def parse(self, text: str) -> SettingValue:
        """The typed value. Raises InvalidSettingError, which names the setting and what it allows."""
        if len(text) > VALUE_LENGTH_MAX:
            raise self._refusal(text, f"it must have at most {VALUE_LENGTH_MAX} characters")
        try:
            value = parse_value(self.type, trimmed(text))
        except ValueError as error:
            must = str(error) or f"it must be {self.allowed}"
            if self.type is SettingType.BOOLEAN:
                must = "Expected value to be either true or false"
            elif self.type in _NUMBERS:
                must = f"Not a number of type {self.type.name}; {must}"
            raise self._refusal(text, must) from None
        if isinstance(value, tuple) and isinstance(self.validator, OneOf):
            value = tuple(dict.fromkeys(value))
        if self.validator is not None:
            complaint = self.validator.complaint(value)
            if complaint is not None:
                raise self._refusal(text, f"it {complaint}")
        return value

    def _refusal(self, text: str, reason: str) -> InvalidSettingError:
        value = "" if self.is_secret else f" {shortened(_IN_A_URL.sub('...', trimmed(text)))}"
        return InvalidSettingError(f"Invalid value{value} for configuration {self.name}: {reason}")

    def canonical(self, text: str) -> str:
        """The text as it is kept and described, the same for all texts of one value. Raises InvalidSettingError.

        >>> SettingDefinition(name="a", type=SettingType.INT, default=None, documentation="").canonical(" +5 ")
        '5'
        """
        return format_value(self.parse(text)) or ""

    def shown(self, text: str) -> str:
        """The text as it is described: `canonical`, or what another release kept and this one refuses, as it is."""
        try:
            return self.canonical(text)
        except InvalidSettingError:
            return text

    @property
    def default_value(self) -> SettingValue:
        """The default with its type."""
        return None if self.default is None else self.parse(self.default)


SettingTable = Mapping[str, SettingDefinition]


def setting_table(definitions: Iterable[SettingDefinition]) -> SettingTable:
    """Definitions by name, sorted; a name that occurs twice is our mistake."""
    table: dict[str, SettingDefinition] = {}
    for definition in sorted(definitions, key=lambda each: each.name):
        assert definition.name not in table, definition.name
        table[definition.name] = definition
    return MappingProxyType(table)


def shortened(text: str) -> str:
    """A text of a stranger as a message may repeat it: its first hundred characters."""
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}..."


_IN_A_URL: Final = re.compile(r"(?<=://)[^/?#]*(?=@)")
"""A name and a password in a URL, which no message repeats."""
_NUMBERS: Final = frozenset({SettingType.INT, SettingType.SHORT, SettingType.LONG, SettingType.DOUBLE})

_KINDS: Final = {
    SettingType.BOOLEAN: "true or false",
    SettingType.STRING: "a string",
    SettingType.INT: "a whole number",
    SettingType.SHORT: "a whole number",
    SettingType.LONG: "a whole number",
    SettingType.DOUBLE: "a number",
    SettingType.LIST: "a list, separated by commas",
    SettingType.PASSWORD: "a secret",
}
