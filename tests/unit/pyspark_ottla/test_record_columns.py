"""The columns are those of Spark's Kafka source, and Arrow's and Spark's forms of them are the same."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from ottla.native import build_batch, decode_arrow
from pyspark_ottla.record_columns import arrow_schema, spark_schema


@pytest.mark.parametrize("include_headers", [False, True])
def test_spark_takes_batches_of_the_arrow_schema_for_the_spark_schema(include_headers):
    expected = to_arrow_schema(spark_schema(include_headers=include_headers), timezone="UTC")
    assert arrow_schema(include_headers=include_headers).equals(expected)


@pytest.mark.parametrize("include_headers", [False, True])
@pytest.mark.parametrize("data", [b"", build_batch([(0, None, b"v", [("h", None)])])], ids=["nothing", "a record"])
def test_the_kernel_decodes_to_the_arrow_schema(data, include_headers):
    decoded = decode_arrow(
        data,
        max_decompressed_bytes=1 << 20,
        start_offset=0,
        end_offset=1,
        topic="t",
        partition=0,
        include_headers=include_headers,
    )
    assert pa.record_batch(decoded).schema.equals(arrow_schema(include_headers=include_headers))


def test_names_types_and_order_are_those_of_sparks_kafka_source():
    assert spark_schema(include_headers=True).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert "headers" not in spark_schema(include_headers=False).names
