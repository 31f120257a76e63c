"""The progress of a query (`StreamingQueryProgress` as JSON)."""

from collections.abc import Mapping
from typing import Any


def ran(progress: Mapping[str, Any]) -> bool:
    """Whether the progress is of a completed micro-batch. A query that waits for rows also reports progress, every ten
    seconds, with the number of the next micro-batch.
    """
    return "addBatch" in (progress.get("durationMs") or {})
