"""A wall clock of a program's own, that can be made to jump while the program runs: `shifted_clock.c`."""

import struct
from pathlib import Path

from chaos.preloaded import build

SOURCE = Path(__file__).with_name("shifted_clock.c")
_NANOSECONDS = struct.Struct("q")


class ShiftedClock:
    """Start a program with `environment`; its time is that of this machine and what was last given to `shift`."""

    def __init__(self, directory: Path) -> None:
        """Build the library in `directory`. Raises CompilerError."""
        self._control = directory / "shifted_clock.ns"
        self.shift(0)
        self.environment = {"LD_PRELOAD": str(build(SOURCE, directory)), "SHIFTED_CLOCK": str(self._control)}

    def shift(self, seconds: float) -> None:
        """Be so far ahead, or behind when negative, from now on."""
        # In place: the program has the file in its memory.
        with self._control.open("r+b" if self._control.exists() else "wb") as file:
            file.write(_NANOSECONDS.pack(int(seconds * 1e9)))
