"""One setting: its name, type, default, the values it allows, and what it does, in one value.

The tables of settings are `ottla.settings.topic_table` and `ottla.settings.broker_table`. A value travels and is kept
as text, as in Kafka's requests and property files; `SettingDefinition.parse` gives it its type.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Final, Protocol

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.lazy_dataclass import dataclass

SettingValue = bool | int | float | str | tuple[str, ...] | None
"""A typed value; None where a setting has neither a value nor a default."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

NO_EFFECT: Final = "It changes nothing yet: "
"""How the documentation of such a setting says so; the reason follows. `ottla topic` looks for it to warn."""

SHOWN_LENGTH_MAX: Final = 100
COMPLAINTS_MAX: Final = 10
"""How many settings of one resource a message names at most."""


class InvalidSettingError(ApiError):
    """A setting is unknown, not supported, or has a value it does not allow. The message names it."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


class Complaints:
    """What is wrong with the settings of one resource, to be said in one message: the first few of very many."""

    __slots__ = ("_count", "_messages")

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._count = 0

    def add(self, error: InvalidSettingError) -> None:
        """Note what is wrong with one setting."""
        self._count += 1
        if self._count <= COMPLAINTS_MAX:
            self._messages.append(error.message)

    def raise_any(self) -> None:
        """Raise InvalidSettingError with all of it, if there is any."""
        if self._count:
            more = self._count - len(self._messages)
            raise InvalidSettingError("; ".join(self._messages) + (f"; and {more} more" if more else ""))


class SettingType(IntEnum):
    """The type of a value; the numbers are those of DescribeConfigs version 3 (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


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


class Constraint(Protocol):
    """Which values of the right type a setting allows."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type: "of at least 4"."""
        ...

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        ...


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two bounds, both included, or one that stands beside them."""

    low: float
    high: float = LONG_MAX
    beside: int | None = None
    """A number outside the bounds that has a meaning of its own, as -1 has for "the codec's own"."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        beside = "" if self.beside is None else f", or {self.beside}"
        if self.high >= INT_MAX:
            return f" of at least {self.low}{beside}"
        return f" from {self.low} to {self.high}{beside}"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, int | float)
        if value == self.beside:
            return None
        beside = "" if self.beside is None else f", or {self.beside}"
        if value < self.low:
            return f"must be at least {self.low}{beside}"
        if value > self.high:
            return f"must be at most {self.high}{beside}"
        return None


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words, or, for a list, any of them without repetition."""

    choices: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return f": {' or '.join(self.choices)}"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        items = value if isinstance(value, tuple) else (value,)
        if any(item not in self.choices for item in items):
            return f"must be {' or '.join(self.choices)}"
        if len(set(items)) != len(items):
            return "must not name anything twice"
        return None


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """A text or list with something in it."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return " that is not empty"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        return None if value else "must not be empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDefinition:
    """A setting that is honoured."""

    name: str
    type: SettingType
    default: str | None
    """As text; None where there is none."""
    documentation: str
    """One or two sentences for the person who runs the broker."""
    no_effect: str | None = None
    """Why the setting changes nothing yet, though it is taken, kept and described; None when it does what it says."""
    constraint: Constraint | None = None
    importance: Importance = Importance.MEDIUM
    update_mode: UpdateMode = UpdateMode.READ_ONLY

    @property
    def full_documentation(self) -> str:
        """What it says wherever it is listed, with the word that it changes nothing where it does not."""
        return self.documentation if self.no_effect is None else f"{self.documentation} {NO_EFFECT}{self.no_effect}."

    @property
    def allowed(self) -> str:
        """Which values the setting takes: "a whole number of at least 4"."""
        return _KINDS[self.type] + ("" if self.constraint is None else self.constraint.allowed)

    def parse(self, text: str) -> SettingValue:
        """The typed value. Raises InvalidSettingError, which names the setting and what it allows."""
        try:
            value = _parse(self.type, text.strip())
        except ValueError as error:
            raise self._refusal(text, str(error) or f"it must be {self.allowed}") from None
        if self.constraint is not None:
            complaint = self.constraint.complaint(value)
            if complaint is not None:
                raise self._refusal(text, f"it {complaint}")
        return value

    def _refusal(self, text: str, reason: str) -> InvalidSettingError:
        return InvalidSettingError(f"{self.name}={shortened(text)!r} is refused: {reason}")

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


def parse_list(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list, trimmed; empty text is an empty list."""
    stripped = text.strip()
    return tuple(item.strip() for item in stripped.split(",")) if stripped else ()


def format_value(value: SettingValue) -> str | None:
    """A value as text, the way Kafka writes it.

    >>> format_value(True), format_value(("compact", "delete")), format_value(5)
    ('true', 'compact,delete', '5')
    """
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def shortened(text: str) -> str:
    """A text of a stranger as a message may repeat it: its first hundred characters."""
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}..."


_KINDS: Final = {
    SettingType.BOOLEAN: "true or false",
    SettingType.STRING: "a text",
    SettingType.INT: "a whole number",
    SettingType.SHORT: "a whole number",
    SettingType.LONG: "a whole number",
    SettingType.DOUBLE: "a number",
    SettingType.LIST: "a list, separated by commas",
}

_BITS: Final = {SettingType.SHORT: 16, SettingType.INT: 32, SettingType.LONG: 64}


def _parse(kind: SettingType, text: str) -> SettingValue:
    """The typed value; ValueError without a word when the text is not of the type, otherwise with the reason."""
    match kind:
        case SettingType.BOOLEAN:
            return _parse_boolean(text)
        case SettingType.LIST:
            return parse_list(text)
        case SettingType.DOUBLE:
            return _parse_double(text)
        case SettingType.STRING:
            return text
        case _:
            return _parse_integer(text, _BITS[kind])


def _parse_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError


def _parse_integer(text: str, bits: int) -> int:
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()) or len(text) - len(digits) > 1:
        raise ValueError
    limit = 1 << (bits - 1)
    if len(digits) > 20 or not -limit <= int(text) < limit:
        raise ValueError(f"it must fit in {bits} bits")
    return int(text)


def _parse_double(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError from None
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError
    return value
