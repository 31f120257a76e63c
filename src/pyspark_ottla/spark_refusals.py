"""Better messages for writes that Spark refuses before it calls this source.

Spark's driver decides what a sink in Python supports, and asks none of our processes. A query in update mode fails
when its first micro-batch is planned ("does not support Update mode"). The error for a batch without a mode says to
append or to overwrite, although a log cannot be overwritten. So a driver that imports this package changes the
messages of its PySpark to say what helps, and refuses update mode as soon as the query starts. What Spark accepts and
refuses does not change.

Spark Connect has other classes for this, whose module may be imported later. They are not changed.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pyspark_ottla.options import OptionError

APPEND: Final = 'a log can only be added to: write with .mode("append")'
UPDATE: Final = (
    "Spark takes no updates for a sink written in Python: write each micro-batch by itself, with .foreachBatch(write) "
    'in place of .format("ottla"); write(batch, number) does batch.write.format("ottla")...mode("append").save(); '
    'docs/spark.md shows it whole, exactly once, under "When something is wrong"'
)
_FORMAT: Final = "ottla"


def explain_refusals() -> None:
    """Replace the messages in the PySpark of this process. Further calls have no effect."""
    if not hasattr(DataFrameWriter.save, "__wrapped__"):
        DataFrameWriter.save = saving(DataFrameWriter.save)  # type: ignore[method-assign]
    if not hasattr(DataStreamWriter.start, "__wrapped__"):
        DataStreamWriter.start = starting(DataStreamWriter.start)  # type: ignore[method-assign]


def saving(save: Callable[..., None]) -> Callable[..., None]:
    """`DataFrameWriter.save`, which raises OptionError for a mode that Spark does not let a log have."""

    @wraps(save)
    def save_or_explain(writer: DataFrameWriter, *arguments: Any, **options: Any) -> None:
        try:
            save(writer, *arguments, **options)
        except AnalysisException as error:
            about = error.getMessageParameters() or {}
            if error.getCondition() != "UNSUPPORTED_DATA_SOURCE_SAVE_MODE" or about.get("source") != _FORMAT:
                raise
            raise OptionError(APPEND) from error

    return save_or_explain


def starting(start: Callable[..., Any]) -> Callable[..., Any]:
    """`DataStreamWriter.start`, which raises OptionError for a query in update mode that writes to a log."""

    @wraps(start)
    def start_or_explain(
        writer: DataStreamWriter,
        path: str | None = None,
        format: str | None = None,  # noqa: A002
        outputMode: str | None = None,  # noqa: N803
        *arguments: Any,
        **options: Any,
    ) -> Any:
        if format is not None:
            writer.format(format)
        if outputMode is not None:
            writer.outputMode(outputMode)
        # In this order: most queries write to something else, and a look costs two calls of the JVM.
        if _said(writer, "source").lower() == _FORMAT and _said(writer, "outputMode").lower() == "update":
            raise OptionError(UPDATE)
        return start(writer, path, format, outputMode, *arguments, **options)

    return start_or_explain


def _said(writer: DataStreamWriter, name: str) -> str:
    """What the JVM's writer was told, in a field that it does not show; empty where that has another name."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    written: Any = writer._jwrite
    try:
        field = written.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return str(field.get(written))
    except Py4JError:
        return ""
