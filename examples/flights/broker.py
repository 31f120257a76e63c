"""The broker of the demo: `ottla serve` in a process of its own, which can be killed and started again."""

import re
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from examples.flights.failure import DemoError
from examples.flights.processes import end_with_parent
from tools.ports import free_ports

_READY = re.compile(r"kafka (?P<host>\S+):(?P<port>\d+).* in (?P<took>\d+ ms)")
_STOP_TIMEOUT_S = 10


class Broker(AbstractContextManager["Broker"]):
    """Running from the start of a `with` block to its end. `port` 0 takes one that is free, and keeps it.

    With `has_nsq` it serves NSQ clients at `nsq`, with `has_redis` Redis clients at `redis`.
    """

    def __init__(self, data: Path, log: Path, port: int = 0, *, has_nsq: bool = False, has_redis: bool = False) -> None:
        self._data = data
        self._log = log
        # Not one of those that the kernel gives to clients: while the broker is away, it would be given away.
        free = free_ports(3)
        self._port = port or free[0]
        self._process: subprocess.Popen[str] | None = None
        self.bootstrap = f"127.0.0.1:{self._port}"
        self.nsq = f"127.0.0.1:{free[1]}" if has_nsq else ""
        self.redis = f"127.0.0.1:{free[2]}" if has_redis else ""
        self.took = ""
        """How long the last start took, as it says."""

    def __enter__(self) -> "Broker":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def start(self) -> None:
        """Start it on what its directory holds; it is ready when this returns. Raises DemoError."""
        command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(self._data), "--kafka", self.bootstrap]
        if self.nsq:
            command += ["--nsq", self.nsq]
        if self.redis:
            command += ["--redis", self.redis]
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
        self.took = ready["took"]

    def kill(self) -> None:
        """`kill -9`: no chance to write or to say anything. Its directory stays as it is."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
