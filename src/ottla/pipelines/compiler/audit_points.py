"""Where the audit of a pipeline counts rows: what comes into a source or step, and each way out of it.

A step balances, so that `pipeline audit` may say that a row is missing, where every way out of it is counted in the
same query: its dead letters may be those of another sink.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame

from ottla.pipelines.audit.observation import observe
from ottla.pipelines.audit.report import Point


@dataclass(frozen=True, slots=True)
class AuditPoints:
    """Counts for one query, or for none (`letters_of` is None): then rows pass as they are."""

    letters_of: frozenset[str] | None
    """The sources and steps whose dead letters the query writes."""

    def entering(self, name: str, rows: DataFrame, *, refuses: bool) -> DataFrame:
        """All rows that are decoded or judged; `refuses` says whether some may become dead letters."""
        if self.letters_of is None:
            return rows
        return observe(rows, Point(name, "in", balanced=not refuses or name in self.letters_of))

    def dropping(self, name: str, rows: DataFrame, dropped: Column) -> DataFrame:
        """Of all rows those that are dropped."""
        return rows if self.letters_of is None else observe(rows, Point(name, "dropped"), where=dropped)

    def leaving(self, name: str, rows: DataFrame) -> DataFrame:
        """The rows that go on."""
        return rows if self.letters_of is None else observe(rows, Point(name, "out"))

    def refused(self, name: str, rows: DataFrame) -> DataFrame:
        """The rows that become dead letters of this query."""
        if self.letters_of is None or name not in self.letters_of:
            return rows
        return observe(rows, Point(name, "dead_letters"))


NO_AUDIT = AuditPoints(None)
