"""What a process has run out of, and what to do: open files, memory or disk, whoever met the end first."""

import errno
from typing import Final

_ADVICE: Final = {
    errno.EMFILE: "this process may open no more files; raise `ulimit -n` (LimitNOFILE= in systemd) and restart it",
    errno.ENFILE: "this machine may open no more files; raise the sysctl fs.file-max",
    errno.ENOMEM: "this machine is out of memory; give it more, or stop something",
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota of this user is used up; free some space or raise it",
}


def advice(error: BaseException | None) -> str | None:
    """What to do about an error that means that something has run out; None for other errors.

    >>> advice(OSError(errno.ENOSPC, "No space left on device"))
    'the disk is full; free some space'
    """
    if isinstance(error, MemoryError):
        return "this process is out of memory; give it more, or lower what `ottla serve --check` lists"
    return _ADVICE.get(error.errno or 0) if isinstance(error, OSError) else None
