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
