"""Many connections, all targets up at once and measured by turns: a machine's moods are then in each of them alike.

    .venv/bin/python -m benchmarks.beside_kafka.by_turns [--connections 100] [--turns 6] [--targets KEY,...]

Besides the brokers there is `nothing`, a C program that receives and answers and does nothing else (`answers.c`): no
server with one thread answers this client faster through sockets, so what it has is what there is to be had. Nothing
else should use the machine meanwhile.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.beside_kafka.brokers import KAFKA, OTTLA_WRITTEN, TARGETS, Broker, Target
from benchmarks.beside_kafka.figures import Figures
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.rows import connections
from benchmarks.beside_kafka.session import Session
from tools.peers import PeerUnavailableError, java_class_path
from tools.ports import free_ports

NOTHING = Target("nothing", "receives and answers, and does nothing else", "nothing")
ANSWER_BYTES = 64


@dataclass
class Answers(Broker):
    """The program that does nothing else, in a broker's place."""

    program: Path = Path()

    def start_answering(self) -> None:
        """Starts it and waits until it listens.

        Raises:
            RuntimeError: it ended instead.
        """
        (self.port,) = free_ports(1)
        command = [str(self.program), str(self.port), str(ANSWER_BYTES)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert self.process.stdout is not None
        if self.process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{self.program} does not listen at port {self.port}")


def started(session: Session, stack: ExitStack) -> Broker:
    """A target that is ready for the load, and ended with the stack."""
    if session.target is NOTHING:
        answers = Answers(NOTHING, session.work / "data", program=session.program("answers"))
        stack.callback(answers.kill)
        answers.start_answering()
        return answers
    broker = session.new_broker()
    stack.callback(broker.remove)
    stack.callback(broker.kill)
    broker.start()
    session.warm_up(broker)
    session.create_topic(broker, connections.TOPIC)
    return broker


def measure(
    targets: list[Target], count: int, turns: int, work: Path, say: Callable[[str], None], scale: float = 1.0
) -> Figures:
    """A turn that is not counted, for whoever has to get warm, and then those that are. `scale` is a session's."""
    figures = Figures()
    with ExitStack() as stack:
        ready = []
        for target in targets:
            say(f"{target.title}: starts")
            session = Session(target, work / target.key, figures, java_class_path, lambda: None, say, scale)
            session.work.mkdir()
            ready.append((session, started(session, stack)))
        for turn in range(turns + 1):
            for session, broker in ready:
                say(f"turn {turn} of {turns}, {session.target.key}")
                session.figures = figures if turn else Figures()
                connections.measure_active(session, broker, count, at_once=min(count, connections.AT_ONCE))
    return figures


def shown(value: float) -> str:
    """Three digits of it, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def show(console: Console, targets: list[Target], figures: Figures) -> None:
    """The median of each, with all that it is the median of."""
    table = Table(title_justify="left")
    table.add_column("metric")
    for target in targets:
        table.add_column(target.key, justify="right")
    for place, by_target in figures.values.items():
        each = {key: ", ".join(map(shown, sorted(values))) for key, values in by_target.items()}
        cells = [f"{shown(median(by_target[target.key]))}\n[dim]{each[target.key]}[/]" for target in targets]
        table.add_row(f"{place.row}: {place.metric}", *cells)
    console.print(table)


def main() -> int:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = {**TARGETS, NOTHING.key: NOTHING}
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--targets", default=f"{NOTHING.key},{OTTLA_WRITTEN.key},{KAFKA.key}")
    wanted = parser.parse_args()
    unknown = [key for key in wanted.targets.split(",") if key not in known]
    if unknown or wanted.turns < 1 or wanted.connections < 1:
        parser.error(f"targets are {', '.join(known)}; turns and connections are one at least")
    targets = [known[key] for key in wanted.targets.split(",")]
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)

    def say(text: str) -> None:
        console.print(text, markup=False)

    try:
        if any(target.kind == "kafka" for target in targets):
            java_class_path()
        with tempfile.TemporaryDirectory(prefix="ottla-by-turns-") as work:
            figures = measure(targets, wanted.connections, wanted.turns, Path(work), say)
    except (LoadError, PeerUnavailableError, RuntimeError, OSError, TimeoutError) as reason:
        print(f"by turns: {reason}", file=sys.stderr)
        return 1
    show(console, targets, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
