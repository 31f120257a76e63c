"""The root of the command line. Commands are imported when they are run, so that `--help` answers at once."""

import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence

import click

from ottla import __version__
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import report
from ottla.cli.standard_streams import discard_unwritten, reader_is_gone
from ottla.runtime.log_lines import LineFormatter

_PROGRAM = "ottla"
_COMPLETION_VARIABLE = "_OTTLA_COMPLETE"

_EPILOG = """\b
Exit codes:
  0    done
  1    the operation was refused or did not succeed
  2    the command line is wrong; nothing was done
  3    no broker could be reached
  4    the topic, partition, group, transactional id, setting, broker or file does not exist
  130  ended by Ctrl-C, 143 by SIGTERM

\b
OTTLA_BOOTSTRAP is the default of --bootstrap; without either, 127.0.0.1:9092.
"""


class LazyCommands(click.Group):
    """A group whose commands are named in a table: name to (module, attribute, one line of help)."""

    def __init__(self, table: Mapping[str, tuple[str, str, str]], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        del ctx
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        del ctx
        if cmd_name not in self._table:
            return None
        module, attribute, _ = self._table[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in self._table.items()])


_LOG = LazyCommands(
    {
        "dump": ("ottla.cli.log_dump", "log_dump", "Show the contents of log, index, snapshot and checkpoint files."),
        "verify": ("ottla.cli.log_verify", "log_verify", "Verify the files of logs that no broker uses."),
        "dirs": ("ottla.cli.log_directories", "dirs", "Show the data directories of brokers and their contents."),
        "move": ("ottla.cli.log_directories", "move", "Move replicas to another data directory of their broker."),
    },
    name="log",
    help="Inspect the files of a data directory without a broker; move logs between data directories.",
)

_COMMANDS = {
    "serve": ("ottla.cli.serve", "serve_command", "Run a broker."),
    "lookupd": ("ottla.cli.lookupd", "lookupd_command", "Run a lookup service for NSQ clients."),
    "topic": ("ottla.cli.topic", "topic", "Create, list, describe, alter and delete topics, and their records."),
    "produce": ("ottla.cli.produce", "produce", "Write records to a topic, from a pipe or files."),
    "consume": ("ottla.cli.consume", "consume", "Read records of a topic, as text, JSON or your own format."),
    "group": ("ottla.cli.group", "group", "List groups, show their lag, move and delete them."),
    "transaction": (
        "ottla.cli.transaction",
        "transaction",
        "List and describe transactions, find hanging ones, abort them.",
    ),
    "config": ("ottla.cli.config", "config", "Show and change settings of topics, brokers, groups and client metrics."),
    "client-metrics": ("ottla.cli.client_metrics", "client_metrics", "Show the metrics that clients push."),
    "quota": ("ottla.cli.quota", "quota", "Show and change quotas of users, clients and IPs."),
    "user": ("ottla.cli.user", "user", "Show and change users that log in by SCRAM."),
    "token": ("ottla.cli.token", "token", "Create, show, renew and end delegation tokens."),
    "acl": ("ottla.cli.acl", "acl", "Show and change ACLs: who may do what."),
    "feature": ("ottla.cli.feature", "feature", "Show and change the feature levels of the cluster."),
    "cluster": (
        "ottla.cli.cluster",
        "cluster_command",
        "Show the cluster, its brokers and its health; elect leaders, decommission brokers.",
    ),
    "archive": ("ottla.cli.archive", "archive", "Archive topics as Parquet files; verify, query and restore them."),
    "pipeline": ("ottla.cli.pipeline", "pipeline", "Write, check, draw, test, run and watch pipelines on Spark."),
    "perf": ("ottla.cli.perf", "perf", "Measure producing, consuming and latency with Ottla's own client."),
    "delay": ("ottla.cli.delay", "delay", "Show what waits in a delay topic, and cancel it."),
    "dlq": ("ottla.cli.dlq", "dlq", "Show dead letters and their reasons, send them back, delete them."),
    "log": ("ottla.cli.main", "_LOG", "Inspect the files of data directories, and move logs between them."),
    "completion": ("ottla.cli.completion", "completion", "Print the completion script of a shell."),
}


@click.command(
    cls=LazyCommands,
    table=_COMMANDS,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="ottla %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks and client activity on stderr.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Ottla: a log that speaks the Apache Kafka protocol. Run a broker, or use any Kafka-compatible one."""
    ctx.obj = debug
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("ottla: %(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = _invoke(list(arguments))
        sys.stdout.flush()
    except BaseException as error:
        code = _failed(error, debug="--debug" in arguments)
        discard_unwritten()
    return code


def _invoke(arguments: list[str]) -> int:
    """What click's own `main` does, but a refused write stays an error: there it is exit code 1, whatever it was."""
    completing = os.environ.get(_COMPLETION_VARIABLE)
    if completing:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, _PROGRAM, _COMPLETION_VARIABLE, completing)
    try:
        with cli.make_context(_PROGRAM, arguments) as context:
            outcome = cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return outcome if isinstance(outcome, int) else ExitCode.OK


def _failed(error: BaseException, *, debug: bool) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else ExitCode.FAILED
    if isinstance(error, BrokenPipeError) and reader_is_gone():
        # Whoever reads our output has seen enough (`| head`), and got it: there is nothing to say.
        return ExitCode.OK
    return report(error, debug=debug)
