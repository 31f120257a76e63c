"""Dead letters as columns of a DataFrame: what a sink needs to write a refused row as `headers.py` describes it.

Nothing here starts Spark or evaluates anything: the columns become part of the plan of the query.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

from ottla.pipelines.dead_letters.headers import PREFIX, REFUSAL_PREFIXES, REPLAYS

RECORD_COLUMNS: Final = ("topic", "key", "value", "headers", "timestamp")
"""The columns that `dead_letter` returns, in order. Rows that are written together with letters have the same ones."""

REASON_CHARS_MAX: Final = 2_000
"""The maximum number of characters of a reason: one that quotes the row could make the record too large."""

HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"
"""The type of record headers, as in Spark's Kafka source."""

_ORIGIN: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def origin(columns: Iterable[str], *, whole: bool = True) -> Column:
    """A struct of the record that a row was read from, made from the available columns of the source.

    A step that may refuse rows needs it beside its own columns. Headers are there when the source was asked for them
    (`includeHeaders`): without them a letter has not the headers of its record, and a record that was sent back cannot
    be told from a new one. Where no letter is made of it, it need not be `whole`: key, value and headers are null then,
    and the rows half as large.
    """
    there = set(columns)
    left_out = set() if whole else {"key", "value", "headers"}
    fields = [
        f.lit(None).cast("binary").alias(name) if name in left_out else f.col(name)
        for name in _ORIGIN
        if name in there and name != "headers"
    ]
    headers = f.col("headers") if "headers" in there - left_out else f.lit(None)
    return f.struct(*fields, headers.cast(HEADERS_TYPE).alias("headers"))


def dead_letter(
    *,
    topic: str,
    pipeline: str,
    step: str | Column,
    reason: str | Column,
    error_class: str | Column | None = None,
    origin: Column | None = None,
    value: Column | None = None,
    batch: int | Column | None = None,
) -> list[Column]:
    """The `RECORD_COLUMNS` of a refused row, for `select`. `topic` is the topic of letters; text is a literal.

    `origin` is a struct as `origin()` makes it: its key and value are the letter's. A row that is not of one record,
    such as that of a window, has none; its letter's value is then `value`, for instance `to_json(struct("*"))`. The
    timestamp is null, which is the time of writing: a letter would else be as old as its record, and expire with it.
    A record that was sent back twice is refused at the third attempt.
    """
    no_text = f.lit(None).cast("string")

    def of_origin(name: str) -> Column:
        return no_text if origin is None else origin[name]

    own = f.lit(None).cast(HEADERS_TYPE) if origin is None else origin["headers"].cast(HEADERS_TYPE)
    own = f.coalesce(own, f.array().cast(HEADERS_TYPE))
    counts = f.filter(own, lambda header: header["key"] == REPLAYS)
    replays = f.coalesce(f.try_element_at(counts, f.lit(-1))["value"].cast("string").try_cast("int"), f.lit(0))
    timestamp_ms = no_text if origin is None else f.unix_millis(origin["timestamp"])
    said = [
        ("topic", of_origin("topic")),
        ("partition", of_origin("partition")),
        ("offset", of_origin("offset")),
        ("timestamp", timestamp_ms),
        ("pipeline", f.lit(pipeline)),
        ("step", _column(step)),
        ("exception", _column(error_class)),
        ("message", f.substring(_column(reason).cast("string"), 1, REASON_CHARS_MAX)),
        ("attempt", no_text if origin is None else replays + 1),
        ("batch", _column(batch)),
        ("replays", replays),
    ]
    headers = f.array(
        *(
            f.struct(f.lit(PREFIX + name).alias("key"), column.cast("string").cast("binary").alias("value"))
            for name, column in said
        )
    )
    kept = f.filter(own, lambda header: ~_any_prefix(header["key"]))
    added = f.filter(headers, lambda header: header["value"].isNotNull())
    return [
        f.lit(topic).alias("topic"),
        of_origin("key").cast("binary").alias("key"),
        (of_origin("value") if value is None else value).cast("binary").alias("value"),
        f.concat(kept, added).cast(HEADERS_TYPE).alias("headers"),
        f.lit(None).cast("timestamp").alias("timestamp"),
    ]


def _column(value: str | int | Column | None) -> Column:
    return value if isinstance(value, Column) else f.lit(value)


def _any_prefix(name: Column) -> Column:
    found = f.lit(False)
    for prefix in REFUSAL_PREFIXES:
        found = found | name.startswith(prefix)
    return f.coalesce(found, f.lit(False))
