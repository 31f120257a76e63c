"""`ottla pipeline run` as a user starts it, and what it says of itself while it runs: a line of JSON for each event."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from examples.flights.failure import DemoError
from examples.flights.files import DemoFiles
from examples.flights.processes import end_with_parent
from ottla.pipelines.live_view import event_line

STANDSTILL_S = 900
"""Nothing has come for so long: the demo gives up, in place of waiting for ever."""
_POLL_S = 0.1
_BEGINS = ("starting", "planning", "working")
_STOP_TIMEOUT_S = 300
_TERMINATED = 143
_SHORT_RUN = "-XX:TieredStopAtLevel=1"
"""For a JVM that lives a minute: its second compiler would take more than the code that it makes faster saves."""


@dataclass
class QuerySeen:
    """What one query has said: all of its micro-batches together."""

    rows: int = 0
    """Records that it has read."""
    batches: int = 0
    watermark: str = ""
    late_rows: int = 0
    bad_rows: int = 0
    warnings: int = 0
    done: list[tuple[float, int]] = field(default_factory=list)
    """When each micro-batch was done, and how many records had been read by then."""


@dataclass(frozen=True, slots=True)
class Happening:
    """What is said of a query that is no micro-batch: it failed, it starts again."""

    at: float
    kind: str
    query: str
    reason: str
    line: str = ""
    """For people, where it is said of a query that begins its work."""


class PipelineProcess(AbstractContextManager["PipelineProcess"]):
    """Running from the start of a `with` block to its end. Times are those of `time.monotonic`."""

    def __init__(self, files: DemoFiles, bootstrap: str) -> None:
        self._files = files
        self._command = [sys.executable, "-m", "ottla.cli", "pipeline", "run", str(files.pipeline), "--json"]
        self._command += ["--bootstrap", bootstrap]
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name="pipeline-lines", daemon=True)
        self._heard = time.monotonic()
        self.queries: dict[str, QuerySeen] = {}
        """By `pipeline.sink`; changed by a thread that listens."""
        self.happenings: list[Happening] = []

    def __enter__(self) -> "PipelineProcess":
        with self._files.pipeline_log.open("a") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "JDK_JAVA_OPTIONS": _SHORT_RUN},
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - it takes no lock
            )
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def wait_until(self, holds: Callable[[], bool], tick: Callable[[], None]) -> None:
        """Look again and again, and call `tick` each time. Raises DemoError when the pipeline ends or stands still."""
        assert self._process is not None
        while not holds():
            if self._process.poll() is not None:
                self._reader.join()
                raise DemoError(f"the pipeline ended, see {self._files.pipeline_log}: {self._last_words()}")
            if time.monotonic() - self._heard > STANDSTILL_S:
                raise DemoError(f"the pipeline says nothing for {STANDSTILL_S} s, see {self._files.spark_log}")
            tick()
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """SIGTERM, as a supervisor stops it; all that it had to say is heard when this returns. Raises DemoError."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise DemoError(f"the pipeline does not end within {_STOP_TIMEOUT_S} s of SIGTERM") from None
        self._reader.join()
        if code != _TERMINATED:
            raise DemoError(f"the pipeline ended with {code} and not with {_TERMINATED}: {self._last_words()}")

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._files.pipeline_lines.open("w", encoding="utf-8") as kept:
            for line in self._process.stdout:
                kept.write(line)
                self._heard = time.monotonic()
                try:
                    said = json.loads(line)
                except ValueError:
                    continue
                self._note(said)

    def _note(self, said: dict[str, Any]) -> None:
        query = str(said.get("query", ""))
        if said.get("event") != "batch":
            kind = str(said.get("event"))
            line = event_line(kind, query, said) if kind in _BEGINS else ""
            self.happenings.append(Happening(self._heard, kind, query, str(said.get("reason", "")), line))
            return
        seen = self.queries.setdefault(query, QuerySeen())
        seen.rows += said["rows_in"]
        seen.late_rows += said["late_rows"]
        seen.bad_rows += said["bad_rows"]
        seen.warnings += said["warnings"]
        seen.watermark = said["watermark"] or seen.watermark
        seen.batches += 1
        seen.done.append((self._heard, seen.rows))

    def _last_words(self) -> str:
        return _last_line(self._files.pipeline_log) or "it said nothing"


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
