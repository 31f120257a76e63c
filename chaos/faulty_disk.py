"""A disk whose calls can be made to fail while a broker runs: `faulty_io.c`, compiled here and preloaded there."""

from pathlib import Path

from chaos.preloaded import build

SOURCE = Path(__file__).with_name("faulty_io.c")


class FaultyDisk:
    """Start a program with `environment`; what fails in it is decided from here, at any time."""

    def __init__(self, directory: Path) -> None:
        """Build the library in `directory`. Raises CompilerError."""
        self._control = directory / "faulty_io.rules"
        self.environment = {"LD_PRELOAD": str(build(SOURCE, directory)), "FAULTY_IO_CONTROL": str(self._control)}

    def fail(self, path_part: str, error: int, *calls: str) -> None:
        """From now on `calls` of faulty_io.c on paths that contain `path_part` fail with `error`."""
        new = self._control.with_suffix(".new")
        new.write_text("".join(f"{call} {error} {path_part}\n" for call in calls))
        new.replace(self._control)

    def heal(self) -> None:
        """Nothing fails any more."""
        self._control.unlink(missing_ok=True)
