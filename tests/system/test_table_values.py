"""Tables under values that nobody thought of: each is refused, or read back as it was by readers outside of Spark."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from ottla.pipelines.compiler.sink_rows import judged_for_table
from ottla.pipelines.compiler.sources import REASON
from ottla.pipelines.spec.model import TableSink
from ottla.pipelines.tables import DeltaSink, ParquetSink, ParquetTable
from tests.system.spark_session import spark_session

pytestmark = pytest.mark.xdist_group("spark")

FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
ESCAPED = {*map(chr, range(1, 0x20)), "\x7f", *"\"#%'*/:=?\\{[]^"}
_names = count()

micros = st.one_of(
    st.sampled_from([FIRST_MICROS - 1, FIRST_MICROS, -1, 0, LAST_MICROS, LAST_MICROS + 1, -(1 << 62), 1 << 62]),
    st.integers(-(1 << 62), 1 << 62),
    st.integers(FIRST_MICROS, LAST_MICROS),
)
days = st.one_of(
    st.sampled_from([FIRST_DAY - 1, FIRST_DAY, LAST_DAY, LAST_DAY + 1, -(1 << 30), 1 << 30]),
    st.integers(FIRST_DAY, LAST_DAY),
)
texts = st.one_of(
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=8),
    st.sampled_from([b"", b"\0", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"x" * 70_000]),
)
names = st.one_of(
    texts,
    st.sampled_from([b"..", b".", b"a/b", b"/" * 80, b"/" * 90, b"=%2F", "é".encode() * 126, b"a" * 246, b"a" * 300]),
    st.sampled_from([b"__HIVE_DEFAULT_PARTITION__", b"__OTTLA_EMPTY__", b"null", b"NULL", b" ", b"1", b"\n"]),
)
doubles = st.floats(allow_nan=True, allow_infinity=True)
decimals = st.one_of(st.integers(-(10**38) + 1, 10**38 - 1), st.sampled_from([0, 1, -1, 10**38 - 1, 1 - 10**38]))
rows = st.fixed_dictionaries(
    {
        "text": st.none() | texts,
        "at": st.none() | micros,
        "local": st.none() | micros,
        "day": st.none() | days,
        "digits": st.none() | decimals,
        "ratio": st.none() | doubles,
        "small": st.none() | st.floats(width=32, allow_nan=True),
        "large": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "raw": st.none() | st.binary(max_size=20),
        "list": st.none() | st.lists(st.none() | micros, max_size=3),
        "keys": st.none() | st.lists(texts, max_size=3, unique=True),
        "who": st.none() | names,
    }
)
GIVEN = pa.schema(
    [
        ("n", pa.int32()),
        *((name, pa.binary()) for name in ("text", "raw", "who")),
        *((name, pa.int64()) for name in ("at", "local", "large")),
        ("day", pa.int32()),
        ("digits", pa.decimal128(38, 19)),
        ("ratio", pa.float64()),
        ("small", pa.float32()),
        ("list", pa.list_(pa.int64())),
        ("keys", pa.list_(pa.binary())),
    ]
)
HOSTILE = [
    "n",
    "cast(text as string) as text",
    "timestamp_micros(at) as at",
    "cast(timestamp_micros(local) as timestamp_ntz) as local",
    "date_from_unix_date(day) as day",
    "digits",
    "ratio",
    "small",
    "large",
    "raw",
    "transform(list, each -> named_struct('at', timestamp_micros(each))) as list",
    "map_from_arrays(transform(keys, each -> cast(each as string)), keys) as keyed",
    "cast(who as string) as who",
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


def hostile(spark: SparkSession, values: list[dict[str, Any]]) -> DataFrame:
    """The values as rows of Spark: of types of which not all its values can be written down here."""
    made = [{**row, "n": number} for number, row in enumerate(values)]
    for row in made:
        if row["digits"] is not None:
            # By its digits: arithmetic of decimals rounds to 28 of them.
            row["digits"] = Decimal((int(row["digits"] < 0), tuple(map(int, str(abs(row["digits"])))), -19))
    return spark.createDataFrame(pa.Table.from_pylist(made, GIVEN)).selectExpr(*HOSTILE)


def is_taken(row: dict[str, Any]) -> bool:
    """What tables are said to take, told once more."""
    times = [row["at"], row["local"], *(row["list"] or [])]
    return (
        all(is_utf8(text) for text in (row["text"], row["who"], *(row["keys"] or [])))
        and all(each is None or FIRST_MICROS <= each <= LAST_MICROS for each in times)
        and (row["day"] is None or FIRST_DAY <= row["day"] <= LAST_DAY)
        and (row["who"] is None or is_name(row["who"].decode()))
    )


def is_utf8(text: bytes | None) -> bool:
    try:
        (text or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def is_name(text: str) -> bool:
    length = sum(3 if each in ESCAPED else len(each.encode()) for each in f"who={text}") - 2
    return length <= 255 and "\0" not in text and text not in ("__HIVE_DEFAULT_PARTITION__", "__OTTLA_EMPTY__")


def plain(table: pa.Table) -> list[tuple[Any, ...]]:
    """What was read, times as numbers and numbers by their bits."""
    found = []
    numbers = {name: table[name].cast(pa.int64()).to_pylist() for name in ("at", "local")}
    numbers["day"] = table["day"].cast(pa.int32()).to_pylist()
    lists = [each.values.field("at").cast(pa.int64()).to_pylist() if each.is_valid else None for each in table["list"]]
    for index, row in enumerate(table.drop_columns(["at", "local", "day", "list"]).to_pylist()):
        keyed = None if row["keyed"] is None else sorted((key.encode(), value) for key, value in row["keyed"])
        text = None if row["text"] is None else row["text"].encode()
        times = [numbers[name][index] for name in ("at", "local", "day")]
        rest = [row["large"], row["digits"] and Fraction(row["digits"]), row["raw"]]
        found.append((row["n"], text, *times, bits(row["ratio"]), bits(row["small"]), *rest, lists[index], keyed))
    return sorted(found, key=lambda each: each[0])


def wanted(values: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The same of what was given."""
    found = []
    for number, row in enumerate(values):
        if is_taken(row):
            keyed = None if row["keys"] is None else sorted((key, key) for key in row["keys"])
            digits = None if row["digits"] is None else Fraction(row["digits"], 10**19)
            times = [row["at"], row["local"], row["day"]]
            rest = [row["large"], digits, row["raw"]]
            found.append(
                (number, row["text"], *times, bits(row["ratio"]), bits(row["small"]), *rest, row["list"], keyed)
            )
    return found


