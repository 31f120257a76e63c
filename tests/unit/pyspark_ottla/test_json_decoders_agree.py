"""The fast decoder of JSON and the general one read every value alike, whatever lies beside it in the batch."""

import json
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_ottla.plain_json import PlainJson
from pyspark_ottla.value_columns import ValueColumns
from pyspark_ottla.value_format import ValueFormat
from tests.json_values import NOT_PLAIN, PLAIN, SCHEMA

FORMAT = ValueFormat("json", SCHEMA.encode(), "", None, local_utc=True)
COUNTED = ValueFormat("json", SCHEMA.encode(), "", None, local_utc=True, unit="milliseconds")
ARROW = to_arrow_schema(StructType(FORMAT.columns()), timezone="UTC")
DEEP = [b'{"z":' + b"[" * n + b"]" * n + b"}" for n in (1, 498, 499, 500, 501, 1_001, 50_000)]
NUMBERS = (
    *("0", "-0", "0e999999999", "1774692000000", "1774692000000.25", "1774692000000.0005", "1.774692e12", "-1"),
    *("-62135596800000", "-62135596800001", "253402300799999", "253402300800000", "9223372036854775807", "1e400"),
    *(
        "9223372036854775808",
        "1e-400",
        "1e-999999999",
        "1e999999999",
        "-0.0",
        "01",
        "9" * 1_000,
        "0." + "0" * 999 + "1",
    ),
)
HOSTILE = [
    *DEEP,
    b'{"z":' + b'{"a":' * 2_000 + b"1" + b"}" * 2_001,
    b'{"i":-0,"l":-0,"d":-0}',
    b'{"d":-0.0}',
    b'{"d":1e400}',
    b'{"d":-1e-400}',
    b'{"d":1.7976931348623157e308}',
    b'{"d":1.7976931348623159e308}',
    b'{"d":0.' + b"1" * 1_000 + b"}",
    b'{"d":' + b"1" * 300 + b"}",
    b'{"d":' + b"1" * 1_000 + b"}",
    b'{"i":' + b"1" * 100_000 + b"}",
    b'{"i":' + b"0" * 1_000 + b"}",
    b'{"z":' + b"9" * 100_000 + b"}",
    b'{"z":1e99999999999}',
    b'{"' + b"k" * 100_000 + b'":1,"i":5}',
    b'{"z":"' + b"\\u00e9" * 20_000 + b'","i":5}',
    b'{"a":null,"a":null}',
    b'{"a":null,"a":"x"}',
    b'{"z":1,"z":2}',
    b'{"A":"x"}',
    b'{"z":{"A":"x"}}',
    '{"\u017f":1,"\u212a":2}'.encode(),
    b'{"\\u0041":"x"}',
    b'{"\\u0061":"x","a":"y"}',
    b'{"z":"\\ud800"}',
    b'{"a":"\\u0000"}',
    b'{"a":"\0"}',
    b'{"a":"x"}\0',
    b'\xef\xbb\xbf{"a":"x"}',
    b'{"a":"x"}}',
    b'{{"a":"x"}',
    b'{"a":"x"} {"a":"y"}',
    b'{"a":"x"},{"a":"y"}',
    b'{"z":"}',
    b'{"":1}',
    b'{"z":[{}',
    b'{"a":"x"}//{}',
    b'/**/{"a":"x"}',
    b'{"t":"0000-01-01T00:00:00Z"}',
    b'{"t":"0001-01-01T00:00:00Z"}',
    b'{"t":"9999-12-31T23:59:59.999999Z"}',
    b'{"t":"9999-12-31T23:59:59-01:00"}',
    b'{"t":"60000-01-01T00:00:00Z"}',
    b'{"t":"1969-12-31T23:59:59.5Z"}',
    b'{"t":"2016-12-31T23:59:60Z"}',
    b'{"t":"2013-01-01T24:00:00Z"}',
    b'{"t":"10:00"}',
    b'{"day":"0000-01-01"}',
    b'{"day":"60000-01-01"}',
    *(f'{{"t":{number}}}'.encode() for number in NUMBERS),
]
VALUES = [None, *(value for value, _ in PLAIN), *NOT_PLAIN, *HOSTILE]


def read(values: list[bytes | None], *, fast: bool, value_format: ValueFormat = FORMAT) -> list[tuple[str, str | None]]:
    """What is read of each value of a batch, and why not; as text, in which -0.0 is not 0.0."""
    plain = PlainJson.of(SCHEMA, value_format.unit) if fast else None
    columns = ValueColumns(value_format, ARROW, None if plain is None else plain.adder(ARROW))
    found = columns.add(pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])).to_pylist()
    return [(repr(row["data"]), row["error"]) for row in found]


