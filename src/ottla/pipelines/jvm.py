"""Starts and ends the JVM of a session.

PySpark returns the process when the JVM has reported that it is ready. If the driver is interrupted before that, the
JVM would run for ever: the file for the report no longer exists, and a JVM that cannot write it does not check whether
its driver is alive.
"""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

STOP_SECONDS: Final = 10
"""How long a JVM may take to end, after its queries have ended."""


class Jvm:
    """A JVM, started once, in a process session of its own.

    Signals to all processes of a terminal or service reach only the driver, which ends the JVM after its queries.
    """

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    def launch(self, conf: Any, streams: Mapping[str, Any]) -> Any:
        """Starts the JVM, and returns PySpark's gateway to it. Raises what PySpark raises, and KeyboardInterrupt."""
        from pyspark import java_gateway

        class Kept(subprocess.Popen[bytes]):
            def __init__(kept, *arguments: Any, **settings: Any) -> None:  # noqa: N805
                self._processes.append(kept)
                super().__init__(*arguments, **settings)

        before, java_gateway.Popen = java_gateway.Popen, Kept  # type: ignore[attr-defined, assignment]
        try:
            return java_gateway.launch_gateway(conf, {**streams, "start_new_session": True})  # type: ignore[no-untyped-call]
        finally:
            java_gateway.Popen = before  # type: ignore[attr-defined]

    def end(self) -> None:
        """Ends the JVM and its launcher; kills them after a timeout or an interrupt."""
        for process in self._processes:
            # One that could not be started, or had not been yet, has no number.
            if getattr(process, "pid", None) is None or process.poll() is not None:
                continue
            try:
                _send(process, signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
            finally:
                if process.poll() is None:
                    _send(process, signal.SIGKILL)
                    process.wait()
        self._processes.clear()


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    """To the process and those below it that stayed in its session: before it is a JVM, a script waits for another."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
