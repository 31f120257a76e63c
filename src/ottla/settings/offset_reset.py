"""Where a reader begins that has no position: `earliest`, `latest`, or some time ago, as `by_duration:PT1H`."""

import re
from typing import Final

from ottla.settings.value import SettingValue

_DURATION: Final = re.compile(r"P(?!$)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", re.ASCII | re.IGNORECASE)
"""An ISO 8601 duration in days and parts of them that is not negative."""


_PARTS_MS: Final = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1_000}


def duration_ms(text: str) -> int:
    """An ISO 8601 duration in milliseconds.

    >>> duration_ms("P1DT1H30M0.5S")
    91800500
    """
    total = 0.0
    for number, unit in re.findall(r"(\d+(?:\.\d+)?)([DHMS])", text.upper()):
        total += float(number) * _PARTS_MS[unit]
    return round(total)


class OffsetReset:
    """Allows the three of them."""

    allowed = ": earliest, latest, or by_duration: and an ISO 8601 duration"

    def complaint(self, value: SettingValue) -> str | None:
        """What a value should have been, or None when it is allowed."""
        assert isinstance(value, str)
        kind, _, duration = value.partition(":")
        if value in ("earliest", "latest") or (kind == "by_duration" and _DURATION.fullmatch(duration)):
            return None
        return "must be earliest, latest or by_duration:DURATION, with an ISO 8601 duration such as PT1H30M"
