"""The lag of a stream."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark_ottla.offset_json import Offsets
from pyspark_ottla.stream_offset import StreamOffset


def lag(source_progress: Mapping[str, Any]) -> Offsets:
    """The lag of each partition at the end of a micro-batch: the number of offsets that were not read yet.

    `source_progress` is one of the `sources` of a query's `lastProgress`, or of the progress that a
    `StreamingQueryListener` receives: `lag(query.lastProgress["sources"][0])`.
    """
    end, latest = (_offsets(source_progress.get(name)) for name in ("endOffset", "latestOffset"))
    return {each: max(offset - end.get(each, 0), 0) for each, offset in latest.items()}


def lag_metrics(source_progress: Mapping[str, Any]) -> dict[str, str]:
    """`minOffsetsBehindLatest`, `maxOffsetsBehindLatest`, `avgOffsetsBehindLatest`, as Spark's Kafka source has them.

    Spark's source shows them in the progress itself, as `metrics`. The interface for Python sources has no field for
    them.

    >>> end, latest = {"t": {"0": 5, "1": 9}}, {"t": {"0": 8, "1": 9}}
    >>> lag_metrics({"endOffset": end, "latestOffset": latest})["avgOffsetsBehindLatest"]
    '1.5'
    """
    behind = list(lag(source_progress).values())
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }


def _offsets(stored: Any) -> Offsets:
    if isinstance(stored, str):
        stored = json.loads(stored)
    return StreamOffset.from_json(stored or {}).offsets
