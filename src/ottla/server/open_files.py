"""The limit on open files, which a broker with many partitions and connections outgrows first, and how it is shared.

    limit 20000   | connections 14624 | files read and sent 4096 | files written 1024 | others 256 |

Sockets never take what data needs: a log that cannot be opened would stop producers, while a client that is refused
comes again.
"""

import resource
from typing import Final

from msgspec import Struct

CONNECTIONS_MAX: Final = 100_000
"""As many connections are allowed when nobody says how many, however many files may be open: each has its price in
memory (docs/limits.md)."""

_WRITTEN_MAX: Final = 1024
_KEPT_MAX: Final = 1024
_OPEN_MAX: Final = 4096
_OTHERS_MAX: Final = 256


def raise_open_files_limit() -> int:
    """Lift the soft limit to the hard one; returns the limit that holds. Never fails: the old limit is good enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        return soft
    return hard


class OpenFileShares(Struct, frozen=True):
    """Who may have how many files open."""

    connections: int
    written: int
    """Segments open for writing; those used longest ago are closed."""
    kept: int
    """Segments kept open for reading."""
    read: int
    """Segments open for reading at all: kept, being read, or on their way to a socket."""

    @classmethod
    def of(cls, limit: int) -> "OpenFileShares":
        """The shares of `limit` open files.

        >>> OpenFileShares.of(1024)
        OpenFileShares(connections=512, written=128, kept=128, read=256)
        """
        if limit < 0:  # RLIM_INFINITY
            return cls(CONNECTIONS_MAX, _WRITTEN_MAX, _KEPT_MAX, _OPEN_MAX)
        written = min(_WRITTEN_MAX, limit // 8)
        kept = min(_KEPT_MAX, limit // 8)
        read = min(_OPEN_MAX, limit // 4)
        others = min(_OTHERS_MAX, limit // 8)
        connections = max(1, limit - written - read - others)
        return cls(min(connections, CONNECTIONS_MAX), max(1, written), max(1, kept), max(1, read))
