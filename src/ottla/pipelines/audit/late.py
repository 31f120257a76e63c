"""Counts the rows that Spark drops in steps with state, for the audit; observations do not see them.

The progress of a query lists its operators with state as a plan is walked from its end:

```
 sink <- hourly (window) <- once (deduplicate) <- events   expected: hourly stateStoreSave, once dedupeWithinWatermark
 stateOperators  stateStoreSave         numRowsDroppedByWatermark 2
                 dedupeWithinWatermark  numRowsDroppedByWatermark 3, customMetrics numDroppedDuplicateRows 5
```

A query that writes dead letters behind a state has each operator once for each of its branches; the first is counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.pipelines.audit.report import NO_SUM, Count

LATE: Final = "late"
DUPLICATE: Final = "duplicate"
States = Sequence[tuple[str, str]]
"""Pairs of a step and the name of Spark's operator, from the end of the plan."""


def dropped(
    operators: Sequence[Mapping[str, Any]], expected: States, counted: frozenset[str] = frozenset()
) -> Iterator[Count]:
    """The counts of a micro-batch. Where a plan has other operators than expected, rows go by the operator's name.

    Late rows of the steps `counted` are counted before they come to Spark's operator.
    """
    names = [str(each.get("operatorName")) for each in operators]
    wanted = [operator for _, operator in expected]
    if names[: len(wanted)] == wanted:
        # Behind them are those of another branch, or of a query or function of the user.
        others = [each for each, name in zip(operators, names, strict=True) if name not in wanted]
        steps = [*(step for step, _ in expected), *(name for name in names if name not in wanted)]
        operators = [*operators[: len(wanted)], *others]
    else:
        by_name = {operator: step for step, operator in expected if wanted.count(operator) == 1}
        steps = [by_name.get(name, name) if names.count(name) == 1 else name for name in names]
    found: dict[tuple[str, str], int] = {}
    for step, each in zip(steps, operators, strict=True):
        custom = each.get("customMetrics") or {}
        for reason, rows in (
            (LATE, each.get("numRowsDroppedByWatermark")),
            (DUPLICATE, custom.get("numDroppedDuplicateRows")),
        ):
            found[step, reason] = found.get((step, reason), 0) + int(rows or 0)
    for (step, reason), rows in found.items():
        if rows and not (reason == LATE and step in counted):
            yield Count(step=step, role="dropped", reason=reason, rows=rows, checksum=NO_SUM)
