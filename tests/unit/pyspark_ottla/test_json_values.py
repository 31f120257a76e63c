"""`valueFormat=json`: which struct Spark's words name, and what of JSON is of it."""

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql.types import StructType

from pyspark_ottla import DefaultSource
from pyspark_ottla.ddl import struct_of
from pyspark_ottla.json_values import JsonDecoder
from tests.unit.pyspark_ottla.test_value_format import BASE, rows, values

COLUMNS = (
    "id long, small tinyint, ratio double, paid boolean, price decimal(6,2), note string, body binary, day date,"
    " at timestamp, local timestamp_ntz, tags map<string, array<int>>, lines array<struct<n: int, by: map<string,int>>>"
)
WRITTEN = {
    "id": 2**40,
    "small": -128,
    "ratio": 3,
    "paid": True,
    "price": 1.5,
    "note": "é\u0000",
    "body": "AAE=",
    "day": "2026-01-02",
    "at": "2026-01-02T03:04:05.678+01:00",
    "local": "2026-01-02T03:04:05",
    "tags": {"x": [1, None]},
    "lines": [{"n": 1, "by": {"a": 1}}, {"n": 2}, None],
    "what nobody named": [{}],
}
READ = {
    "id": 2**40,
    "small": -128,
    "ratio": 3.0,
    "paid": True,
    "price": Decimal("1.50"),
    "note": "é\0",
    "body": b"\0\1",
    "day": date(2026, 1, 2),
    "at": datetime(2026, 1, 2, 2, 4, 5, 678000, tzinfo=UTC),
    "local": datetime.fromisoformat("2026-01-02T03:04:05"),
    "tags": [("x", [1, None])],
    "lines": [{"n": 1, "by": [("a", 1)]}, {"n": 2, "by": None}, None],
}


def test_json_values_become_columns_of_sparks_types(log):
    given = {"valueFormat": "json", "valueSchema": COLUMNS}
    found = rows(log, values(json.dumps(WRITTEN).encode(), b"{}", b"null", None), **given)
    assert [row["data"] for row in found[:2]] == [READ, dict.fromkeys(READ)]
    assert [row["error"] for row in found] == [None, None, found[2]["error"], None]
    assert [row["data"] for row in found[2:]] == [None, None]
    assert found[2]["error"]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{",
        b"[1]",
        b'{"id": "1"}',
        b'{"id": 9223372036854775808}',
        b'{"small": 128}',
        b'{"note": 1}',
        b'{"note": "\xff"}',
        b'{"body": "*"}',
        b'{"at": "2026-01-02T03:04:05"}',
        b'{"local": "2026-01-02T03:04:05Z"}',
        b'{"price": 12345.6}',
        b'{"tags": [1]}',
        b'{"lines": [{"n": 1.5}]}',
        b'{"id": 1} {"id": 2}',
        b'{"other": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_not_of_the_schema_keeps_its_row_with_the_reason(log, bad):
    found = rows(log, values(b'{"id": 1}', bad, b'{"id": 2}'), valueFormat="json", valueSchema=COLUMNS)
    assert [row["data"] and row["data"]["id"] for row in found] == [1, None, 2]
    assert [row["value"] for row in found] == [b'{"id": 1}', bad, b'{"id": 2}']
    assert [bool(row["error"]) for row in found] == [False, True, False]


def test_the_schema_may_be_json_too_and_in_a_file(tmp_path):
    path = tmp_path / "columns"
    for text in (struct_of(COLUMNS).json(), COLUMNS):
        path.write_text(text)
        for schema in (text, str(path)):
            told = DefaultSource({**BASE, "valueFormat": "json", "valueSchema": schema}).schema()
            assert told["data"].dataType == struct_of(COLUMNS)


def test_values_of_a_registry_have_an_id_before_them():
    decoder = JsonDecoder(b"id long", framed=True)
    assert decoder.decode(b'\0\0\0\0\7{"id": 1}', None) == {"id": 1}
    assert decoder.decode(b'{"id": 1}', b"\0\0\0\0\7") == {"id": 1}
    with pytest.raises(ValueError, match="no schema id"):
        decoder.decode(b'{"id": 1}', None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a int", "struct<a:int>"),
        ("  A:BIGINT ,b\n  String  ", "struct<A:bigint,b:string>"),
        ("`two words` real, _x dec", "struct<two words:float,_x:decimal(10,0)>"),
        ("d decimal(5), e numeric(5 , 2)", "struct<d:decimal(5,0),e:decimal(5,2)>"),
        ("m map<string,struct<a byte, b: array<array<date>>>>", None),
    ],
)
def test_sparks_words_for_columns(text, expected):
    expected = expected or "struct<m:map<string,struct<a:tinyint,b:array<array<date>>>>>"
    assert struct_of(text).simpleString() == expected
    assert StructType.fromJson(json.loads(struct_of(text).json())) == struct_of(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a name at the end"),
        ("a", "expected a name at the end"),
        ("a int b", "expected a comma or the end before 'b'"),
        ("a int,", "expected a name at the end"),
        ("a int, a long", "the column a is there twice"),
        ("a strin", "'strin' is not a type"),
        ("a array", "'array' is not a type"),
        ("a array<int", "expected '>' at the end"),
        ("a map<int, int>", "a map has keys of type string, not int"),
        ("a struct<b int", "expected a comma or '>' at the end"),
        ("a decimal(39)", "decimal(39, 0): there are 1 to 38 digits"),
        ("a decimal(x)", "expected a number before 'x)'"),
        ("a int not null", "expected a comma or the end before 'not null'"),
        ("a " + "array<" * 50 + "int" + ">" * 50, "more than 32 types within each other"),
    ],
)
def test_other_words_are_refused_with_what_was_expected(text, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        struct_of(text)
