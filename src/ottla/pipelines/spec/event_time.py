"""Shifts event times by thousands of years for Spark, whose watermark begins in 1970 and drops earlier rows.

```
 time of a row        to Spark              windows and watermarks, back again
 1959-06-01T10:00Z    13959-06-01T10:00Z    1959-06-01T10:00Z
```

Both numbers of years are whole cycles of the calendar, 400 years, so only the year of a time changes.
"""

from typing import Final

ANY_YEAR: Final = 12_000
"""The shift of pipelines. Times lie in the years 1 to 9999, so shifted ones do in 12001 to 21999: all after 1970, and
after any delay."""
IN_PYTHON: Final = 4_000
"""The shift beside a `state` step with a time: Spark gives it the shifted column, and times of Python end in 9999."""
AHEAD_YEARS_MAX: Final = 500
"""The maximum that times may be ahead of the clock with the shift `IN_PYTHON`, in years."""
_DELAY_YEARS: Final = 1_000
"""A watermark may be so far behind the first time there is, and is still known as a shifted one."""
_NONE: Final = "1970-01-01T00:00:00.000Z"
"""Of a query that has no watermark yet."""


def shift_ms(years: int) -> int:
    """The duration of a shift by a multiple of 400 years, in milliseconds.

    >>> shift_ms(400) == 146_097 * 24 * 3600 * 1000
    True
    """
    return years // 400 * 146_097 * 86_400_000


def watermark_of(said: str | None, years: int) -> str | None:
    """The watermark of a query's progress, shifted back; None if there is none yet. `years` is the shift.

    >>> watermark_of("+14013-06-01T10:00:00.000Z", ANY_YEAR), watermark_of("6013-06-01T10:00:00.000Z", IN_PYTHON)
    ('2013-06-01T10:00:00.000Z', '2013-06-01T10:00:00.000Z')
    >>> watermark_of("2013-06-01T10:00:00.000Z", ANY_YEAR), watermark_of(_NONE, ANY_YEAR)
    ('2013-06-01T10:00:00.000Z', None)
    """
    if said is None or said == _NONE:
        return None
    # Years of more than four digits have a sign in front (ISO 8601).
    year, dash, rest = said.removeprefix("+").partition("-")
    # Rows have no times so late; a watermark before is one that is not shifted.
    if not year.isdecimal() or int(year) < years - _DELAY_YEARS or not years:
        return said
    return f"{max(int(year) - years, 0):04}{dash}{rest}"
