"""The commands that a user would type."""

import subprocess
import sys

from examples.flights.failure import DemoError


def ottla(*arguments: str, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
    """Run `ottla ...`. Raises DemoError with its last line when it fails, unless it may."""
    command = [sys.executable, "-m", "ottla.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode and not may_fail:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise DemoError(f"`ottla {' '.join(arguments[:2])}` ended with {done.returncode}: {said[-1]}")
    return done