ALONE = {value: read([value], fast=False)[0] for value in VALUES}
"""What the general decoder says of each of them."""


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:40])
def test_both_say_the_same_of_a_hostile_value(value):
    good = b'{"a":"x","i":1}'
    assert read([value], fast=True) == [ALONE[value]]
    between = read([good, value, good], fast=True)
    assert between[1] == ALONE[value]
    assert between[0] == between[2]
    assert between[0][1] is None


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:40])
def test_both_say_the_same_where_numbers_count(value):
    good = b'{"t":1774692000000}'
    alone = read([value], fast=False, value_format=COUNTED)[0]
    assert read([value], fast=True, value_format=COUNTED) == [alone]
    between = read([good, value, good], fast=True, value_format=COUNTED)
    assert between[1] == alone
    assert between[0] == between[2]
    assert between[0][1] is None


@pytest.mark.parametrize(
    ("unit", "number", "read_as"),
    [
        ("seconds", "1774692000", "2026-03-28T10:00:00+00:00"),
        ("seconds", "1774692000.000001", "2026-03-28T10:00:00.000001+00:00"),
        ("milliseconds", "1774692000123", "2026-03-28T10:00:00.123000+00:00"),
        ("milliseconds", "-1", "1969-12-31T23:59:59.999000+00:00"),
        ("microseconds", "1774692000000001", "2026-03-28T10:00:00.000001+00:00"),
        ("microseconds", "-62135596800000000", "0001-01-01T00:00:00+00:00"),
        ("microseconds", "1.5", "field at: 1.5 microseconds have a part below a microsecond"),
        ("seconds", "1e-999999999", "field at: 1e-999999999 seconds have a part below a microsecond"),
        ("seconds", "1774692000000", "field at: 1774692000000 seconds lie outside of the years 1 to 9999"),
        ("seconds", "1e999999999", "field at: 1e999999999 seconds lie outside of the years 1 to 9999"),
        (None, "5", 'field at: 5 is a number: say what it counts since 1970, with timestamps = "seconds", '),
    ],
)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_number_is_the_time_that_its_unit_says(kind, unit, number, read_as):
    data, error = refusal(f"at {kind}", f'{{"at":{number}}}'.encode(), unit)
    if data is None:
        assert error is not None
        assert error.startswith(read_as)
    else:
        assert data["at"] == datetime.fromisoformat(read_as).replace(tzinfo=data["at"].tzinfo)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(VALUES), max_size=30))
def test_neighbours_change_nothing(values):
    assert read(values, fast=True) == [ALONE[value] for value in values]


_NAMES = st.sampled_from(["a", "i", "l", "d", "b", "t", "day", "A", "I", "Day", "z", ""]) | st.text(max_size=3)
_NUMBERS = st.integers(-(2**65), 2**65) | st.integers(-5, 5) | st.floats()
_TEXTS = st.text(max_size=5) | st.datetimes().map(lambda at: at.isoformat() + "Z") | st.dates().map(str)
_ANY = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)
_OBJECTS = st.builds(
    lambda pairs, ascii_only, spaces: (
        "{"
        + ("," + spaces).join(f"{json.dumps(k)}{spaces}:{json.dumps(v, ensure_ascii=ascii_only)}" for k, v in pairs)
        + "}"
    ).encode("utf-8", "surrogatepass"),
    st.lists(st.tuples(_NAMES, _ANY), max_size=5),
    st.booleans(),
    st.sampled_from(["", " ", "\t", "\n"]),
)


def _broken(value: bytes, at: int, piece: bytes, cut: int) -> bytes:
    at %= len(value) + 1
    return value[:at] + piece + value[at + cut :]


_BROKEN = st.builds(
    _broken,
    _OBJECTS,
    st.integers(0, 200),
    st.sampled_from([b"", b"\0", b"\n", b"}", b"{", b'"', b"\\", b",", b"-", b"0", b"\xff", b"NaN", b"e1", b" "]),
    st.integers(0, 2),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_OBJECTS | _BROKEN | st.sampled_from(VALUES) | st.binary(max_size=12), min_size=1, max_size=12))
def test_both_say_the_same_of_any_batch(values):
    assert read(values, fast=True) == [read([value], fast=False)[0] for value in values]


