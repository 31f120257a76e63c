"""The broker of the demo: `ottla serve` in a process of its own."""

import re
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from examples.flights.failure import DemoError
from examples.flights.processes import end_with_parent

_READY = re.compile(r"kafka (?P<host>\S+):(?P<port>\d+)")
_STOP_TIMEOUT_S = 10


class Broker(AbstractContextManager["Broker"]):
    """Running from the start of a `with` block to its end. `port` 0 takes one that is free."""

    def __init__(self, data: Path, log: Path, port: int = 0) -> None:
        self._data = data
        self._log = log
        self._port = port
        self._process: subprocess.Popen[str] | None = None
        self.bootstrap = ""
        """`HOST:PORT`, once it runs."""

    def __enter__(self) -> "Broker":
        command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(self._data)]
        command += ["--kafka", f"127.0.0.1:{self._port}"]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C reaches the whole foreground group; the broker is to be stopped by us, after its clients.
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - it takes no lock
            )
        assert self._process.stdout is not None
        ready = _READY.search(self._process.stdout.readline())
        if ready is None:
            self._stop()
            said = self._log.read_text().strip().splitlines() or ["nothing"]
            raise DemoError(f"the broker did not start: {said[-1]}")
        self.bootstrap = f"{ready['host']}:{ready['port']}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
