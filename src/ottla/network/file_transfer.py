"""From a file to a socket, by what measures best, and without waiting for the disk.

CPU seconds of the sender for a GB, user and system, on loopback, the file in the page cache, 60 bytes before each
slice, as many slices in a response as given (`benchmarks/network.py --files`):

    slices of          500 B x 50   2 KB x 50   4 KB x 50   16 KB x 20   32 KB x 10   64 KB x 8   1 MB
    sendfile                26.4         4.4         2.9         0.88         0.45        0.30    0.22
    preadv, sendmsg          6.7         1.4         1.0         0.40         0.31        0.25    0.22

While slices are small, a call of `sendfile` for each, and one for what is between them, cost more than the copy they
save. So slices of up to 64 KiB are read and leave together with their neighbours, and larger ones go by `sendfile`,
which needs no buffer. What was read and not taken by the socket is not kept.

Both would wait for the disk when a page is not in the page cache (`ottla.runtime.page_cache`).
"""

import os

from ottla.runtime.page_cache import FileEndedError

GATHER_MAX_BYTES = 64 * 1024
"""Slices up to this size are read and sent with their neighbours."""


def send_file(socket_fd: int, fd: int, position: int, size: int) -> int:
    """Send up to `size` bytes of a file; how many the socket took, at least one.

    Raises BlockingIOError when the socket is full, and OSError when the file ends before `position`: the response has
    been announced, so the connection cannot go on.
    """
    sent = os.sendfile(socket_fd, fd, position, size)
    if not sent:
        raise FileEndedError(position)
    return sent
