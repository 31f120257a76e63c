"""From a file to a socket, by what measures best, and without waiting for the disk.

CPU seconds of the sender for a GB, user and system, on loopback, the file in the page cache, 60 bytes before each
slice, as many slices in a response as given (`benchmarks/network.py --files`):

    slices of          500 B x 50   2 KB x 50   4 KB x 50   16 KB x 20   32 KB x 10   64 KB x 8   1 MB
    sendfile                26.4         4.4         2.9         0.88         0.45        0.30    0.22
    preadv, sendmsg          6.7         1.4         1.0         0.40         0.31        0.25    0.22

While slices are small, a call of `sendfile` for each, and one for what is between them, cost more than the copy they
save. So slices of up to 64 KiB are read and leave together with their neighbours, and larger ones go by `sendfile`,
which needs no buffer. What was read and not taken by the socket is not kept.

Both would wait for the disk when a page is not in the page cache, and with them every client of the event loop. So the
cache is asked first, with `RWF_NOWAIT` (Linux 4.14), and what is not there is read in a thread. Where the system cannot
tell, the loop takes the risk.
"""

import errno
import os
import socket

GATHER_MAX_BYTES = 64 * 1024
"""Slices up to this size are read and sent with their neighbours."""

_PROBE_STEP = 128 * 1024
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_probe = bytearray(1)


def send_file(sock: socket.socket, fd: int, position: int, size: int) -> int:
    """Send up to `size` bytes of a file; how many the socket took, at least one.

    Raises BlockingIOError when the socket is full, and OSError when the file ends before `position`: the response has
    been announced, so the connection cannot go on.
    """
    sent = os.sendfile(sock.fileno(), fd, position, size)
    if not sent:
        raise _ended(position)
    return sent


def read_file(fd: int, position: int, size: int) -> bytes:
    """`size` bytes of a file, from the disk if need be. Raises OSError when the file ends before."""
    data = os.pread(fd, size, position)
    if len(data) < size:
        raise _ended(position + len(data))
    return data


def read_cached(fd: int, position: int, size: int) -> bytearray | bytes | None:
    """`size` bytes of a file if that needs no wait for the disk, None otherwise."""
    if not _NOWAIT:
        return read_file(fd, position, size)
    data = bytearray(size)
    try:
        count = os.preadv(fd, (data,), position, _NOWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return read_file(fd, position, size)
    return data if count == size else None


def is_in_page_cache(fd: int, position: int, size: int) -> bool:
    """Whether sending these bytes will probably not wait for the disk.

    Looks at one byte in each 128 KiB, the unit in which Linux reads ahead. True where the system cannot tell.
    """
    if not _NOWAIT:
        return True
    last = position + size - 1
    try:
        while position < last:
            os.preadv(fd, (_probe,), position, _NOWAIT)
            position += _PROBE_STEP
        os.preadv(fd, (_probe,), last, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def read_into_page_cache(fd: int, position: int, size: int) -> None:
    """Wait until these bytes have been read from the disk. Blocks: for a thread."""
    buffer = bytearray(min(size, _PROBE_STEP))
    end = position + size
    while position < end:
        count = os.preadv(fd, (memoryview(buffer)[: end - position],), position)
        if not count:
            return
        position += count


def _ended(position: int) -> OSError:
    return OSError(errno.EIO, f"a file ends before position {position}, in the middle of what was to be sent of it")
