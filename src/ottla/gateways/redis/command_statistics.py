"""How often commands ran, how long they took, and how they failed: INFO commandstats and errorstats.

The clock counts milliseconds and a command takes less. What a command took is the number of milliseconds that began
meanwhile, mostly none: that is right on average, and over many calls.
"""

from __future__ import annotations

from typing import Final

CODES_MAX: Final = 128
"""Error codes that are counted each; the codes are those of this gateway, so there are fewer."""


class _Command:
    __slots__ = ("calls", "failed", "rejected", "took_ms")

    def __init__(self) -> None:
        self.calls = self.took_ms = self.rejected = self.failed = 0


class CommandStatistics:
    """Belongs to the event loop."""

    def __init__(self) -> None:
        self._commands: dict[str, _Command] = {}
        self._errors: dict[bytes, int] = {}
        self.errors_total = 0

    def reset(self) -> None:
        """CONFIG RESETSTAT."""
        self._commands.clear()
        self._errors.clear()
        self.errors_total = 0

    def ran(self, name: str, took_ms: int = 0, count: int = 1) -> None:
        """A command that is served ran."""
        command = self._of(name)
        command.calls += count
        command.took_ms += took_ms

    def failed(self, name: str, took_ms: int) -> None:
        """A command ran and was answered with an error."""
        self.ran(name, took_ms)
        self._of(name).failed += 1

    def rejected(self, name: str) -> None:
        """A command was refused before it ran."""
        self._of(name).rejected += 1

    def answered(self, error: bytes) -> None:
        """A client was answered with an error, a line that begins with its code."""
        self.errors_total += 1
        code = error.partition(b" ")[0]
        if code in self._errors or len(self._errors) < CODES_MAX:
            self._errors[code] = self._errors.get(code, 0) + 1

    def _of(self, name: str) -> _Command:
        command = self._commands.get(name)
        if command is None:
            command = self._commands[name] = _Command()
        return command

    def of_commands(self) -> dict[str, object]:
        """The lines of INFO commandstats."""
        return {f"cmdstat_{name}": _row(each) for name, each in sorted(self._commands.items())}

    def of_errors(self) -> dict[str, object]:
        """The lines of INFO errorstats."""
        return {
            f"errorstat_{code.decode(errors='replace')}": f"count={count}"
            for code, count in sorted(self._errors.items())
        }


def _row(command: _Command) -> str:
    took_us = command.took_ms * 1_000
    per_call = took_us / command.calls if command.calls else 0
    return (
        f"calls={command.calls},usec={took_us},usec_per_call={per_call:.2f},"
        f"rejected_calls={command.rejected},failed_calls={command.failed}"
    )
