"""Stores when a table was last compacted, beside its checkpoint, as a pipeline may run for minutes at a time.

```
checkpoints/flights/lake/
   ottla-pipeline-compacted   1370044800000    ms since 1970; at first when the table was first looked at
```
"""

from pathlib import Path
from typing import Final

from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk, OsDisk

COMPACTED: Final = "ottla-pipeline-compacted"


class CompactionSchedule:
    """Decides when a compaction is due. Without a directory, the interval begins at the start of the process."""

    def __init__(self, directory: Path | None, every_ms: int, clock: Clock, disk: Disk | None = None) -> None:
        self._file = None if directory is None else directory / COMPACTED
        self._every_ms = every_ms
        self._clock = clock
        self._disk = disk or OsDisk()
        last_ms = self._kept()
        if last_ms is None:
            self.done()
        else:
            self._last_ms = last_ms

    def is_due(self) -> bool:
        """Whether the interval has passed, or the clock was set back."""
        return not 0 <= self._clock.now_ms() - self._last_ms < self._every_ms

    def done(self) -> None:
        """Notes an attempt at the current time."""
        self._last_ms = self._clock.now_ms()
        if self._file is not None:
            self._disk.write_atomic(self._file, str(self._last_ms).encode())

    def _kept(self) -> int | None:
        if self._file is None:
            return None
        try:
            return int(self._disk.read_bytes(self._file))
        except (FileNotFoundError, ValueError):
            return None
