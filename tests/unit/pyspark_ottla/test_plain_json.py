"""JSON that is plain, and what is left for Spark."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from pyspark_ottla import DefaultSource
from pyspark_ottla.options import OptionError
from pyspark_ottla.plain_json import NOT_PLAIN as SAID
from pyspark_ottla.plain_json import PlainJson
from pyspark_ottla.record_columns import decoded_arrow_schema
from tests.json_values import NOT_PLAIN, NOTHING, PLAIN, SCHEMA


def decoded(values: Sequence[bytes | None], schema: str = SCHEMA) -> list[dict[str, Any] | None]:
    plain = PlainJson.of(schema)
    assert plain is not None
    columns = plain.adder(decoded_arrow_schema(plain, include_headers=False))
    return columns.decode(pa.array(values, pa.binary())).to_pylist()


@pytest.mark.parametrize(("value", "fields"), PLAIN)
def test_what_is_plain_is_decoded(value, fields):
    assert decoded([value]) == [NOTHING | fields]


@pytest.mark.parametrize("value", [*NOT_PLAIN, None])
def test_what_is_not_is_left_for_spark(value):
    assert decoded([value]) == [None]


def test_bad_values_do_no_harm_to_good_ones_between_them():
    chance = random.Random(3)
    for count in (2, 17, 400):
        chosen = [chance.choice([*PLAIN, *((value, None) for value in NOT_PLAIN), (None, None)]) for _ in range(count)]
        for (_, fields), found in zip(chosen, decoded([value for value, _ in chosen]), strict=True):
            # Where very many are bad, good ones may be left for Spark, too; none is ever taken for another.
            assert found == (None if fields is None else NOTHING | fields) or (found is None and count == 400)


def test_a_few_bad_values_of_many_leave_all_others_decoded():
    values = [b'{"i":%d}' % number for number in range(2_000)]
    for place in (0, 7, 1_000, 1_999):
        values[place] = b'{"i":1.5}' if place % 2 else b'{"i":true}'
    found = decoded(values)
    assert [place for place, it in enumerate(found) if it is None] == [0, 7, 1_000, 1_999]
    assert all(it is None or it["i"] == place for place, it in enumerate(found))


def test_random_objects_are_read_as_the_json_of_python_reads_them():
    chance = random.Random(8)
    values, expected = [], []
    for _ in range(300):
        made = {
            "a": chance.choice([None, "", 'x\\"\n\t', "ü" * 3, "\U0001f600"]),
            "i": chance.choice([None, 0, -1, 2**31 - 1, -(2**31)]),
            "l": chance.choice([None, 2**62, -(2**63)]),
            "d": chance.choice([None, chance.random(), -1e-300, 5.0]),
            "b": chance.choice([None, True, False]),
            "other": chance.choice([None, [1, [2, {}]], {"a": "no"}]),
        }
        kept = {name: value for name, value in made.items() if chance.random() < 0.8}
        values.append(json.dumps(kept, ensure_ascii=chance.random() < 0.5).encode())
        expected.append(NOTHING | {name: value for name, value in kept.items() if name != "other"})
    assert decoded(values) == expected


@pytest.mark.parametrize(
    "schema",
    [
        "a array<string>",
        "a struct<b: int>",
        "a decimal(10,2)",
        "a",
        "",
        "a string, A int",
        "`a b` string",
        "a int not null",
    ],
)
def test_a_schema_of_other_fields_is_not_plain(schema):
    assert PlainJson.of(schema) is None


def test_a_schema_may_be_written_as_spark_shows_it():
    assert PlainJson.of("a:string, b: INT,\n  c  timestamp") == PlainJson(
        (("a", "string"), ("b", "int"), ("c", "timestamp"))
    )


def test_a_batch_read_has_what_was_decoded_and_says_what_was_not(log):
    log.create("t")[0].append((1, None, b'{"a":"x"}', []), (2, None, b'{"a":1}', []), (3, None, None, []))
    options = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t"}
    source = DefaultSource({**options, "valueFormat": "plain-json", "valueSchema": "a string"})
    made = source.reader(source.schema())
    (batch,) = [batch for partition in made.partitions() for batch in made.read(partition)]
    assert [(row["data"], row["error"]) for row in batch.to_pylist()] == [
        ({"a": "x"}, None),
        (None, SAID),
        (None, None),
    ]
    assert source.schema().names == batch.schema.names


@pytest.mark.parametrize("schema", [None, "a array<int>"])
def test_the_option_says_which_schemas_it_takes(schema):
    options = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t", "valueFormat": "plain-json"}
    if schema is not None:
        options["valueSchema"] = schema
    with pytest.raises(OptionError, match="plain-json needs option valueSchema with fields"):
        DefaultSource(options).schema()
