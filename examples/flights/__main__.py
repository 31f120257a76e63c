"""The demo: a broker, a year of flights as a million events, a Spark pipeline over them, its result checked.

Exit code 0: the result is right. 1: it is not, or the demo failed. 130: stopped by Ctrl-C.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from examples.flights.broker import BrokerError
from examples.flights.demo import SHORT_DAYS, WHOLE_YEAR_DAYS, DemoOptions, PipelineError, run
from examples.flights.files import DemoFiles
from examples.flights.processes import adopt_orphans, end_all_children
from examples.flights.producer import ProduceError
from examples.flights.session import JavaMissingError, require_java


class _Stopped(BaseException):
    """The demo was told to stop, by the signal of that number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> NoReturn:
    """Parse the command line, run the demo, and leave nothing running, however it ends."""
    options = _options()
    console = Console()
    adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        code = _run(options, console)
    except _Stopped as stopped:
        code = 128 + stopped.number
        console.print("stopped")
    finally:
        end_all_children()
    sys.stdout.flush()
    # Threads of Spark's gateway and of the Kafka client may still wait for answers; nobody needs them.
    os._exit(code)


def _run(options: DemoOptions, console: Console) -> int:
    try:
        require_java()
        differences = run(options, console)
    except (BrokerError, JavaMissingError, PipelineError, ProduceError) as error:
        console.print(f"[red]failed:[/red] {error}", highlight=False)
        return 1
    for difference in differences:
        console.print(f"[red]differs:[/red] {difference}", highlight=False)
    return 1 if differences else 0


def _stop(number: int, _frame: object) -> NoReturn:
    # Once is enough: what is done from here on is the cleaning up.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise _Stopped(number)


def _options() -> DemoOptions:
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=about)
    parser.add_argument("--short", action="store_true", help=f"only the first {SHORT_DAYS} days of the year")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="where to put the results (build/demo)")
    parser.add_argument("--port", type=int, default=0, help="port of the broker (one that is free)")
    parser.add_argument("--bootstrap", help="use the broker at HOST:PORT, and do not start one")
    given = parser.parse_args()
    return DemoOptions(
        files=DemoFiles(given.out),
        days=SHORT_DAYS if given.short else WHOLE_YEAR_DAYS,
        port=given.port,
        bootstrap=given.bootstrap,
    )


if __name__ == "__main__":
    main()
