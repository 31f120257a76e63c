"""Compares what came out with what had to come out.

Every function returns sentences, one for each difference: an empty list is what everybody hopes for.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from examples.flights.planted import Malformed
from examples.flights.producer import Origin
from examples.flights.read_back import DeadLetter

SHOWN = 5
"""So many differences of one kind are told one by one; the rest is counted."""
_KEYS = ["hour", "carrier"]
_EVENT_KEYS = ["flight", "scheduled_at", "event"]


def same_windows(found: pd.DataFrame, expected: pd.DataFrame, what: str) -> list[str]:
    """Whether two tables have the same rows, in whatever order, with the same value in every column."""
    columns = list(expected.columns)
    if set(found.columns) != set(columns):
        return [f"{what} has columns {sorted(found.columns)}, not {sorted(columns)}"]
    found, expected = (_in_order(table[columns]) for table in (found, expected))
    doubled = found.index[found.index.duplicated()]
    if len(doubled):
        return _told([f"{what} has {_name(key)} more than once" for key in doubled.unique()])
    missing, extra = expected.index.difference(found.index), found.index.difference(expected.index)
    differences = _told([f"{what} lacks {_name(key)}" for key in missing])
    differences += _told([f"{what} has {_name(key)}, which no flight belongs to" for key in extra])
    both = expected.index.intersection(found.index)
    for column in found.columns:
        is_, should = found.loc[both, column], expected.loc[both, column]
        wrong = both[~((is_ == should) | (is_.isna() & should.isna())).fillna(False)]
        differences += _told(
            [f"{what}, {_name(key)}: {column} is {is_[key]} and should be {should[key]}" for key in wrong]
        )
    return differences


def same_events(found: Any, expected: Any, what: str) -> list[str]:
    """Whether two Arrow tables have the same events, each once, in whatever order, with the same value everywhere."""
    if set(found.column_names) != set(expected.column_names):
        return [f"{what} has columns {sorted(found.column_names)}, not {sorted(expected.column_names)}"]
    found = found.select(expected.column_names).cast(expected.schema)
    order = [(name, "ascending") for name in _EVENT_KEYS]
    found, expected = (table.sort_by(order).combine_chunks() for table in (found, expected))
    if found.equals(expected):
        return []
    told, wanted = Counter(_rows(found)), Counter(_rows(expected))
    missing, extra = wanted - told, told - wanted
    return _told([f"{what} lacks {_event(row)}" for row in missing.elements()]) + _told(
        [f"{what} has {_event(row)} once too often, or with another value" for row in extra.elements()]
    )


def same_dead_letters(
    found: Sequence[DeadLetter], planted: Mapping[int, Malformed], origins: Mapping[int, Origin], topic: str
) -> list[str]:
    """Whether exactly the malformed events were refused, unchanged, each with its reason and its origin."""
    wanted = Counter(
        DeadLetter(
            each.key, each.value, each.step, each.reason, topic, origin.partition, origin.offset, origin.timestamp_ms
        )
        for place, each in planted.items()
        for origin in [origins[place]]
    )
    got = Counter(found)
    return _told([f"a dead letter is missing: {letter.to_json()}" for letter in (wanted - got).elements()]) + _told(
        [f"a dead letter is not expected: {letter.to_json()}" for letter in (got - wanted).elements()]
    )


def same_number(found: int | None, expected: int, what: str) -> list[str]:
    """Whether a count is right."""
    if found == expected:
        return []
    return [f"{what}: {'not counted' if found is None else f'{found:,}'}, and should be {expected:,}"]


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    numbers = table.select_dtypes("number").columns
    table = table.astype(dict.fromkeys(numbers, "Int64"))
    return table.assign(hour=table["hour"].dt.as_unit("s")).set_index(_KEYS).sort_index()


def _name(key: tuple[pd.Timestamp, str]) -> str:
    hour, carrier = key
    return f"the window of {carrier} at {hour:%Y-%m-%d %H:00} UTC"


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [*zip(*(column.to_pylist() for column in table.columns), strict=True)]


def _event(row: tuple[Any, ...]) -> str:
    return " ".join(str(value) for value in row)


def _told(differences: list[str]) -> list[str]:
    more = len(differences) - SHOWN
    return differences[:SHOWN] + ([f"... and {more:,} more like this"] if more > 0 else [])
