"""From a file by way of the page cache, and never waiting for the disk without meaning to.

A page that is not in the page cache has to come from the disk, and with the event loop every client would wait for it.
So the cache is asked first, with `RWF_NOWAIT` (Linux 4.14), and what is not there is read in a thread. Where the system
cannot tell, the loop takes the risk.
"""

import errno
import os

_PROBE_STEP = 128 * 1024
_ASK_STEP = 512 * 1024
"""Linux reads no more for one call than one request to the disk may hold, or its own read-ahead if that is more."""
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


def read_into_page_cache(fd: int, position: int, size: int) -> None:
    """Wait until these bytes have been read from the disk. Blocks: for a thread."""
    buffer = bytearray(min(size, _PROBE_STEP))
    end = position + size
    while position < end:
        count = os.preadv(fd, (memoryview(buffer)[: end - position],), position)
        if not count:
            return
        position += count


def ask_for_pages(fd: int, position: int, size: int) -> None:
    """Have the system begin to read these bytes, without waiting until it has; what lies behind the end is passed over.

    For a thread: with many reads under way it may wait for the disk to take another. Nothing where it cannot be asked.
    """
    advise = getattr(os, "posix_fadvise", None)
    if advise is None:
        return
    for at in range(position, position + size, _ASK_STEP):
        advise(fd, at, min(_ASK_STEP, position + size - at), os.POSIX_FADV_WILLNEED)
