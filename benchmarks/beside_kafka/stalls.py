"""How long the machine stood still while something was measured: that is in its tail, whoever is measured."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Stalls:
    """Of the core that was late most: thousandths of the time, and the longest stall. None where nobody may look."""

    per_mille: float | None = None
    longest_ms: float | None = None


@contextmanager
def watching(program: Path) -> Iterator[Stalls]:
    """Watch until the end of the context, where the stalls get their figures. `program` is stalls.c, compiled."""
    stalls = Stalls()
    with subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watch:
        yield stalls
        said, _ = watch.communicate()
    if watch.returncode == 0:
        figures = json.loads(said)
        stalls.per_mille, stalls.longest_ms = figures["per_mille"], figures["longest_ms"]
