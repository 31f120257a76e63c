"""Whether the files of keys and certificates have changed since they were read."""

from pathlib import Path

from ottla.security.tls_config import TlsConfig

FileStates = tuple[tuple[int, int, int], ...]


def file_states(config: TlsConfig) -> FileStates:
    """What changes when somebody changes the files. BLOCKING."""
    states = []
    for path in config.files:
        try:
            found = Path(path).stat()
        except (OSError, ValueError):
            states.append((0, 0, 0))
        else:
            states.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(states)
