"""From records to events, and what is wrong with those that are none."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

_SCHEMA = """
    event string, flight string, carrier string, origin string, dest string,
    scheduled_at timestamp, at timestamp, delay_min int, malformed string
"""
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "malformed"}
_FLIGHT_EVENTS = ("scheduled", "departed", "arrived")
_CLOCK_EVENT = "clock"
"""Says only that nothing that was scheduled before will come any more; it belongs to no flight."""
_ALWAYS = ("event", "flight", "carrier", "origin", "dest", "scheduled_at")
_ONCE_HAPPENED = ("at", "delay_min")


def decode(records: DataFrame, airlines: DataFrame, airports: DataFrame) -> DataFrame:
    """The records with the fields of their events, the names that these refer to, and whether the event is `good`."""
    decoded = records.withColumn("decoded", f.from_json(_text(), _SCHEMA, _OPTIONS)).select("*", "decoded.*")
    return (
        decoded.drop("decoded")
        .join(f.broadcast(_renamed(airlines, "carrier", "airline")), "carrier", "left")
        .join(f.broadcast(_renamed(airports, "dest", "airport")), "dest", "left")
        .withColumn("good", f.coalesce(_is_flight_event() | _is_clock_event(), f.lit(False)))
    )


def reason() -> Column:
    """Why an event is not good: the first that is true, so that a record with several faults has one reason."""
    missing = f.concat_ws(
        ", ",
        *(f.when(f.col(name).isNull(), f.lit(name)) for name in _ALWAYS),
        *(f.when(_happened() & f.col(name).isNull(), f.lit(name)) for name in _ONCE_HAPPENED),
    )
    return (
        f.when(f.col("value").isNull(), "no value")
        .when(~f.is_valid_utf8(_text()), "not UTF-8")
        .when(f.col("malformed").isNotNull() & f.try_parse_json(_text()).isNull(), "not JSON")
        .when(f.col("malformed").isNotNull(), "wrong type")
        .when(missing != "", f.concat(f.lit("missing: "), missing))
        .when(~f.col("event").isin(*_FLIGHT_EVENTS), f.concat(f.lit("unknown event: "), "event"))
        .otherwise(f.concat(f.lit("unknown carrier: "), "carrier"))
    )


def _is_flight_event() -> Column:
    complete = f.col("malformed").isNull() & f.col("airline").isNotNull()
    for name in _ALWAYS:
        complete &= f.col(name).isNotNull()
    happened = _happened()
    for name in _ONCE_HAPPENED:
        happened &= f.col(name).isNotNull()
    return f.is_valid_utf8(_text()) & complete & ((f.col("event") == "scheduled") | happened)


def _is_clock_event() -> Column:
    return (f.col("event") == _CLOCK_EVENT) & f.col("scheduled_at").isNotNull()


def _happened() -> Column:
    return f.col("event").isin("departed", "arrived")


def _text() -> Column:
    return f.col("value").cast("string")


def _renamed(names: DataFrame, key: str, name: str) -> DataFrame:
    return names.select(f.col("code").alias(key), f.col("name").alias(name))
