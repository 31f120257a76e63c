"""What the data source is asked for on behalf of a source of a pipeline file."""

from pathlib import Path

import pytest

from ottla.pipelines.compiler.sources import reading_options
from ottla.pipelines.spec.reading import check_text

FILE = """
name = "flights"
[sources.events]
topics = ["a", "b"]
options = { OPTIONS }
[[sinks]]
name = "out"
topic = "out"
"""


def options_of(options: str) -> dict[str, str]:
    spec, mistakes = check_text(FILE.replace("OPTIONS", options).encode(), file="p.toml", directory=Path("/srv/p"))
    assert spec is not None, mistakes
    return reading_options(spec, spec.sources["events"], "there:1")


@pytest.mark.parametrize(
    ("said", "directory"),
    [("backup", "/srv/p/backup"), ("../backup", "/srv/p/../backup"), ("/backup/flights", "/backup/flights")],
)
@pytest.mark.parametrize("name", ["archive", "Archive"])
def test_the_path_of_an_archive_begins_where_the_file_lies(name, said, directory):
    assert options_of(f'{name} = "{said}"')[name] == directory


def test_options_of_the_file_go_before_those_of_pipelines():
    assert options_of('"kafka.default.api.timeout.ms" = "5"') == {
        "kafka.bootstrap.servers": "there:1",
        "kafka.default.api.timeout.ms": "5",
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "subscribe": "a,b",
    }


JSON = """
name = "orders"
[sources.orders]
topics = ["orders"]
format = "json"
schema = "SCHEMA"
MODE
[[sinks]]
name = "out"
topic = "out"
"""


def json_source(schema: str, mode: str) -> tuple[dict[str, str], str]:
    """What the data source is asked for, and the mistakes of the file."""
    text = JSON.replace("SCHEMA", schema).replace("MODE", mode)
    spec, mistakes = check_text(text.encode(), file="p.toml", directory=Path("/srv/p"))
    options = {} if spec is None else reading_options(spec, spec.sources["orders"], "there:1")
    return {name: value for name, value in options.items() if name.startswith("value")}, "\n".join(map(str, mistakes))


@pytest.mark.parametrize("mode", ["", 'json.mode = "strict"', "json = {}"])
@pytest.mark.parametrize("schema", ["id long, at timestamp", "id long, lines array<struct<n: int>>"])
def test_json_is_read_strictly_unless_the_file_says_otherwise(schema, mode):
    assert json_source(schema, mode) == (
        {"valueFormat": "json", "valueSchema": schema, "valueTimeZone": "UTC"},
        "",
    )


@pytest.mark.parametrize("schema", ["id long", "v variant"])
def test_lenient_json_is_left_for_spark(schema):
    assert json_source(schema, 'json.mode = "lenient"') == ({}, "")


@pytest.mark.parametrize(
    ("schema", "mode", "mistake"),
    [
        ("v variant", "", 'json = { mode = "lenient" } reads it as Spark does'),
        ("id long", 'json.mode = "loose"', "lenient"),
    ],
)
def test_json_that_cannot_be_read_so_is_a_mistake_of_the_file(schema, mode, mistake):
    assert mistake in json_source(schema, mode)[1]
