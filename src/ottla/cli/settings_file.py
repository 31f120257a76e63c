"""Files of settings, `key=value` lines, and where each setting of a command came from."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.settings.definition import InvalidSettingError


class FileSetting(NamedTuple):
    """A value, and the place to look at when it is wrong: `server.properties:7`."""

    value: str
    place: str


class SettingsFile(NamedTuple):
    """What a file says."""

    settings: dict[str, FileSetting]
    mistakes: list[str]
    """Lines that cannot be read, each with its place."""


STDIN = Path("-")


def read_settings_file(path: Path) -> SettingsFile:
    """Read the file, or standard input for `-`. Raises OSError."""
    from ottla.settings.properties import read_properties

    data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return SettingsFile({}, [f"{path}:{line}: the file is not UTF-8 text: save it as UTF-8"])
    properties, bad = read_properties(text)
    return SettingsFile(
        {name: FileSetting(each.value, f"{path}:{each.line}") for name, each in properties.items()},
        [f"{path}:{each.line}: {each.reason}" for each in bad],
    )


def with_places(error: "InvalidSettingError", places: Mapping[str, str]) -> list[str]:
    """A line for each setting that is wrong, with its place where that is known, in the order of the places."""
    order = {name: number for number, name in enumerate(places)}
    complaints = sorted(error.complaints, key=lambda each: order.get(each.setting or "", len(order)))
    found = [(None if each.setting is None else places.get(each.setting), each.message) for each in complaints]
    return [message if place is None else f"{place}: {message}" for place, message in found]
