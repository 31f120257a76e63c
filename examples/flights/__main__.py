"""The demo: a year of flights as a million events, a pipeline over them, its broker killed, all of it checked.

Exit code 0: the result is right. 1: it is not, or the demo failed. 130: stopped by Ctrl-C.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from examples.flights.processes import adopt_orphans, end_all_children


class _Stopped(BaseException):
    """The demo was told to stop, by the signal of that number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> NoReturn:
    """Parse the command line, run the demo, and leave nothing running, however it ends."""
    adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        code = _run(_arguments())
    except _Stopped as stopped:
        code = 128 + stopped.number
        print("stopped")
    finally:
        end_all_children()
    sys.stdout.flush()
    # Threads of the Kafka clients may still wait for answers; nobody needs them.
    os._exit(code)


def _run(arguments: argparse.Namespace) -> int:
    # Imported here, as it takes a second in which Ctrl-C is to work already.
    from rich.console import Console
    from rich.markup import escape

    from examples.flights.demo import AWAY_S, SHORT_AWAY_S, SHORT_DAYS, WHOLE_YEAR_DAYS, DemoOptions, run
    from examples.flights.failure import DemoError
    from examples.flights.files import DemoFiles
    from ottla.pipelines.session import SparkMissingError, require_java

    console = Console()
    options = DemoOptions(
        files=DemoFiles(arguments.out),
        days=SHORT_DAYS if arguments.short else WHOLE_YEAR_DAYS,
        away_seconds=SHORT_AWAY_S if arguments.short else AWAY_S,
        port=arguments.port,
    )
    try:
        require_java()
        differences = run(options, console)
    except (DemoError, SparkMissingError) as error:
        console.print(f"[red]failed:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        return 1
    for difference in differences:
        console.print(f"[red]differs:[/red] {escape(difference)}", highlight=False, soft_wrap=True)
    return 1 if differences else 0


def _stop(number: int, _frame: object) -> NoReturn:
    # Once is enough: what is done from here on is the cleaning up.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise _Stopped(number)


def _arguments() -> argparse.Namespace:
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=about)
    parser.add_argument("--short", action="store_true", help="only the first two weeks of the year")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="where to put the results (build/demo)")
    parser.add_argument("--port", type=int, default=0, help="port of the broker (one that is free)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
