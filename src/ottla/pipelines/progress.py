"""What Spark says of a query now and then (`StreamingQueryProgress` as JSON)."""

from collections.abc import Mapping
from typing import Any


def ran(progress: Mapping[str, Any]) -> bool:
    """Whether it is about a micro-batch that was done. A query that waits for rows says something every ten seconds,
    with the number of the micro-batch that comes next.
    """
    return "addBatch" in (progress.get("durationMs") or {})
