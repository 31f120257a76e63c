"""Runs a user's state processor on shifted event times; the processor sees rows, watermark and timers unshifted.

```
 Spark                                                     the processor of the user
 Row(id, at=1959-06-01, _event_time=5959-06-01)  ───────►  Row(id, at=1959-06-01)
 watermark 5959-06-01                            ───────►  watermark 1959-06-01
 timer at 5959-06-02                             ◄──────►  timer at 1959-06-02
```

It is called on workers, by one task at a time. Times are milliseconds since 1970, negative ones before.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

FIRST_MS: Final = -62_135_596_800_000
"""The beginning of the year 1: what a processor sees as long as there is no watermark."""


class ShiftedProcessor(StatefulProcessor):
    """The processor that Spark calls: `column` is the shifted column, `shift_ms` the shift."""

    def __init__(self, processor: StatefulProcessor, column: str, shift_ms: int) -> None:
        self._processor = processor
        self._column = column
        self._shift_ms = shift_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Passes on a handle with shifted timers."""
        self._processor.init(_ShiftedHandle(handle, self._shift_ms))

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Any]:
        """Passes on the rows without the shifted column."""
        return self._processor.handleInputRows(key, _without(self._column, rows), self._values(timerValues))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Any]:
        """Passes on the expiry of the timer in row time."""
        due = ExpiredTimerInfo(expiredTimerInfo.getExpiryTimeInMs() - self._shift_ms)
        values = self._values(timerValues)
        return self._processor.handleExpiredTimer(key=key, timerValues=values, expiredTimerInfo=due)

    def close(self) -> None:
        """Passes on the end of the processor."""
        self._processor.close()

    def _values(self, values: TimerValues) -> TimerValues:
        watermark = max(values.getCurrentWatermarkInMs() - self._shift_ms, FIRST_MS)
        return TimerValues(values.getCurrentProcessingTimeInMs(), watermark)


class _ShiftedHandle(StatefulProcessorHandle):
    def __init__(self, handle: StatefulProcessorHandle, shift_ms: int) -> None:
        self.__dict__.update(vars(handle))
        self._handle = handle
        self._shift_ms = shift_ms

    def registerTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        self._handle.registerTimer(expiryTimestampMs + self._shift_ms)

    def deleteTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        self._handle.deleteTimer(expiryTimestampMs + self._shift_ms)

    def listTimers(self) -> Iterator[int]:  # noqa: N802
        return (each - self._shift_ms for each in self._handle.listTimers())


def _without(column: str, rows: Iterable[Any]) -> Iterator[Any]:
    make, place = None, 0
    for row in rows:
        if make is None:
            names = [*row.__fields__]
            place = names.index(column)
            make = Row(*names[:place], *names[place + 1 :])
        yield make(*row[:place], *row[place + 1 :])
