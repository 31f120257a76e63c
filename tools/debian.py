"""Packages of Debian that tests and comparisons need, installed when they are missing."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

PATIENTLY: Final = ("-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300")
"""How packages are fetched where the network is slow, or somebody else installs some."""


def require_packages(name: str, is_there: Callable[[], bool], *packages: str) -> None:
    """See that `name` is there, by these packages if it is not. Raises RuntimeError with what to do if that fails."""
    with (Path(tempfile.gettempdir()) / f"ottla-debian-{os.geteuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # apt-get does not wait for another one
        if is_there():
            return
        print(f"installing {name}", file=sys.stderr, flush=True)
        advice = f"install {name} (Debian: apt-get install {' '.join(packages)})"
        before = ["sudo", "-n"] if os.geteuid() != 0 else []
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        wanted = ["install", "-y", "-qq", "--no-install-recommends", *packages]
        try:
            for arguments in (["update", "-qq"], wanted):
                command = [*before, "apt-get", *PATIENTLY, *arguments]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        except OSError as error:
            raise RuntimeError(f"{advice}: {error}") from error
        if done.returncode:
            raise RuntimeError(f"{advice}: {done.stderr.strip()}")
