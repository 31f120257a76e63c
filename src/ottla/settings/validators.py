"""Which values a setting allows beyond its type."""

import re
from typing import Final, Protocol

from msgspec import Struct

from ottla.model.errors import ApiError
from ottla.model.topic_name import is_internal_topic, validate_topic_name
from ottla.settings.value import INT_MAX, LONG_MAX, SettingValue


class Validator(Protocol):
    """Which values of the right type a setting allows (Kafka's `ConfigDef.Validator`)."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type: "of at least 4"."""
        ...

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        ...


class Range(Struct, frozen=True):
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


_WEIGHT: Final = re.compile(r"[1-9]\d{0,2}|1000", re.ASCII)

_REPLICA: Final = re.compile(r"(\d{1,10}:\d{1,10})?", re.ASCII)


class ReplicaList(Struct, frozen=True):
    """Replicas as Kafka names them in settings: "partition:broker", or "*" alone for all.

    An item without anything, as after a comma at the end, is allowed and means nothing.
    """

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return " of partition:broker, or * alone"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, tuple)
        if value == ("*",) or all(map(_REPLICA.fullmatch, value)):
            return None
        return "must be the literal '*' or a list of replicas, each as partition:broker"


class OneOf(Struct, frozen=True):
    """One of a few words, or, for a list, any of them; a word that is repeated counts once."""

    choices: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return f": {' or '.join(each or 'nothing' for each in self.choices)}"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        items = value if isinstance(value, tuple) else (value,)
        if any(item not in self.choices for item in items):
            return f"must be one of: {', '.join(each or 'nothing' for each in self.choices)}"
        return None


class Weights(Struct, frozen=True):
    """Whole numbers from 1 to 1000, none or 2 to 10 of them."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return " of 2 to 10 whole numbers from 1 to 1000, or nothing"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, tuple)
        if not value or (2 <= len(value) <= 10 and all(map(_WEIGHT.fullmatch, value))):
            return None
        return "must be 2 to 10 whole numbers from 1 to 1000, or nothing"


class Length(Struct, frozen=True):
    """A text of so many characters, or more."""

    low: int

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return f" of at least {self.low} characters"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, str)
        return None if len(value) >= self.low else f"must have at least {self.low} characters"


class NotZero(Struct, frozen=True):
    """A number other than 0; all that are negative mean "without limit"."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return " of at least 1, or a negative one for no limit"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        return "must be unlimited (-1), or greater than or equal to 1" if value == 0 else None


class OnlyFalse(Struct, frozen=True):
    """A switch of something that is not there."""

    why: str

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return f"; here only false: {self.why}"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        return f"must be false: {self.why}" if value else None


class NotEmpty(Struct, frozen=True):
    """A text or list with something in it."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return " that is not empty"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        return None if value else "must not be empty"


class WritableTopic(Struct, frozen=True):
    """The name of a topic that anybody may write to, whether or not it is there, or nothing."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return " that can be the name of a topic, or empty"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, str)
        if not value:
            return None
        try:
            validate_topic_name(value)
        except ApiError:
            return "must be the name of a topic: up to 249 letters, digits, dots, underscores and hyphens"
        return "must not be a topic that holds a coordinator's state" if is_internal_topic(value) else None
