"""What a command says on stderr, but for what depends on how busy the machine is.

A command names what it has waited for during two seconds. Where nothing is wrong, a machine that has other things to do
brings such lines. `tests/system/test_waiting.py` is about them; all other tests leave them out.
"""

from __future__ import annotations

import re
import subprocess
from typing import AnyStr

_WAITING = re.compile(r"^ottla: waiting: .*\n", re.MULTILINE)
_WAITING_BYTES = re.compile(rb"^ottla: waiting: .*\n", re.MULTILINE)


def without_waiting(stderr: AnyStr) -> AnyStr:
    """The other lines."""
    return _WAITING_BYTES.sub(b"", stderr) if isinstance(stderr, bytes) else _WAITING.sub("", stderr)


def ended(done: subprocess.CompletedProcess[AnyStr]) -> subprocess.CompletedProcess[AnyStr]:
    """A command that has ended, with the other lines of its stderr."""
    done.stderr = without_waiting(done.stderr)
    return done
