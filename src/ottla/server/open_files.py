"""The limit on open files, which a broker with many partitions and connections outgrows first."""

import resource


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
