"""C libraries that come between a program and the operating system: built here, preloaded there."""

import shutil
import subprocess
from pathlib import Path


class CompilerError(Exception):
    """A library cannot be built here; the message says why."""


def why_not() -> str | None:
    """Why none can be built here; None when they can."""
    return None if _compiler() else "there is no C compiler"


def build(source: Path, directory: Path) -> Path:
    """The library of a source, in a directory. Raises CompilerError."""
    compiler = _compiler()
    if compiler is None:
        raise CompilerError("there is no C compiler")
    library = directory / f"{source.stem}.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilerError(done.stderr.strip())
    return library


def _compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc")
