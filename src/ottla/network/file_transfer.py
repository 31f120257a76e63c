"""From a file to a socket, and how not to wait for the disk on the way."""

import errno
import os
import socket

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
        raise OSError(errno.EIO, f"a file ends before position {position} of a response that was to be read from it")
    return sent


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
