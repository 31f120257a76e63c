"""Whether the files of keys and certificates have changed since they were read."""

from collections.abc import Iterable
from pathlib import Path

from ottla.security.tls_config import TlsConfig

FileStates = tuple[tuple[int, int, int], ...]


def file_states(config: TlsConfig) -> FileStates:
    """What changes when somebody changes the files of a configuration. BLOCKING."""
    return states_of(config.files)


def states_of(paths: Iterable[str]) -> FileStates:
    """What changes when somebody changes the files. BLOCKING."""
    states = []
    for path in paths:
        try:
            found = Path(path).stat()
        except (OSError, ValueError):
            states.append((0, 0, 0))
        else:
            states.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(states)
