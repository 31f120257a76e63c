"""Acknowledges data from Spark at once, so that tasks do not wait for delayed acknowledgements.

For each task the JVM writes to its socket twice: the function, then the rows.

```
 JVM                                            worker
 function ------------------------------------> has it, and acknowledges it with its answer,
 rows, kept back until there is an              or when there is none for 40 ms
 acknowledgement (Nagle's algorithm)            (delayed acknowledgements)
```

So a task waits for 40 ms. A worker that acknowledges the function as soon as it has unpickled it does not wait. The
same happens in the other direction if micro-batches follow each other closely: the response to a commit has two
pieces. Unix sockets (`spark.python.unix.domain.socket.enabled`) have no acknowledgements; they are not Spark's
default.
"""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark_ottla.plain_errors import WORKER_VARIABLES

_DESCRIPTORS: Final = Path("/proc/self/fd")
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)


def send_and_acknowledge_at_once() -> None:
    """Call this when the function of a task is unpickled, or a write is committed. Has no effect outside of Spark, or
    without `/proc`.

    All TCP connections of the process are treated alike, as Spark does not say which is its own: that with a broker
    sends without delay anyway. Acknowledging at once holds until the worker has answered (tcp(7), TCP_QUICKACK).
    """
    if not hasattr(socket, "TCP_QUICKACK") or not any(name.startswith(WORKER_VARIABLES) for name in os.environ):
        return
    with suppress(OSError):
        for descriptor in [int(each.name) for each in _DESCRIPTORS.iterdir()]:
            # One that was open for the listing is not there any more.
            with suppress(OSError):
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    _at_once(descriptor)


def _at_once(descriptor: int) -> None:
    found = socket.socket(fileno=descriptor)
    try:
        if found.family in _FAMILIES and found.type == socket.SOCK_STREAM:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    finally:
        found.detach()
