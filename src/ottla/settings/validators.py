"""Which values a setting allows beyond its type."""

from typing import Protocol

from msgspec import Struct

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


class ReplicaList(Struct, frozen=True):
    """Replicas as Kafka names them in settings: "partition:broker", or "*" for all."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return " of partition:broker, or *"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, tuple)
        for item in value:
            index, colon, broker_id = item.partition(":")
            if item != "*" and not (colon and index.isdecimal() and broker_id.isdecimal() and len(item) <= 21):
                return "must list replicas as partition:broker, or be *"
        return None


class OneOf(Struct, frozen=True):
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


class NotEmpty(Struct, frozen=True):
    """A text or list with something in it."""

    @property
    def allowed(self) -> str:
        """Which, in words that go on after the type."""
        return " that is not empty"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        return None if value else "must not be empty"
