"""What a query says of its micro-batches is told once, and whole."""

import json
from types import SimpleNamespace

from ottla.pipelines.runner.spark_query import SparkQuery


class Progress:
    """Of one micro-batch, as the JVM has it; `asked` counts its calls."""

    asked = 0

    def __init__(self, batch: int) -> None:
        self._batch = batch

    def json(self) -> str:
        Progress.asked += 1
        return json.dumps({"batchId": self._batch})


def test_all_micro_batches_since_the_last_look_are_told_once_and_in_order():
    kept: list[Progress] = []
    query = SparkQuery(SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=object, recentProgress=lambda: kept)))  # type: ignore[arg-type]
    assert query.progress() == []
    kept.append(Progress(0))
    assert query.progress() == [{"batchId": 0}]
    assert query.progress() == []
    # The driver was held up for many of them.
    kept += map(Progress, range(1, 301))
    assert query.progress() == [{"batchId": number} for number in range(1, 301)]
    Progress.asked = 0
    assert query.progress() == []
    assert Progress.asked == 1


def test_what_spark_keeps_no_more_is_left_out():
    kept = [Progress(0)]
    query = SparkQuery(SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=object, recentProgress=lambda: kept)))  # type: ignore[arg-type]
    assert query.progress() == [{"batchId": 0}]
    kept[:] = [Progress(5), Progress(6)]
    assert query.progress() == [{"batchId": 5}, {"batchId": 6}]
