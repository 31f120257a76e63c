"""What Spark refuses before it asks the source is said with what to do instead, and nothing else changes."""

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

import pyspark_ottla
from pyspark_ottla.options import OptionError
from pyspark_ottla.spark_refusals import explain_refusals, saving, starting


class JvmWriter:
    """Spark's writer of streams in the JVM, as far as it can be looked into."""

    def __init__(self, **fields: str) -> None:
        self.fields = fields

    def getClass(self):
        return self

    def getDeclaredField(self, name):
        if name not in self.fields:
            raise Py4JError("NoSuchFieldException")
        return SimpleNamespace(setAccessible=lambda _: None, get=lambda writer: writer.fields[name])


class StreamWriter:
    def __init__(self, **fields: str) -> None:
        self._jwrite = JvmWriter(**fields)

    def format(self, source):
        self._jwrite.fields["source"] = source

    def outputMode(self, mode):
        self._jwrite.fields["outputMode"] = mode


def begin(writer, *arguments, **options):
    return arguments, options


@pytest.mark.parametrize(
    ("writer", "named"),
    [
        (StreamWriter(source="ottla", outputMode="Update"), {}),
        (StreamWriter(source="parquet", outputMode="Append"), {"format": "Ottla", "outputMode": "update"}),
    ],
)
def test_a_query_in_update_mode_is_refused_when_it_is_started_and_told_of_foreach_batch(writer, named):
    with pytest.raises(OptionError, match=r"foreachBatch.*docs/spark\.md"):
        starting(begin)(writer, **named)


@pytest.mark.parametrize(
    "fields",
    [
        {"source": "ottla", "outputMode": "Append"},
        {"source": "ottla", "outputMode": "Complete"},
        {"source": "foreachBatch", "outputMode": "Update"},
        {"source": "memory", "outputMode": "Update"},
        {"outputMode": "Update"},
        {},
    ],
)
def test_every_other_query_is_started_as_it_was(fields):
    given = ("there", "ottla", "append", ["a"], "name")
    assert starting(begin)(StreamWriter(**fields)) == ((None, None, None), {})
    assert starting(begin)(StreamWriter(**fields), *given, maxRows="1") == (given, {"maxRows": "1"})


def refusing(source: str, condition: str = "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
    class Refused(AnalysisException):
        def getCondition(self):
            return condition

        def getMessageParameters(self):
            return {"source": source, "createMode": '"ErrorIfExists"'}

    def save(writer, path=None, **options):
        raise Refused("Please use either the Append or Overwrite mode instead")

    return saving(save)


def test_a_write_without_a_mode_is_told_to_append_and_not_to_overwrite():
    with pytest.raises(OptionError, match=r'\.mode\("append"\)') as raised:
        refusing("ottla")(None)
    assert "Overwrite mode instead" in str(raised.value.__cause__)


@pytest.mark.parametrize(("source", "condition"), [("csv", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"), ("ottla", "OTHER")])
def test_what_spark_refuses_otherwise_is_left_to_it(source, condition):
    with pytest.raises(AnalysisException, match="or Overwrite mode"):
        refusing(source, condition)(None)


def test_a_program_that_imports_the_package_has_it_once():
    assert pyspark_ottla.DefaultSource.name() == "ottla"
    save: Any = DataFrameWriter.save
    start: Any = DataStreamWriter.start
    assert not hasattr(save.__wrapped__, "__wrapped__")
    assert not hasattr(start.__wrapped__, "__wrapped__")
    explain_refusals()
    assert (DataFrameWriter.save, DataStreamWriter.start) == (save, start)
