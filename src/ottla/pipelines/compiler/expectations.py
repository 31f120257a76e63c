"""Conditions that every row must meet, each with what becomes of a row that does not.

The first condition that fails and does not only warn decides over the row, in the order of the file. NULL is a failure:
what cannot be told is not expected.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from ottla.pipelines.compiler.audit_points import NO_AUDIT, AuditPoints
from ottla.pipelines.compiler.origin import ORIGIN
from ottla.pipelines.compiler.python_modules import StepError
from ottla.pipelines.compiler.sources import ERROR, REASON
from ottla.pipelines.spec.model import Expect, Expectation, OnFail

FAILED = "expectation failed"
"""The prefix of the message of a query that an expectation has stopped."""
_VERDICT = "_verdict"
_BAD = "bad"


def expect(
    step: str, action: Expect, rows: DataFrame, audit: AuditPoints = NO_AUDIT, *, parting: bool = False
) -> tuple[DataFrame, DataFrame | None]:
    """The rows that pass, and the dead letters with `_reason` and the name of the condition, `_error`; None if no
    condition makes dead letters.

    Those are two branches of the query, and Spark computes what lies before them once for each; `parting` has the rows
    shuffled before, so that it is computed once. That takes an audit, as both branches then need all columns.

    What fails is counted under the name of the step: `rows` came in, `bad:NAME` failed that condition and, where it
    only warns, went on.
    """
    _require_conditions(step, action, rows)
    deciding = [each for each in action.expect if each.on_fail != "warn"]
    goes_on = _first(deciding).isNull()
    counts = [
        f.count_if(_fails(each) & goes_on if each.on_fail == "warn" else _fails(each)).alias(f"{_BAD}:{each.name}")
        for each in action.expect
    ]
    aside, dropped = _names(deciding, "dlq"), _names(deciding, "drop")
    if parting and aside and ORIGIN in rows.columns and audit.writes_letters_of(step):
        # The observation behind it keeps the conditions from being tried before it, where the branches would differ.
        rows = rows.repartition(f.col(f"{ORIGIN}.partition"), f.col(f"{ORIGIN}.offset"))
    judged = audit.entering(step, rows, refuses=bool(aside), also=counts).withColumn(_VERDICT, _first(deciding))
    if dropped:
        judged = audit.dropping(step, judged, f.col(_VERDICT).isin(dropped))
    stopping = _names(deciding, "fail")
    good = judged
    if stopping:
        # One expression: of two filters Spark may try the second first, and the first would then see no such row.
        stop = f.raise_error(_message(step, deciding, rows)).cast("boolean")
        good = good.where(f.when(f.col(_VERDICT).isin(stopping), stop).otherwise(f.col(_VERDICT).isNull()))
    elif deciding:
        good = good.where(f.col(_VERDICT).isNull())
    if not aside:
        return good.drop(_VERDICT), None
    reasons = _first([each for each in deciding if each.on_fail == "dlq"], text=True)
    refused = judged.where(f.col(_VERDICT).isin(aside)).withColumn(REASON, reasons)
    return good.drop(_VERDICT), refused.withColumnRenamed(_VERDICT, ERROR)


def _require_conditions(step: str, action: Expect, rows: DataFrame) -> None:
    """Raises StepError for a check that is a text or a number: Spark finds that out with the first row, if ever."""
    found = rows.select(*(f.expr(each.check) for each in action.expect)).schema
    for each, column in zip(action.expect, found, strict=True):
        kind = column.dataType.simpleString()
        if kind not in ("boolean", "void"):
            raise StepError(f"step {step}: the check of {each.name} must be true or false, and is {kind}: {each.check}")


def _fails(expectation: Expectation) -> Column:
    return ~f.coalesce(f.expr(expectation.check).cast("boolean"), f.lit(False))


def _names(expectations: list[Expectation], on_fail: OnFail) -> list[str]:
    return [each.name for each in expectations if each.on_fail == on_fail]


def _first(expectations: list[Expectation], *, text: bool = False) -> Column:
    """The name, or the reason, of the first that fails; null where none does."""
    found = f.lit(None).cast("string")
    for each in reversed(expectations):
        said = f"{each.name}: not {each.check}" if text else each.name
        found = f.when(_fails(each), f.lit(said)).otherwise(found)
    return found


def _message(step: str, deciding: list[Expectation], rows: DataFrame) -> Column:
    """What the query fails with: the condition, and where the row came from or, without an origin, the row."""
    said = f.concat(f.lit(f"{FAILED}: step {step}: "), _first(deciding, text=True))
    if ORIGIN not in rows.columns:
        return f.concat(said, f.lit(" for the row "), f.substring(f.to_json(f.struct("*")), 1, 500))
    return f.concat(
        said,
        f.lit(" for the record "),
        f.format_string("%s-%d@%d", *(f.col(f"{ORIGIN}.{name}") for name in ("topic", "partition", "offset"))),
    )
