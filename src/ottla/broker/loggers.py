"""How much this process says: the levels of its loggers, which are described and changed as settings of a resource of
their own (KIP-412). What is set holds until the process ends.

Names are those of Python's loggers, `ottla.network` for what is in that package; a logger without a level of its own
has that of the nearest one above it. Levels have the names of Apache Kafka's.
"""

import logging
from collections.abc import Sequence
from typing import Final

from ottla.broker.config_entry import ConfigEntry, ConfigSource
from ottla.metadata.controller.config_alteration import Alteration, AlterOperation
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.settings.definition import shortened
from ottla.settings.value import SettingType

ROOT: Final = "ottla"
"""The logger above all others: its level is always its own."""

TRACE: Final = 5
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
"""What may be set, by Kafka's names."""

_DOCUMENTATION: Final = f"The level of the logger: {', '.join(LEVELS)}."


class BrokerLoggers:
    """The loggers of this process, as a resource named by the broker's id. Belongs to the event loop."""

    __slots__ = ("_node_id",)

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id

    def describe(self, broker: str) -> tuple[ConfigEntry, ...]:
        """The level that holds for each logger, by name. Raises ApiError INVALID_REQUEST for another broker."""
        self._require_own(broker)
        return tuple(_entry(name) for name in sorted(_names()))

    def alter(self, broker: str, alterations: Sequence[Alteration], *, validate_only: bool = False) -> None:
        """Set levels, or with DELETE have those of the loggers above hold: all of them or none.

        Raises ApiError INVALID_REQUEST (another broker, another operation, the level of the root deleted) and
        INVALID_CONFIG (no such logger or level).
        """
        self._require_own(broker)
        levels = {each.name: _level_of(each) for each in alterations}
        if not validate_only:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)

    def _require_own(self, broker: str) -> None:
        if broker != str(self._node_id):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._node_id} but received {shortened(broker)!r}: each knows its "
                "own loggers",
            )


def _names() -> list[str]:
    known = logging.Logger.manager.loggerDict
    below = [name for name, each in known.items() if name.startswith(f"{ROOT}.") and isinstance(each, logging.Logger)]
    return [ROOT, *below]


def _entry(name: str) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=_name_of(logging.getLogger(name).getEffectiveLevel()),
        source=ConfigSource.DYNAMIC_BROKER_LOGGER,
        is_read_only=False,
        type=SettingType.STRING,
        documentation=_DOCUMENTATION,
        synonyms=(),
    )


def _name_of(level: int) -> str:
    """The name of the least level that says no more."""
    return next((name for name, least in reversed(LEVELS.items()) if level <= least), "FATAL")


def _level_of(asked: Alteration) -> int:
    if asked.name not in _names():
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"Logger {shortened(asked.name)} does not exist; the root logger is {ROOT}"
        )
    if asked.operation is AlterOperation.DELETE:
        if asked.name == ROOT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Removing the log level of the root logger is not allowed: {ROOT}"
            )
        return logging.NOTSET
    if asked.operation is not AlterOperation.SET:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a level is set or deleted")
    level = LEVELS.get((asked.value or "").upper())
    if level is None:
        said = shortened(asked.value or "")
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"{said!r} is not a supported log level; there are {', '.join(LEVELS)}"
        )
    return level
