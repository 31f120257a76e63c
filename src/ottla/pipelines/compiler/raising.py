"""Finds the records for which an expression fails, in one pass over a batch.

Spark ends a job at the first row that an expression cannot be computed for. Here each place of a plan where rows are
computed or chosen is tried by itself, over the rows that come to it, with `TryEval`, Spark's own expression of the
`try_` functions:

```
 plan of a step, from its inputs up            tried
   Filter (cast(b as int) > 0)                 TryEval(struct(cast(b as int) > 0))   null for the rows it raises for
   Project [_record, cast(a as int) AS n]      TryEval(struct(cast(a as int)))
```

Of these Spark computes fewer: a column that nobody reads is left out, and a row that a later step drops may be dropped
first. So a place is tried once more in the plan as Spark optimizes it for the sink, and the records are those of both.

The plan is that of the JVM. Where the inside of Spark is another one, in a later release, nothing is found here, and
records are found by halves (`runner.set_aside`).
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from ottla.pipelines.compiler.origin import ORIGIN
from ottla.pipelines.compiler.places import Place

logger = logging.getLogger(__name__)

MESSAGES_MAX: Final = 10
"""The maximum number of rows that are computed again for Spark's message; others get the expression as reason."""
RECORDS_MAX: Final = 100_000
"""The maximum number of records found at once; the driver holds them and sends them to each task."""
ALONE_MAX: Final = 10
"""Up to this number, records are tested one by one; more are tested together."""
_SQL_CHARS_MAX: Final = 300
_EXCLUDED: Final = "spark.sql.optimizer.excludedRules"
_COLLAPSE: Final = "org.apache.spark.sql.catalyst.optimizer.CollapseProject"
"""Makes one node of several, and of their columns other ones."""


@dataclass(frozen=True, slots=True)
class Raising:
    """A record for which an expression fails."""

    topic: str
    partition: int
    offset: int
    reason: str

    @property
    def place(self) -> Place:
        """Topic, partition and offset."""
        return self.topic, self.partition, self.offset


def raising(
    rows: DataFrame,
    inputs: list[DataFrame],
    written: DataFrame | None,
    fail: Callable[[list[Raising]], bool] | None,
) -> list[Raising]:
    """The records that the first place with some raises for, of those between `inputs` and `rows`, a batch.

    `written` is what the sink computes of them: columns that it does not need are not tried; None to try all. Where
    that does not tell whether it computes them for the records found, `fail` is asked whether it fails for one or
    some; without it all are returned.
    What lies above the place has not been tried: leave the records out, and ask again. Raises what Spark raises, such
    as for a row of another place.
    """
    plans = _Plans(rows)
    computed = None if written is None else plans.computed(written)
    known = {plans.identity(each) for each in inputs}
    for node in plans.nodes(rows._jdf.queryExecution().analyzed(), known):
        found = plans.tried(node, computed)
        if not found:
            continue
        if fail is None:
            return found
        really = None if computed is None else plans.tried_again(node, computed)
        if really is not None:
            found = [each for each in found if each.place in really]
        elif len(found) <= ALONE_MAX:
            found = [each for each in found if fail([each])]
        elif not fail(found):
            found = []
        if found:
            return found
    return []


