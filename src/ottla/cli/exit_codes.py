"""How a command ends, for scripts. Documented in `ottla --help` and docs/cli.md."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit code of the process."""

    OK = 0
    FAILED = 1
    """The operation was refused or did not succeed."""
    USAGE = 2
    """The command line is wrong; nothing was done."""
    UNREACHABLE = 3
    """No broker could be reached."""
    NOT_FOUND = 4
    """The topic, partition, group, transactional id, setting, broker or file does not exist."""
    INTERRUPTED = 130
    """Ctrl-C."""
    TERMINATED = 143
    """SIGTERM."""
