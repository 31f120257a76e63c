"""Options as Spark hands them over: strings under names in which case does not matter.

The names are those of Spark's own Kafka source and sink, so a notebook migrates by a change from `format("kafka")` to
`format("ottla")`. Options that apply there and not here are ignored with a warning. An unknown name is refused:
otherwise an option with a typing error would silently do nothing.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from pyspark_ottla.ignored_options import IGNORED, reason_to_ignore

ENGINE_OPTIONS = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Options that Spark itself adds to those of a stream."""

logger = logging.getLogger("pyspark_ottla")

_warned: set[str] = set()
"""What this process has warned of. Spark makes a source anew for each of its questions."""


class OptionError(ValueError):
    """An option is missing, unknown or invalid. The message names it and what to write."""


def does_not_exist(what: str) -> OptionError:
    """The error for a topic or partition that does not exist."""
    return OptionError(f"{what} does not exist on the broker: check the name, or create the topic first")


def warn_once(name: str, reason: str) -> None:
    """Log a warning for an ignored option, once per process."""
    if name.lower() not in _warned:
        _warned.add(name.lower())
        logger.warning("option %s is ignored: %s", name, reason)


class Options:
    """The options of one read or write, each looked up by its documented spelling.

    `ignored` has the names of Spark's Kafka source and of Kafka's clients that are not in `known`, each with the reason
    why it changes nothing. Raises OptionError for a name that is neither.
    """

    def __init__(self, given: Mapping[str, str], known: Iterable[str]) -> None:
        spelling = {name.lower(): name for name in known}
        self._given: dict[str, str] = {}
        self.ignored: dict[str, str] = {}
        for key, value in given.items():
            name = spelling.get(key.lower())
            if name is not None:
                self._given[name] = value
            elif key.lower() not in ENGINE_OPTIONS:
                reason = reason_to_ignore(key)
                if reason is None:
                    raise OptionError(_unknown(key, spelling))
                self.ignored[key] = reason

    def warn_of_ignored(self) -> None:
        """Log a warning for each ignored option."""
        for name, reason in self.ignored.items():
            # Spark hands names over in lower case.
            written, _ = IGNORED.get(name.lower(), (name, reason))
            warn_once(written, reason)

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
        """Raise OptionError for a value other than `supported`, the only one that works here; case is ignored."""
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
        """The one of these options that is set. Raises OptionError for several, or none (`otherwise` is the hint)."""
        given = [name for name in names if name in self._given]
        if len(given) > 1:
            raise OptionError(f"options {' and '.join(given)} exclude each other: give one of them")
        if not given:
            raise OptionError(otherwise)
        return given[0]


def _unknown(key: str, spelling: Mapping[str, str]) -> str:
    names = {name: written for name, (written, _) in IGNORED.items()} | dict(spelling)
    close = get_close_matches(key.lower(), names, n=1)
    hint = f"did you mean {names[close[0]]}?" if close else f"known are {', '.join(sorted(spelling.values()))}"
    return f"unknown option {key}: {hint}"
