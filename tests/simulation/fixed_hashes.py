"""Tests of seeds in an interpreter that orders its sets as in every other run.

What whole brokers do follows from a seed and from the order of sets of names, which Python draws anew for each process.
`python -m ottla.simulation` fixes it too; without that each run of the tests tries schedules that nobody has tried yet.
"""

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_HASHES: Final = "PYTHONHASHSEED"
_ROOT: Final = Path(__file__).resolve().parents[2]


def with_fixed_hashes(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test in a process of its own; what it is given must be read from its `repr`."""

    @functools.wraps(test)
    def in_another_process(**given: Any) -> None:
        if os.environ.get(_HASHES) == "0":
            test(**given)
            return
        program = f"from {test.__module__} import {test.__name__} as test; test(**{given!r})"
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, _HASHES: "0"},
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return in_another_process
