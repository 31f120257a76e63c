"""A broker as a user has it: the `ottla serve` command in a process of its own, on a free port, killable."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tools.ports import free_ports

RETENTION_LATER = {"log.retention.check.interval.ms": "86400000"}
"""Tests write records of any age, and read them when retention may just have looked."""

READY = re.compile(r"ready.*kafka (?P<host>\S+):(?P<port>\d+)")

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR|CRITICAL) [\w.]+: ")
"""How every line of a broker's log begins."""


@dataclass
class BrokerProcess:
    """One `ottla serve`. `start` returns when it says that it is ready; `restart` keeps address and data."""

    data_dir: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen[str] | None = None
    ready_line: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    log_dir: Path | None = None
    metadata: str | None = None
    host: str = "127.0.0.1"
    protocol: str = "PLAINTEXT"
    """How its listener speaks."""
    inside: tuple[str, ...] = ()
    """A command that runs another one where the broker is to run, in its own process."""

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log_path(self) -> Path:
        return (self.log_dir or self.data_dir.parent) / f"{self.data_dir.name}.stderr"

    def start(self) -> BrokerProcess:
        self.spawn()
        return self.wait_until_ready()

    def spawn(self) -> None:
        """Begin to start; where it listens is nobody else's while it is away."""
        if not self.port:
            (self.port,) = free_ports(1)
        command = [*self.inside, sys.executable, "-m", "ottla.cli", "serve", "--data", str(self.data_dir)]
        if self.protocol == "PLAINTEXT":
            command += ["--kafka", f"{self.host}:{self.port}"]
        else:
            command += ["--set", f"listeners={self.protocol}://{self.host}:{self.port}"]
        command += [] if self.metadata is None else ["--metadata", self.metadata]
        for key, value in {**RETENTION_LATER, **self.settings}.items():
            command += ["--set", f"{key}={value}"]
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
            )

    def wait_until_ready(self) -> BrokerProcess:
        """Wait for the line that says so."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.ready_line = self.process.stdout.readline()
        match = READY.search(self.ready_line)
        if match is None:
            self.process.kill()
            raise AssertionError(f"the broker did not start: {self.ready_line!r}\n{self.log_path.read_text()}")
        self.port = int(match["port"])
        return self

    def stopped_log(self) -> list[str]:
        """Stop it, and the lines of its log. A client may see what a running broker does before the line about it is
        written: only when the process has ended are all lines there.
        """
        self.stop()
        return self.log_path.read_text().splitlines()

    def kill(self) -> None:
        """As a crash: SIGKILL, no chance to write anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As an operator: SIGTERM, and the exit code."""
        return self._end(signal.SIGTERM)

    @property
    def is_running(self) -> bool:
        """Whether it was started and neither killed nor stopped; it may be paused."""
        return self.process is not None

    def pause(self) -> None:
        """It does nothing any more, and nobody is told."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on where it was, as if no time had passed."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _end(self, signal_number: int) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(signal_number)
        self.process.send_signal(signal.SIGCONT)
        code = self.process.wait(timeout=300)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def __enter__(self) -> BrokerProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
