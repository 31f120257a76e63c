"""DataFrames of record positions (topic, partition, offset), for joins with records."""

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""
PLACE: Final = ("topic", "partition", "offset")
RAISED: Final = "_raised"
"""The column that marks records for which an expression failed."""


def rows_of(spark: SparkSession, rows: Sequence[tuple[Any, ...]], also: Sequence[str] = ()) -> DataFrame:
    """Positions as rows, followed by other columns of text."""
    import pyarrow as pa

    kinds = {"partition": pa.int32(), "offset": pa.int64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in (*PLACE, *also)])
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))


def marked(records: DataFrame, places: Sequence[Place]) -> DataFrame:
    """The records with the column `RAISED`; their order stays."""
    named = rows_of(records.sparkSession, places).withColumn(RAISED, f.lit(True))
    joined = records.join(f.broadcast(named), [*PLACE], "left")
    return joined.withColumn(RAISED, f.coalesce(f.col(RAISED), f.lit(False)))


def raised() -> Column:
    """The condition that a marked record is one for which an expression failed."""
    return f.col(RAISED)
