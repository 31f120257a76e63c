"""Where a row came from: a column that goes with it from step to step, so that a refused row is a whole record again.

`_record` is a struct of the record (topic, partition, offset, timestamp, key, value, headers). A step that makes new
rows out of many has none. It costs nothing where nobody asks for it: Spark moves the columns that are used.
"""

import re
from typing import Final

ORIGIN: Final = "_record"

_PLAIN_SELECT = re.compile(r"\s*select\s+(?!distinct\b|all\b|/\*\+|transform\s*\()", re.IGNORECASE)
_GROUPING = re.compile(r"\b(group\s+by|union|intersect|except|minus|order\s+by|sort\s+by|limit)\b", re.IGNORECASE)


def with_origin(sql: str) -> str | None:
    """The query with the origin as another column, if its rows come from single rows; None if that is not certain.

    Spark refuses the result where the origin is not known, is known twice or would have to be grouped by: then the
    query stands as it was written, and its rows have no origin.

    >>> with_origin("select flight, delay / 60 as hours from events")
    'select _record, flight, delay / 60 as hours from events'
    >>> with_origin("select carrier, count(*) from events group by all")
    """
    start = _PLAIN_SELECT.match(sql)
    if start is None or _GROUPING.search(sql):
        return None
    return f"{sql[: start.end()]}{ORIGIN}, {sql[start.end() :]}"
