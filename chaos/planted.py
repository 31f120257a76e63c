"""Brokers with a fault in them that has to be found: those that are planted in simulated brokers, in real ones."""

from pathlib import Path

from chaos import delay_brokers
from ottla.simulation.whole.planted_bugs import PLANTED

PROGRAM = """from {module} import planted

plant = planted({name!r})
plant.__enter__()
"""


def planted_in(directory: Path, name: str) -> dict[str, str]:
    """What the environment of a broker has to be so that it has this fault. Raises KeyError: there is none."""
    known = dict.fromkeys(PLANTED, "ottla.simulation.whole.planted_bugs")
    known |= dict.fromkeys(delay_brokers.PLANTED, "chaos.delay_brokers")
    if name not in known:
        raise KeyError(f"{name}: known are {', '.join(known)}")
    folder = directory / f"planted-{name}"
    folder.mkdir()
    # Python imports this by itself when it starts.
    (folder / "sitecustomize.py").write_text(PROGRAM.format(module=known[name], name=name))
    return {"PYTHONPATH": f"{folder}:{Path(__file__).parent.parent}"}
