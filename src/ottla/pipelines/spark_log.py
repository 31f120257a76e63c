"""The log of a Spark session: a rotated file with the output of all its processes.

The JVM's log, its standard error and that of the Python processes below it share one pipe. A thread reads it:

```
 JVM, log4j2 ------.
 JVM, stderr -------+--> pipe --> thread --> spark.log, and before it spark.log.1, spark.log.2, ...
 Python, stderr ---'
```

If log4j2 rotated the file itself, the other processes would write to the old file for ever.
"""

import os
import threading
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

FILE_BYTES: Final = 8 << 20
"""The maximum size of a log file."""
OLDER_FILES: Final = 3
CHUNK_BYTES: Final = 64 << 10
"""The size of reads from the pipe."""
_LAST_WORDS_SECONDS: Final = 5
"""For what is in the pipe when the JVM has ended. Some process that it left behind may hold the pipe open."""


class SparkLog:
    """The pipe and its thread. Output that cannot be written, as on a full disk, is lost; processes do not wait."""

    def __init__(self, path: Path, file_bytes: int = FILE_BYTES, older_files: int = OLDER_FILES) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._older_files = older_files
        self._read, self._write = os.pipe()
        self._thread = threading.Thread(target=self._empty, name="ottla-spark-log", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """The descriptor that processes write to; invalid after `hand_over`."""
        return self._write

    def hand_over(self) -> None:
        """Call this when the processes have started, or failed to: the pipe then ends with the last of them."""
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def close(self) -> None:
        """Waits for the remaining output of the processes, which have ended."""
        self.hand_over()
        self._thread.join(_LAST_WORDS_SECONDS)

    def _empty(self) -> None:
        while chunk := os.read(self._read, CHUNK_BYTES):
            with suppress(OSError):
                self._append(chunk)
        os.close(self._read)

    def _append(self, chunk: bytes) -> None:
        # Opened for each: another driver may have put the file aside, or its owner have removed it.
        size = self._path.stat().st_size if self._path.exists() else 0
        if 0 < size > self._file_bytes - len(chunk):
            self._put_aside()
        with self._path.open("ab") as file:
            file.write(chunk)

    def _put_aside(self) -> None:
        files = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._older_files + 1))]
        for file, older in reversed([*pairwise(files)]):
            if file.exists():
                file.replace(older)
