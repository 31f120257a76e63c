"""The brokers of the demo: one `ottla serve` each, over one metadata store, killed and started one by one."""

import re
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from examples.flights.failure import DemoError
from examples.flights.processes import end_with_parent

_READY = re.compile(r"kafka (\S+:\d+)")
_STOP_S = 60


class Brokers(AbstractContextManager["Brokers"]):
    """Brokers 1 to `count`, running from the start of a `with` block to its end."""

    def __init__(self, directory: Path, count: int, metadata: str) -> None:
        self._directory = directory
        self._metadata = metadata
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._addresses = dict.fromkeys(range(1, count + 1), "127.0.0.1:0")

    @property
    def bootstrap(self) -> str:
        """Where all of them are, whether or not they run now."""
        return ",".join(self._addresses.values())

    def __enter__(self) -> "Brokers":
        for broker_id in self._addresses:
            self._spawn(broker_id)
        for broker_id in self._addresses:
            self._wait_until_ready(broker_id)
        return self

    def kill(self, broker_id: int) -> None:
        """SIGKILL: it says goodbye to nobody."""
        process = self._processes.pop(broker_id)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def start(self, broker_id: int) -> None:
        """Start one that was killed, at its address and with its data."""
        self._spawn(broker_id)
        self._wait_until_ready(broker_id)

    def _spawn(self, broker_id: int) -> None:
        command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(self._directory / f"broker-{broker_id}")]
        command += ["--kafka", self._addresses[broker_id], "--metadata", self._metadata]
        command += ["--set", f"node.id={broker_id}"]
        with self._log(broker_id).open("a") as log:
            self._processes[broker_id] = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - it takes no lock
            )

    def _wait_until_ready(self, broker_id: int) -> None:
        stdout = self._processes[broker_id].stdout
        assert stdout is not None
        ready = _READY.search(stdout.readline())
        if ready is None:
            said = self._log(broker_id).read_text().strip().splitlines() or ["nothing"]
            raise DemoError(f"broker {broker_id} did not start: {said[-1]}")
        self._addresses[broker_id] = ready[1]

    def _log(self, broker_id: int) -> Path:
        return self._directory / f"broker-{broker_id}.log"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
