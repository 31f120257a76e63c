"""`ottla pipeline run`, `test` and `inspect`: what needs Spark."""

import json
import os
import signal
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_table
from ottla.cli.pipeline_file import read_spec as read_spec
from ottla.client.errors import ClientError
from ottla.pipelines.runner.checkpoint import CheckpointError
from ottla.pipelines.runner.stop_signals import StopSignals
from ottla.pipelines.session import Session, SessionOptions, SparkEndedError, SparkMissingError
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from ottla.pipelines.live_view import View
    from ottla.pipelines.spec import PipelineSpec

FILE = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
BOOTSTRAP = click.option(
    *("-b", "--bootstrap", "--bootstrap-server", "--brokers"),
    "bootstrap",
    metavar="HOST:PORT[,...]",
    help=f"Bootstrap brokers; overrides the file's `bootstrap` and {BOOTSTRAP_VARIABLE}.",
)
MASTER = click.option("--master", help="Spark's master, such as spark://HOST:7077.  [this machine: local[CORES,4]]")
CONF = click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A setting of Spark; repeatable.")
MEMORY = click.option(
    "--memory", metavar="SIZE", default="1g", show_default=True, help="The memory of the driver's JVM."
)


@click.command("run")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@BOOTSTRAP
@click.option("--until-caught-up", is_flag=True, help="Exit when everything up to the current end has been processed.")
@MASTER
@MEMORY
@CONF
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line for each micro-batch and event.")
def run(
    files: tuple[Path, ...],
    bootstrap: str | None,
    until_caught_up: bool,
    master: str | None,
    memory: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> int:
    """Run pipelines, until stopped or until they have caught up.

    A query that fails is restarted after a backoff, and the reason is printed; a permanent error ends it, and the
    others go on. Ctrl-C and SIGTERM stop after the current micro-batches, a second one at once. The next run
    continues from there.

    \b
    Example:
      ottla pipeline run flights.toml --until-caught-up
    """
    specs = [read_spec(file) for file in files]
    _require_distinct(specs)
    from ottla.pipelines.runner.running import RunOptions, run_pipelines

    options = RunOptions(
        {spec.name: bootstrap_of(spec, bootstrap) for spec in specs}, until_caught_up, master, memory, settings_of(conf)
    )
    try:
        outcome = run_pipelines(specs, options, _view(as_json=as_json))
    except (CheckpointError, SparkEndedError, SparkMissingError) as error:
        raise CommandError(str(error)) from error
    if outcome.signal is not None:
        return ExitCode.TERMINATED if outcome.signal == signal.SIGTERM else ExitCode.INTERRUPTED
    if outcome.failed:
        queries = ", ".join(name for name, _ in outcome.failed)
        raise CommandError(f"failed: {queries}: {outcome.failed[0][1].reason}")
    return ExitCode.OK


@click.command("test")
@FILE
@click.option("-k", "only", metavar="TEXT", help="Only tests whose names contain this text.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line for each test.")
@CONF
def test(file: Path, only: str | None, as_json: bool, conf: tuple[str, ...]) -> int:
    """Run the tests of a pipeline on the rows in its file; no broker is needed.

    Below each test stands what production would drop of its rows, or set aside.

    \b
    Example:
      ottla pipeline test flights.toml
    """
    spec = read_spec(file)
    if not any(only is None or only in case.name for case in spec.tests):
        wanted = "[[tests]]" if only is None else f"test with {only!r} in its name"
        raise CommandError(f"{file} has no {wanted}", ExitCode.NOT_FOUND)
    from ottla.pipelines.testing import run_tests

    with spark_session(spec, None, conf) as spark:
        outcomes = run_tests(spec, spark, only, drops=True)
    failed = [each for each in outcomes if each.differences]
    for each in outcomes:
        if as_json:
            drops = [{"step": drop.step, "reason": drop.reason, "rows": drop.rows} for drop in each.drops]
            said = {"test": each.name, "ok": not each.differences, "differences": each.differences, "drops": drops}
            click.echo(json.dumps(said))
            continue
        click.echo(f"{'FAILED' if each.differences else 'ok'}  {each.name}")
        for line in each.differences:
            click.echo(f"        {line}")
        for drop in each.drops:
            click.echo(f"        {drop}")
    if not as_json:
        click.echo(f"{len(outcomes) - len(failed)} of {len(outcomes)} tests passed")
    return ExitCode.FAILED if failed else ExitCode.OK


@click.command("inspect")
@FILE
@click.argument("step", metavar="STEP")
@click.option(
    "-n", "count", type=click.IntRange(1, 100_000), default=20, show_default=True, help="The number of rows to show."
)
@click.option(
    "--records",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="The number of newest records to read from each partition.",
)
@click.option("--refused", is_flag=True, help="Show refused rows, with the reasons.")
@BOOTSTRAP
@MASTER
@CONF
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line for each row.")
def inspect(
    file: Path,
    step: str,
    count: int,
    records: int,
    refused: bool,
    bootstrap: str | None,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show rows of a source or step, from the newest records of the topics. Nothing is written.

    What production drops of these records on the way, or sets aside, goes to stderr.

    \b
    Example:
      ottla pipeline inspect flights.toml hourly -n 5
    """
    spec = read_spec(file)
    names = [*spec.sources, *(each.name for each in spec.steps)]
    if step not in names:
        raise CommandError(f"{file} has no source or step {step!r}; it has {', '.join(names)}", ExitCode.NOT_FOUND)
    from ottla.pipelines.runner.failure import failure_of
    from ottla.pipelines.runner.looking import look

    with spark_session(spec, master, conf) as spark:
        try:
            brokers = bootstrap_of(spec, bootstrap)
            rows, drops = look(spec, step, spark, brokers, count=count, records=records, refused=refused)
        except ClientError:
            raise
        except Exception as error:
            raise CommandError(failure_of(f"{type(error).__name__}: {error}").reason) from error
    for drop in drops:
        click.echo(str(drop), err=True)
    if as_json:
        for row in rows:
            click.echo(row)
        return
    parsed: list[dict[str, Any]] = [json.loads(row) for row in rows]
    columns = list(dict.fromkeys(name for row in parsed for name in row))
    if parsed:
        print_table(columns, [[_cell(row.get(name)) for name in columns] for row in parsed])
    else:
        click.echo("no rows", err=True)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def bootstrap_of(spec: "PipelineSpec", given: str | None) -> str:
    """Where the brokers of a pipeline are: the command line, the file, the environment, this machine."""
    return given or spec.bootstrap or os.environ.get(BOOTSTRAP_VARIABLE, "").strip() or DEFAULT_BOOTSTRAP


def settings_of(conf: tuple[str, ...]) -> dict[str, str]:
    """Settings of Spark out of `KEY=VALUE`. Raises click.BadParameter."""
    found = {}
    for text in conf:
        key, separator, value = text.partition("=")
        if not separator or not key.startswith("spark."):
            raise click.BadParameter(
                f"{text!r} is not KEY=VALUE with a key that begins with spark.", param_hint="--conf"
            )
        found[key] = value
    return found


def spark_session(spec: "PipelineSpec", master: str | None, conf: tuple[str, ...]) -> Any:
    """A session for a command that runs no query, in a `with` statement, which SIGTERM leaves in order, too.

    Raises CommandError.
    """
    chosen = settings_of(conf)

    @contextmanager
    def session() -> Any:
        with StopSignals() as signals:
            try:
                with tempfile.TemporaryDirectory(prefix="ottla-pipeline-", ignore_cleanup_errors=True) as scratch:
                    log = Path(scratch) / "spark.log"
                    with Session(SessionOptions(log, Path(scratch), spec.name, master, conf=chosen)) as made:
                        yield made.spark
            except SparkMissingError as error:
                raise CommandError(str(error)) from error
            except KeyboardInterrupt:
                if signal.SIGTERM not in signals.received:
                    raise
                raise CommandError("ended by SIGTERM", ExitCode.TERMINATED) from None

    return session()


def _require_distinct(specs: "list[PipelineSpec]") -> None:
    names = [spec.name for spec in specs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CommandError(f"two pipelines are named {twice}: each needs its own name", ExitCode.USAGE)


def _view(*, as_json: bool) -> "View":
    from ottla.pipelines.live_view import JsonLines, PlainLines

    if as_json:
        return JsonLines(_say)
    if not sys.stdout.isatty():
        return PlainLines(_say, SystemClock())
    from ottla.pipelines.live_screen import Screen

    return Screen(SystemClock())


def _say(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()
