"""Brokers with a fault in them that has to be found: those that are planted in simulated brokers, in real ones."""

from pathlib import Path

from ottla.simulation.whole.planted_bugs import PLANTED

PROGRAM = """from ottla.simulation.whole.planted_bugs import planted

plant = planted({name!r})
plant.__enter__()
"""


def planted_in(directory: Path, name: str) -> dict[str, str]:
    """What the environment of a broker has to be so that it has this fault. Raises KeyError: there is none."""
    if name not in PLANTED:
        raise KeyError(f"{name}: known are {', '.join(PLANTED)}")
    folder = directory / f"planted-{name}"
    folder.mkdir()
    # Python imports this by itself when it starts.
    (folder / "sitecustomize.py").write_text(PROGRAM.format(name=name))
    return {"PYTHONPATH": str(folder)}
