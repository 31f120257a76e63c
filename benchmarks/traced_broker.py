"""A broker that prints what its log I/O thread counted, one JSON object a line, whenever it gets SIGUSR1.

    .venv/bin/python -m benchmarks.traced_broker DATA [key=value]...

For `durable_tails`. It listens at a free port and says so in its first line, as `ottla serve` does.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

from ottla.native import LogIo
from ottla.server.options import ServeOptions


def main(data: str, settings: list[str]) -> None:
    """Serve until SIGTERM."""
    serving = importlib.import_module("ottla.server.serve")
    local_broker = importlib.import_module("ottla.server.local_broker")
    made: list[LogIo] = []

    def log_io(**options: Any) -> LogIo:
        made.append(LogIo(**options))
        return made[-1]

    local_broker.LogIo = log_io  # type: ignore[attr-defined]
    signal.signal(signal.SIGUSR1, lambda *_: print(json.dumps(made[-1].trace()), flush=True))
    given = dict(setting.split("=", 1) for setting in settings)
    serving.serve(ServeOptions(data_dir=Path(data), kafka=("127.0.0.1", 0), settings=given))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