class _Plans:
    """Logical plans of Spark."""

    def __init__(self, rows: DataFrame) -> None:
        from pyspark.sql.classic.column import Column as ClassicColumn
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

        self._spark = rows.sparkSession
        self._column, self._frame = ClassicColumn, ClassicDataFrame
        jvm: Any = self._spark._jvm
        self._jvm = jvm
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._utils = jvm.org.apache.spark.sql.classic.ExpressionUtils

    def computed(self, written: DataFrame) -> dict[int, Any]:
        """The nodes that compute columns in the plan as Spark optimizes it, by the ids of the columns."""
        conf = self._spark.conf
        before = conf.get(_EXCLUDED, "")
        conf.set(_EXCLUDED, ",".join(filter(None, (before, _COLLAPSE))))
        try:
            plan = written._jdf.queryExecution().optimizedPlan()
        finally:
            conf.set(_EXCLUDED, before or "")
        return {_id(each): node for node in self._all(plan) for each in _named(node)}

    def _all(self, plan: Any) -> Iterator[Any]:
        for child in _each(plan.children()):
            yield from self._all(child)
        yield plan

    def identity(self, rows: DataFrame) -> int:
        """What a plan is known by."""
        return self._of(rows._jdf.queryExecution().analyzed())

    def _of(self, plan: Any) -> int:
        return int(self._jvm.java.lang.System.identityHashCode(plan))

    def nodes(self, plan: Any, known: set[int]) -> Iterator[Any]:
        """The nodes of a plan from its inputs up; earlier steps are views in it, or one of those that are `known`."""
        if self._of(plan) in known or _kind(plan) == "View":
            return
        for child in _each(plan.children()):
            yield from self.nodes(child, known)
        yield plan

    def tried(self, node: Any, computed: dict[int, Any] | None) -> list[Raising]:
        """The records that the expressions of one node raise for, of columns that are computed."""
        expressions = [
            each
            for each in _computed(node)
            if not _is_plain(each) and (computed is None or _kind(each) != "Alias" or _id(each) in computed)
        ]
        found: list[Raising] = []
        if expressions:
            child = node.children().apply(0)
            for origin in self._origins(child):
                found += self._tried(child, origin, expressions)
        return found

    def tried_again(self, node: Any, computed: dict[int, Any]) -> set[Place] | None:
        """The records that the columns of a node raise for in the plan as Spark optimizes it; None where it does not
        tell.
        """
        ids = [_id(each) for each in _named(node) if not _is_plain(each) and _id(each) in computed]
        if _kind(node) != "Project" or not ids:
            return None
        found = set[Place]()
        try:
            for again in {self._of(computed[each]): computed[each] for each in ids}.values():
                child = again.children().apply(0)
                origins = self._origins(child)
                if not origins:
                    return None
                expressions = [each for each in _named(again) if _id(each) in ids and not _is_plain(each)]
                for origin in origins if expressions else []:
                    found |= self._places(*self._bad(child, origin, expressions), origin).keys()
        except Exception as error:  # such as for a row of another place, or with plans of a later release of Spark
            logger.info("an optimized plan was not tried: %s", said_of_row(error))
            return None
        return found

    def _origins(self, child: Any) -> list[Column]:
        """The columns with the record, one of each side of a join."""
        return [self._column(self._utils.column(each)) for each in _each(child.output()) if each.name() == ORIGIN]

    def _bad(self, child: Any, origin: Column, expressions: list[Any]) -> tuple[DataFrame, Column]:
        """The rows that an expression raises for, and the text of that expression."""
        rows = self._frame(self._dataset(child), self._spark)
        said = f.coalesce(*(f.when(self._raises(each), f.lit(_sql(each))) for each in expressions))
        # The origin is null in rows that a join made without this side.
        return rows.where(said.isNotNull() & origin.isNotNull()), said

    def _places(self, bad: DataFrame, said: Column, origin: Column) -> dict[Place, str]:
        place = [origin[name].alias(name) for name in ("topic", "partition", "offset")]
        rows = bad.select(*place, said.alias("said")).limit(RECORDS_MAX + 1).collect()
        return {(row.topic, row.partition, row.offset): row.said for row in rows}

    def _tried(self, child: Any, origin: Column, expressions: list[Any]) -> list[Raising]:
        bad, said = self._bad(child, origin, expressions)
        found = self._places(bad, said, origin)
        messages = self._messages(bad, child, origin, expressions) if found else {}
        return [Raising(*at, messages.get(at, f"it raises in this row: {sql}")) for at, sql in sorted(found.items())]

    def _raises(self, expression: Any) -> Column:
        """Whether an expression raises: a struct is never null."""
        column = f.struct(self._column(self._utils.column(expression)).alias("it"))
        return self._column(self._utils.column(self._expressions.TryEval(self._utils.expression(column._jc)))).isNull()

    def _messages(self, bad: DataFrame, child: Any, origin: Column, expressions: list[Any]) -> dict[Place, str]:
        """What Spark says of some rows, by record: each is computed alone, in the driver and without a job."""
        found = {}
        for row in bad.limit(MESSAGES_MAX)._jdf.queryExecution().executedPlan().executeCollect():
            alone = self._jvm.org.apache.spark.sql.catalyst.plans.logical.LocalRelation(
                child.output(), self._jvm.PythonUtils.toSeq([row]), False, self._jvm.scala.Option.empty()
            )
            rows = self._frame(self._dataset(alone), self._spark)
            at = rows.select(*(origin[name] for name in ("topic", "partition", "offset"))).collect()[0]
            for each in expressions:
                try:
                    rows.select(self._column(self._utils.column(each)).alias("it")).collect()
                except Exception as error:
                    found[at[0], at[1], at[2]] = said_of_row(error, _sql(each))
                    break
        return found

    def _dataset(self, plan: Any) -> Any:
        return self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, plan)


def _computed(node: Any) -> list[Any]:
    """What a node computes of each row that comes to it."""
    match _kind(node):
        case "Project":
            return [*_each(node.projectList())]
        case "Filter":
            return [node.condition()]
        case "CollectMetrics":
            return [inner for each in _each(node.metrics()) for inner in _aggregated(each)]
        case "Aggregate":
            of_functions = [inner for each in _each(node.aggregateExpressions()) for inner in _aggregated(each)]
            return [*_each(node.groupingExpressions()), *of_functions]
        case "Generate":
            return [*_each(node.generator().children())]
    return []


def _named(node: Any) -> list[Any]:
    """The columns that a node computes."""
    match _kind(node):
        case "Project":
            columns = node.projectList()
        case "Aggregate":
            columns = node.aggregateExpressions()
        case _:
            return []
    return [each for each in _each(columns) if _kind(each) == "Alias"]


def _id(column: Any) -> int:
    return int(column.exprId().id())


def _aggregated(expression: Any) -> Iterator[Any]:
    """What aggregate functions within an expression are given."""
    if _kind(expression) == "AggregateExpression":
        yield from _each(expression.aggregateFunction().children())
        return
    for child in _each(expression.children()):
        yield from _aggregated(child)


def _is_plain(expression: Any) -> bool:
    """Whether it cannot raise: a column or a literal, under another name perhaps."""
    while _kind(expression) == "Alias":
        expression = expression.child()
    return _kind(expression) in ("AttributeReference", "Literal")


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))


def _sql(expression: Any) -> str:
    text = str(expression.sql())
    return text if len(text) <= _SQL_CHARS_MAX else f"{text[: _SQL_CHARS_MAX - 3]}..."


def said_of_row(error: BaseException, otherwise: str = "") -> str:
    """Spark's message for an expression, preceded by the text of the expression if known, else by `otherwise`.

    >>> said_of_row(Exception("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\\n== SQL (line 1) ==\\nselect 1/0"))
    'Division by zero. (DIVIDE_BY_ZERO)'
    """
    line = str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0]
    condition, _, said = line.removeprefix("[").partition("] ")
    if not said:
        condition, said = "", line
    context: list[Any] = getattr(error, "getQueryContext", list)() or []
    fragment = (str(context[0].fragment()) if context else "") or otherwise
    text = f"{said} ({condition})" if condition else said
    return f"{' '.join(fragment.split())[:_SQL_CHARS_MAX]}: {text}" if fragment else text
