"""From a file by way of the page cache, and never waiting for the disk without meaning to.

A page that is not in the page cache has to come from the disk, and with the event loop every client would wait for it.
So the cache is asked first, with `RWF_NOWAIT` (Linux 4.14), and what is not there is read in a thread. Where the system
cannot tell, the loop takes the risk.
"""

import errno
import os

from ottla.native import read_ahead

_PROBE_STEP = 128 * 1024
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_probe = bytearray(1)


class FileEndedError(OSError):
    """A file ends before what was to be read of it: it was cut back, or the disk lost it."""

    def __init__(self, position: int) -> None:
        super().__init__(errno.EIO, f"a file ends before position {position}, in the middle of what was to be read")


def read_file(fd: int, position: int, size: int) -> bytes:
    """`size` bytes of a file, from the disk if need be. Raises OSError when the file ends before."""
    data = os.pread(fd, size, position)
    if len(data) < size:
        raise FileEndedError(position + len(data))
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


def read_what_is_asked_for(fd: int) -> None:
    """Have the system read of this open file what it is asked for, and no more.

    Where a disk is set to be read far ahead (`read_ahead_kb`, 8 MiB with some), the system asks for so much at once
    when it finds somebody reading on, and every sync of the same disk waits for that.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)


def read_into_page_cache(fd: int, position: int, size: int) -> None:
    """Wait until these bytes have been read from the disk. Blocks: for a thread."""
    read_ahead(fd, position, size)  # else the system would read on beyond them, as far as it pleases
    buffer = bytearray(min(size, _PROBE_STEP))
    end = position + size
    while position < end:
        count = os.preadv(fd, (memoryview(buffer)[: end - position],), position)
        if not count:
            return
        position += count
