"""Options as Spark hands them over: strings under names in which case does not matter.

The names are those of Spark's own Kafka source and sink, so that a notebook moves over by changing `format("kafka")` to
`format("ottla")`. A name that means nothing here is refused: an option with a typing error would otherwise be an option
that silently does nothing.
"""

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

ENGINE_OPTIONS = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""What Spark itself puts among the options of a stream; not ours to refuse."""

WITHOUT_MEANING = {
    "kafka.group.id": "reading does not join a consumer group",
    "groupidprefix": "reading does not join a consumer group",
    "fetchoffset.numretries": "offsets are asked for until kafka.default.api.timeout.ms has passed",
    "fetchoffset.retryintervalms": "set kafka.retry.backoff.ms",
    "kafkaconsumer.polltimeoutms": "set kafka.request.timeout.ms",
    "path": "name topics with subscribe, subscribePattern or assign",
}
"""Options of Spark's Kafka source, or of other sources, that people bring along, and what to say to them."""


class OptionError(ValueError):
    """An option is missing, unknown or unusable. The message names it and says what to write."""


def does_not_exist(what: str) -> OptionError:
    """The error for a topic or a partition that was named and is not there."""
    return OptionError(f"{what} does not exist on the broker: check the name, or create the topic first")


class Options:
    """The options of one read or write, each looked up by its documented spelling.

    Raises OptionError for a name that is not in `known`.
    """

    def __init__(self, given: Mapping[str, str], known: Iterable[str]) -> None:
        spelling = {name.lower(): name for name in known}
        self._given: dict[str, str] = {}
        for key, value in given.items():
            name = spelling.get(key.lower())
            if name is not None:
                self._given[name] = value
            elif key.lower() not in ENGINE_OPTIONS:
                raise OptionError(_unknown(key, spelling))

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str) -> str | None:
        """The value without white space around it, or None when it was not given or is empty."""
        return self._given.get(name, "").strip() or None

    def integer(self, name: str, default: int, *, minimum: int = 1) -> int:
        """A whole number, not below `minimum`."""
        text = self.text(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            raise OptionError(f"option {name}: {text!r} is not a whole number") from None
        if value < minimum:
            raise OptionError(f"option {name} must be at least {minimum}, not {value}")
        return value

    def boolean(self, name: str, *, default: bool) -> bool:
        """`true` or `false`."""
        return self.choice(name, ("true", "false"), "true" if default else "false") == "true"

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """One of a few words, in lower case."""
        choices = tuple(choices)
        value = (self.text(name) or default).lower()
        if value not in choices:
            raise OptionError(f"option {name} must be {' or '.join(choices)}, not {value!r}")
        return value

    def require(self, name: str, supported: tuple[str, ...]) -> None:
        """Refuse every other value of an option that exists in Kafka and has no choice here, in whatever case."""
        value = self.text(name)
        if value is not None and value.lower() not in supported:
            raise OptionError(f"option {name}: only {supported[0]} is supported, not {value!r}")

    def json_object(self, name: str) -> dict[str, Any] | None:
        """A JSON object, or None when the option was not given."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = json.loads(text)
        except ValueError as error:
            raise OptionError(f"option {name}: {text!r} is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise OptionError(f"option {name} must be a JSON object, not {text!r}")
        return value

    def exactly_one(self, names: tuple[str, ...], *, otherwise: str) -> str:
        """Which of these was given. `otherwise` says what to write when none was."""
        given = [name for name in names if name in self._given]
        if len(given) > 1:
            raise OptionError(f"options {' and '.join(given)} exclude each other: give one of them")
        if not given:
            raise OptionError(otherwise)
        return given[0]


def _unknown(key: str, spelling: Mapping[str, str]) -> str:
    reason = WITHOUT_MEANING.get(key.lower())
    if reason is not None:
        return f"option {key} has no meaning here ({reason}): leave it out"
    close = get_close_matches(key.lower(), spelling, n=1)
    hint = f"did you mean {spelling[close[0]]}?" if close else f"known are {', '.join(sorted(spelling.values()))}"
    return f"unknown option {key}: {hint}"
