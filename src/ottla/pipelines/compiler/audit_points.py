"""Counts the rows of a pipeline: those that enter a source or step, and each way out of it.

Without an audit they are only counted (`NAME?` on the way in, `NAME` on the way out), with one they are summed, too.
A place is one observation in either case, as Spark copies every row for each.

A step balances, so that `pipeline audit` may say that a row is missing, where every way out of it is counted in the
same query: its dead letters may be those of another sink.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from ottla.pipelines.audit.observation import observe
from ottla.pipelines.audit.report import BAD, Point, Role

NOT_TAKEN = "not taken"
"""The text of the live view for rows that a sink refuses."""


@dataclass(frozen=True, slots=True)
class AuditPoints:
    """Counts for one query."""

    letters_of: frozenset[str] | None
    """The sources and steps whose dead letters the query writes; None where there is no audit."""

    def writes_letters_of(self, name: str) -> bool:
        """Whether the pipeline has an audit and this query writes the dead letters of the source or step."""
        return self.letters_of is not None and name in self.letters_of

    def entering(
        self,
        name: str,
        rows: DataFrame,
        *,
        refuses: bool,
        of: Sequence[str] | None = None,
        also: Sequence[Column] = (),
        balances: bool = True,
        letters: Column | None = None,
    ) -> DataFrame:
        """Counts all rows that come in; `refuses` says whether some may become dead letters,
        `balances` whether each row goes out or is counted elsewhere within the micro-batch.

        The rows are summed over the columns `of`, or over all; `also` are other aggregates that are to be known.
        `letters` are those whose dead letters are written apart from the query.
        """
        if self.letters_of is None:
            return rows.observe(f"{name}?", f.count(f.lit(1)).alias("rows"), *also)
        balanced = balances and (not refuses or name in self.letters_of)
        parts: dict[Role, Column] = {} if letters is None else {"dead_letters": letters}
        return observe(rows, Point(name, "in", balanced=balanced), of=of, also=also, parts=parts)

    def dropping(self, name: str, rows: DataFrame, dropped: Column) -> DataFrame:
        """Counts the dropped rows among all rows."""
        return rows if self.letters_of is None else observe(rows, Point(name, "dropped"), where=dropped)

    def leaving(self, name: str, rows: DataFrame) -> DataFrame:
        """Counts the rows that the step outputs."""
        if self.letters_of is None:
            return rows.observe(name, f.count(f.lit(1)).alias("rows"))
        return observe(rows, Point(name, "out"))

    def refused(self, name: str, rows: DataFrame) -> DataFrame:
        """Counts the rows that become dead letters of this query."""
        if not self.writes_letters_of(name):
            return rows
        return observe(rows, Point(name, "dead_letters"))

    def ending(self, name: str, rows: DataFrame, refused: Column, *, of: Sequence[str]) -> DataFrame:
        """Counts the rows that a sink receives: those that it writes, and those that become dead letters."""
        bad = f.count_if(refused).alias(f"{BAD}{NOT_TAKEN}")
        if self.letters_of is None:
            return rows.observe(f"{name}?", f.count(f.lit(1)).alias("rows"), bad)
        parts: dict[Role, Column] = {"out": ~refused, "dead_letters": refused}
        return observe(rows, Point(name, "in", balanced=True), of=of, parts=parts, also=[bad])


NO_AUDIT = AuditPoints(None)