def bits(value: float | None) -> bytes | None:
    """A number by its bits: zeros have a sign, and all that are none are one."""
    if value is None:
        return None
    return b"nan" if math.isnan(value) else struct.pack(">d", value)


@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(values=st.lists(rows, min_size=10, max_size=60))
def test_a_table_refuses_a_value_or_gives_it_back(spark: SparkSession, tmp_path: Path, values: list[dict[str, Any]]):
    directory = tmp_path / str(next(_names))
    frame = hostile(spark, values)
    sink = TableSink(name="lake", input="events", format="parquet", path=str(directory), partition_by=("who",))
    judged = judged_for_table(sink, frame, None).coalesce(1).persist()
    refused = {row["n"]: row[REASON] for row in judged.where(f"{REASON} is not null").select("n", REASON).collect()}
    assert {n for n in range(len(values)) if not is_taken(values[n])} == set(refused), refused
    assert all(reason.startswith("field ") for reason in refused.values())

    taken = judged.where(f"{REASON} is null").drop(REASON)
    ParquetSink(str(directory / "parquet"), ["who"], "query").write(taken, 0)
    files = ParquetTable.open(str(directory / "parquet")).files()
    parquet = [pq.ParquetFile(each).read() for each in files]
    assert plain(pa.concat_tables(parquet)) == wanted(values) if files else not wanted(values)
    DeltaSink(str(directory / "delta"), ["who"], "query").write(taken, 0)
    delta = DeltaTable(str(directory / "delta")).to_pyarrow_table()
    assert plain(delta) == wanted(values)
    # The partition, which is a name of a directory in between. An empty one is null in Delta's log.
    named = {number: row["who"] for number, row in enumerate(values) if is_taken(row)}
    whos = ParquetTable.open(str(directory / "parquet")).read(spark).select("n", "who").collect()
    assert {row.n: None if row.who is None else row.who.encode() for row in whos} == {
        n: who or who for n, who in named.items()
    }
    judged.unpersist()
