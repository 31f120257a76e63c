"""Brokers that keep so little of a delay topic in memory that bucket files are used all the time; and a mistake in how
they deliver, which has to be found.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Final

from ottla.queues.delay import Progress
from ottla.simulation.replacing import replaced

LITTLE: Final = """from chaos.delay_brokers import keep_little

keep_little()
"""
GATHERED_BYTES: Final = 4 << 10
FAN_IN: Final = 3
_MOVER: Final = "ottla.server.delay_mover"
_BUCKETS: Final = "ottla.server.delay_buckets"
_KEPT: Final = ExitStack()
"""What is as little as it is only as long as this lives."""


def keep_little() -> None:
    """What this process keeps in memory is little, as long as it lives."""
    for module, name, value in (
        (_MOVER, "GATHERED_BYTES", GATHERED_BYTES),
        (_BUCKETS, "FAN_IN", FAN_IN),
        (_BUCKETS, "SMALL_BYTES", 2 * GATHERED_BYTES),
    ):
        _KEPT.enter_context(replaced(module, name, value))


def with_little_memory(directory: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What the environment of a broker has to be so that it keeps little; with what is planted there already."""
    folder = directory / "little-memory"
    folder.mkdir()
    planted = environment.get("PYTHONPATH", "").split(":")[0]
    program = (Path(planted) / "sitecustomize.py").read_text() if planted else ""
    (folder / "sitecustomize.py").write_text(LITTLE + program)
    return {**environment, "PYTHONPATH": f"{folder}:{Path(__file__).parent.parent}"}


def _progress_unknown(low: int, metadata: str) -> Progress:
    del metadata
    return Progress(low, end=low)


PLANTED: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    # A new leader begins at the first record that may wait, whatever was moved of those behind it.
    "delays-progress-forgotten": lambda: replaced(_MOVER, "progress_of", _progress_unknown),
}
"""By name, what plants them in brokers of `python -m chaos delays`."""


def planted(name: str) -> AbstractContextManager[Any]:
    """Has a mistake as long as it is entered. Raises KeyError."""
    return PLANTED[name]()
