"""`ottla pipeline run` as a user has it: a process of its own, told apart by what it says line by line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.waiting_lines import ended, without_waiting

OTTLA = [sys.executable, "-m", "ottla.cli", "pipeline"]
DEADLINE_S = 300


class Driver:
    """One `ottla pipeline run FILE --json`, in a `with` statement; killed at its end when it still runs."""

    def __init__(self, file: Path, bootstrap: str, *arguments: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._stderr = file.with_suffix(".stderr").open("w+")
        command = [*OTTLA, "run", str(file), "-b", bootstrap, "--json", "--memory", "512m", *arguments]
        # As in a terminal: what Ctrl-C is sent to is this process with all below it.
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._stderr, text=True, start_new_session=True
        )

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next event that is wanted; those before it are kept, too."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.events.append(json.loads(line))
            if wanted(self.events[-1]):
                return self.events[-1]
        raise AssertionError(f"it ended: {self.events[-3:]} {self.stderr}")

    def until_event(self, kind: str, query: str | None = None) -> dict[str, Any]:
        """The next event of a kind."""
        return self.until(lambda event: event["event"] == kind and query in (None, event["query"]))

    def until_rows(self, count: int) -> None:
        """The micro-batches of each query have read so many records since it started, together."""
        read: dict[str, int] = {}

        def enough(event: dict[str, Any]) -> bool:
            if event["event"] == "batch":
                read[event["query"]] = read.get(event["query"], 0) + event["rows_in"]
            return bool(read) and min(read.values()) >= count

        self.until(enough)

    def send(self, number: int) -> None:
        """A signal to all processes of the terminal."""
        os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """As a crash of the driver."""
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """Its exit code; the events that were left are kept."""
        assert self._process.stdout is not None
        self.events += [json.loads(line) for line in self._process.stdout]
        return self._process.wait(timeout=DEADLINE_S)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def stderr(self) -> str:
        """What it said there."""
        self._stderr.seek(0)
        return without_waiting(self._stderr.read())

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.send(signal.SIGKILL)
        self._process.wait(timeout=DEADLINE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._stderr.close()


def command(name: str, file: Path, bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another command on a pipeline file, to its end."""
    done = subprocess.run(
        [*OTTLA, name, str(file), "-b", bootstrap, *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return ended(done)