def refusal(schema: str, value: bytes, unit: str | None = None) -> tuple[Any, str | None]:
    """Data and error of one value, beside one that is read."""
    value_format = ValueFormat("json", schema.encode(), "", None, unit=unit)
    columns = value_format.adder(to_arrow_schema(StructType(value_format.columns()), timezone="UTC"))
    good, found = columns.add(
        pa.RecordBatch.from_arrays([pa.array([b"{}", value], pa.binary())], ["value"])
    ).to_pylist()
    assert good["error"] is None
    return found["data"], found["error"]


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ("id long", '{"id":1}{"id":2}', "something follows the object, at character 8"),
        ("id long", '{"id":1} x', "something follows the object, at character 9"),
        ("id long", '{"id":"1"}', 'field id: "1" is not a bigint'),
        ("id long", '{"id":1.0}', "field id: 1.0 is not a bigint: it is written with a point or an exponent"),
        ("id int", '{"id":3000000000}', "field id: 3000000000 is beyond int"),
        ("id long", '{"ID":1}', "field ID: the schema has id, and names are compared letter by letter"),
        ("id long", '{"id":1,"id":2}', "field id: it is there twice"),
        ("name string", '{"name":{"a":1}}', "field name: an object is not a string"),
        ("name string", '{"name":5}', "field name: 5 is not a string"),
        ("name string", '{"name":["a"]}', "field name: an array is not a string"),
        ("name string", '{"name":true}', "field name: true is not a string"),
        ("p decimal(10,2)", '{"p":1.005}', "field p: 1.005 has more digits than decimal(10,2) keeps"),
        ("p decimal(4,2)", '{"p":123}', "field p: 123 is beyond decimal(4,2)"),
        ("p decimal(4,2)", '{"p":1e999999999}', "field p: 1e999999999 is beyond decimal(4,2)"),
        ("p decimal(4,2)", '{"p":1e-999999999}', "field p: 1e-999999999 has more digits than decimal(4,2) keeps"),
        ("p decimal(4,2)", '{"p":1e99999999999999999999}', "field p: 1e99999999999999999999 is beyond decimal(4,2)"),
        ("p float", '{"p":1e39}', "field p: 1e39 is beyond float"),
        ("p double", '{"p":1e309}', "field p: 1e309 is beyond double"),
        ("p double", '{"p":NaN}', "the value is not JSON: NaN is not a number in JSON"),
        ("l array<struct<n: int>>", '{"l":[{"n":1},{"n":"x"}]}', 'field l[1].n: "x" is not an int'),
        ("m map<string,int>", '{"m":{"k":1.5}}', "field m.k: 1.5 is not an int: it is written with a point"),
        ("m map<string,int>", '{"m":{"k":1,"k":2}}', "field m.k: it is there twice"),
        ("at timestamp", '{"at":"60000-01-01T00:00:00Z"}', "field at: "),
        ("at timestamp", '{"at":"0000-01-01T00:00:00Z"}', "field at: "),
        ("at timestamp", '{"at":"10:00"}', "field at: "),
        ("at timestamp", '{"at":1774692000000}', "field at: "),
        ("body binary", '{"body":"*"}', 'field body: "*" is not base64'),
        ("id long", "[1]", "the value is not a JSON object: it is an array"),
        ("id long", '{"id":1', "the value is not JSON: "),
        ("id long", "", "the value is not JSON: "),
        ("id long", '{"z":' + "[" * 1_001 + "]" * 1_001 + "}", "more than 500 objects and arrays within each other"),
    ],
)
def test_a_refusal_names_the_field_and_the_reason(schema, value, reason):
    data, error = refusal(schema, value.encode())
    assert data is None
    assert error is not None
    assert error.startswith(reason)


@pytest.mark.parametrize(
    ("schema", "value", "data"),
    [
        ("p decimal(10,2)", '{"p":1.50000}', "1.50"),
        ("p decimal(10,2)", '{"p":"12345678.9"}', "12345678.90"),
        ("p decimal(10,2)", '{"p":1e3}', "1000.00"),
        ("p decimal(38,2)", '{"p":123456789012345678901234567890123456.78}', "123456789012345678901234567890123456.78"),
        ("p decimal(4,2)", '{"p":0e999999}', "0.00"),
        ("p decimal(4,2)", '{"p":-99.99}', "-99.99"),
    ],
)
def test_a_decimal_is_kept_exactly(schema, value, data):
    found, error = refusal(schema, value.encode())
    assert error is None
    assert str(found["p"]) == data
