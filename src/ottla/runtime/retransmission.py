"""How soon TCP sends again what was not acknowledged.

The time until the next attempt doubles with each one, up to two minutes. So after a cut of the network that took ten
seconds, a connection that was in use may be silent for ten seconds more. Linux bounds that time for one connection
(`TCP_RTO_MAX_MS`, since 6.15), to a second at least. The connection then ends after some 15 s without an answer.
"""

import os
import socket
import sys
from contextlib import suppress
from typing import Final

TCP_RTO_MAX_MS: Final = 44
"""Of linux/tcp.h; Python has no name for it."""

SOON_MS: Final = 1_000
"""The least that Linux takes."""


def retransmit_soon(fd: int) -> None:
    """Have a TCP connection send again within a second. Nothing happens where the system cannot, or to what is none."""
    if sys.platform != "linux":
        return
    with suppress(OSError):
        copy = os.dup(fd)
        try:
            connection = socket.socket(fileno=copy)
            try:
                connection.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, SOON_MS)
            finally:
                connection.detach()
        finally:
            os.close(copy)
