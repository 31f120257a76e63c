"""The examples of docs/pipelines.md and the file of `ottla pipeline init` do on Spark what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.pipelines import spec, testing
from ottla.pipelines.template import new_file
from tests.system.document import block_with, blocks
from tests.system.spark_session import pipeline_session
from tests.unit.pipelines.test_pipelines_document import whole

pytestmark = pytest.mark.long

DOCUMENT = "docs/pipelines.md"
GIVEN = """
given.events = [
  { flight = "UA1", carrier = "UA", delay_min = 5, scheduled_at = "2013-06-01T10:00:00Z" },
  { flight = "UA1", carrier = "UA", delay_min = 16, scheduled_at = "2013-06-01T10:00:00Z" },
  { flight = "XX2", carrier = "XX", delay_min = 9000, scheduled_at = "2013-06-01T10:20:00Z" },
]
"""
LANDED = 'given.landings = [{ flight = "XX2", landed_at = "2013-06-01T12:00:00Z" }]\n'
AIRLINES = 'given.airlines = [{ code = "UA", airline = "old" }, { code = "UA", airline = "United" }]\n'
EXPECTED = {
    "late": '[{ flight = "UA1", delay_min = 16 }, { flight = "XX2", delay_min = 9000 }]',
    "sane": '[{ flight = "UA1", delay_min = 5 }, { flight = "UA1", delay_min = 16 }]',
    "once": '[{ flight = "UA1" }, { flight = "XX2" }]',
    "named": '[{ flight = "UA1", airline = "United" }, { flight = "UA1", airline = "United" }, { flight = "XX2" }]',
    "landed": '[{ flight = "XX2", landed_at = "2013-06-01T12:00:00Z" }]',
    "enriched": '[{ flight = "UA1", airline = "United" }, { flight = "UA1", airline = "United" }, { flight = "XX2" }]',
    "sessions": '[{ carrier = "UA", flights = 2 }, { carrier = "XX", flights = 1 }]',
    "late-flights": """[{ key = "UA1" }, { key = "UA1" }, { value = '{"carrier":"XX","delay_min":9000}' }]""",
    "lake": "[{ delay_min = 5 }, { delay_min = 16 }, { delay_min = 9000 }]",
}
"""What the step or the sink of an example gives of these rows."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pipeline_session(tmp_path_factory.mktemp("spark")) as session:
        yield session.spark


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    for block in blocks(DOCUMENT, "python"):
        first, _, _ = block.partition("\n")
        (tmp_path / first.removeprefix("# ")).write_text(block)
    return tmp_path


def outcomes(text: str, directory: Path, spark: SparkSession) -> list[tuple[str, ...]]:
    (directory / "p.toml").write_text(text)
    return [each.differences for each in testing.run_tests(spec.read(directory / "p.toml"), spark)]


@pytest.mark.parametrize("name", EXPECTED)
def test_each_part_does_what_the_document_says(spark: SparkSession, modules: Path, name: str) -> None:
    begin = f'name = "{name}"\n'
    block = next(each for each in blocks(DOCUMENT, "toml") if begin in each and each.startswith("[["))
    text = f'{whole(block)}\n[[tests]]\nname = "an example"\n{GIVEN}'
    text += LANDED if "landings" in block else ""
    text += AIRLINES if "airlines" in block else ""
    assert outcomes(f"{text}expect.{name} = {EXPECTED[name]}\n", modules, spark)[-1] == ()


def test_windows_that_overlap_are_counted_each(spark: SparkSession, modules: Path) -> None:
    block = next(each for each in blocks(DOCUMENT, "toml") if "slide = " in each)
    starts = ["09:15", "09:30", "09:45", "10:00"]
    rows = [f'{{ carrier = "UA", flights = 2, window_start = "2013-06-01T{at}:00Z" }}' for at in starts]
    starts = ["09:30", "09:45", "10:00", "10:15"]
    rows += [f'{{ carrier = "XX", flights = 1, window_start = "2013-06-01T{at}:00Z" }}' for at in starts]
    text = f'{whole(block)}\n[[tests]]\nname = "an example"\n{GIVEN}expect.hourly = [{", ".join(rows)}]\n'
    assert outcomes(text, modules, spark) == [()]


def test_every_example_of_a_step_or_sink_is_run() -> None:
    shown = [each for each in blocks(DOCUMENT, "toml") if each.startswith("[[")]
    run = [each for each in shown if any(f'name = "{name}"\n' in each for name in EXPECTED) or "slide = " in each]
    assert run == shown


def test_the_tests_of_the_whole_example_pass(spark: SparkSession, tmp_path: Path) -> None:
    assert outcomes(block_with(DOCUMENT, 'name = "flights"', "toml"), tmp_path, spark) == [(), ()]


def test_the_tests_of_the_example_in_python_pass(spark: SparkSession, modules: Path) -> None:
    (done,) = testing.run_tests(spec.load(f"{modules / 'flights.py'}:flights"), spark)
    assert done.differences == ()


def test_the_tests_of_a_new_file_pass_and_fail_when_it_is_wrong(spark: SparkSession, tmp_path: Path) -> None:
    text = new_file("orders", "orders.toml")
    assert outcomes(text, tmp_path, spark) == [(), ()]
    wrong, right = outcomes(text.replace("cents / 100", "cents / 10"), tmp_path, spark)
    assert wrong[0] == "paid: 1 row missing, 1 too many"
    assert right == ()


def test_rows_that_a_sink_does_not_take_are_dead_letters_of_a_test(spark: SparkSession, tmp_path: Path) -> None:
    text = """
name = "refused"
[sources.events]
topics = ["events"]
format = "json"
schema = "n int, who string, at timestamp"
[[sinks]]
name = "out"
topic = "out"
value = "repeat('x', n)"
timestamp = "at"
[[sinks]]
name = "lake"
parquet = "lake"
partition_by = ["who"]
[dead_letters]
topic = "dead"
[[tests]]
name = "each sink refuses its own"
given.events = [
  { n = 1, who = "UA", at = "2013-01-01T00:00:00Z" },
  { n = 2, who = "a\\u0000b", at = "2013-01-01T00:00:00Z" },
  { n = 2000000, who = "UA", at = "2013-01-01T00:00:00Z" },
  { n = 4, who = "UA", at = "9999-01-01T00:00:00Z" },
]
expect.out = [{ value = "x" }, { value = "xx" }]
expect.lake = [{ n = 1 }, { n = 2000000 }, { n = 4 }]
dead_letters = [{ step = "out", n = 2000000 }, { step = "out", n = 4 }, { step = "lake", n = 2 }]
"""
    (tmp_path / "p.toml").write_text(text)
    (done,) = testing.run_tests(spec.read(tmp_path / "p.toml"), spark, drops=True)
    assert done.differences == ()
    # The second line differs from day to day: how far a time may be from now.
    assert [str(each) for each in done.drops if each.rows == 1] == [
        "lake: production sets 1 row aside: dead letter: field who: a directory is named after it, and it contains NUL"
    ]
    assert [each.rows for each in done.drops if each.step == "out"] == [2]
