"""Which schemas Spark is asked about."""

import pytest

from ottla.pipelines.spec.source_options import wrong_json_schema


@pytest.mark.parametrize(
    "schema",
    ["a int", "a: int", "a:int, `b c` STRING ,c\ttimestamp_ntz", "a decimal(3, 1)", "a array<map<string, int>>"],
)
def test_what_can_be_read_strictly_is_taken(schema: str) -> None:
    assert wrong_json_schema(schema) == ""


@pytest.mark.parametrize("schema", ["a variant", "a int, b interval", "a map<int, string>", "a decimal(50, 2)"])
def test_what_cannot_be_read_strictly_is_refused(schema: str) -> None:
    assert wrong_json_schema(schema)
