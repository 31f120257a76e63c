"""The database of the embedded store holds the secret of the cluster: nobody but its owner may open it.

Whoever reads the secret can speak to brokers as a broker. So the file is created with mode 0600, whatever the umask is,
and SQLite gives the files beside it (`-wal`, `-shm`, `-journal`) the mode of the database
(https://sqlite.org/tempfiles.html). A database that others can open is refused: it may have been read already, so
closing it quietly would hide that.
"""

import os
import shlex
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla.metadata.store.interface import StoreError

MODE: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")


def create_private(path: Path) -> None:
    """Create an empty file that only its owner can open; one that exists stays as it is. Raises OSError."""
    # Exclusive: a database that exists is never opened here, as closing it would end SQLite's locks in this process.
    with suppress(FileExistsError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
        try:
            os.fchmod(fd, MODE)  # a umask may have taken bits of the owner
        finally:
            os.close(fd)


def require_private(path: Path) -> None:
    """Raises StoreError when group or others can open a database or one of the files beside it, OSError otherwise."""
    exposed: list[Path] = []
    modes: set[int] = set()
    for suffix in _SUFFIXES:
        file = path.with_name(path.name + suffix)
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & _OTHERS:
                exposed.append(file)
                modes.add(mode)
    if exposed:
        names = " ".join(shlex.quote(str(file)) for file in exposed)
        found = ", ".join(f"{mode:04o}" for mode in sorted(modes))
        raise StoreError(
            f"{path} holds the secret of the cluster, and other users can open it (mode {found}): "
            f"run `chmod 600 {names}`"
        )
