"""`ottla pipeline audit`: whether what went into a pipeline came out of it, batch by batch."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.committed_reader import committed_reader
from ottla.cli.connection import with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.pipeline_run import BOOTSTRAP, FILE, bootstrap_of, read_spec
from ottla.cli.start_position import parse_timestamp
from ottla.cli.time_text import time_text
from ottla.pipelines.audit.balance import Balance, balance_of
from ottla.pipelines.audit.reading import Read, reports
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster
    from ottla.pipelines.audit.report import Report

FINDINGS_SHOWN = 50
"""Of a pipeline that never balances there are as many as batches; `--json` has all."""


@click.command("audit")
@FILE
@BOOTSTRAP
@click.option("--since", metavar="TIME", help="Only micro-batches from this time on; -2h for two hours ago.")
@click.option("--side", metavar="SUFFIX", help="Check the replay of this name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document with totals and findings.")
def audit(file: Path, bootstrap: str | None, since: str | None, side: str | None, as_json: bool) -> int:
    """Check the audit reports of a pipeline for gaps, repeats, and rows that are not accounted for.

    Each row that enters a step must leave it, be dropped, or become a dead letter. Each micro-batch must start where
    the previous one ended; one that ran again must give the same result. The exit code is 1 if there are findings.

    \b
    Example:
      ottla pipeline audit flights.toml --since -1d
    """
    spec = read_spec(file)
    if spec.audit is None:
        raise CommandError(f"{file}: the pipeline has no [audit], so it writes no reports", ExitCode.NOT_FOUND)
    name = spec.name if side is None else f"{spec.name}-{side}"
    topic = spec.audit.topic if side is None else f"{spec.audit.topic}.{side}"
    since_ms = parse_timestamp(since, SystemClock()) if since is not None else None
    where = bootstrap_of(spec, bootstrap)
    read = Read()

    async def action(cluster: "Cluster") -> "list[Report]":
        del cluster
        async with committed_reader(where) as consumer:
            return [each async for each in reports(consumer, topic, name, read, since_ms=since_ms)]

    balance = balance_of(with_cluster(where, action))
    if as_json:
        from msgspec import to_builtins

        print_json({"pipeline": name, "topic": topic, "foreign_records": read.foreign, **to_builtins(balance)})
    else:
        _show(balance, read, topic, name)
    return ExitCode.FAILED if balance.findings else ExitCode.OK


def _show(balance: "Balance", read: "Read", topic: str, name: str) -> None:
    rows = [
        (
            time_text(each.window_start_ms, "seconds"),
            each.sink,
            each.step,
            *(each.rows.get(role) for role in ("in", "out", "dropped", "dead_letters")),
            each.checksums.get("out"),
        )
        for each in balance.totals
    ]
    columns = ["WINDOW", "SINK", "STEP", "IN", "OUT", "DROPPED", "DEAD", "CHECKSUM OUT"]
    print_table(columns, rows, right=["IN", "OUT", "DROPPED", "DEAD"])
    for total in balance.totals:
        if total.dropped:
            window = time_text(total.window_start_ms, "seconds")
            why = ", ".join(f"{rows} {reason}" for reason, rows in total.dropped.items())
            click.echo(f"dropped: sink {total.sink}, window {window}, step {total.step}: {why}")
    for each in balance.findings[:FINDINGS_SHOWN]:
        window = time_text(each.window_start_ms, "seconds")
        click.echo(
            f"{each.kind}: sink {each.sink}, window {window}: {each.message}",
            err=True,
        )
    if len(balance.findings) > FINDINGS_SHOWN:
        click.echo(f"and {len(balance.findings) - FINDINGS_SHOWN} more; --json has all", err=True)
    if read.foreign:
        click.echo(f"warning: {read.foreign} records of {topic} are not audit reports: {read.first_foreign}", err=True)
    again = f", {balance.repeated} of them ran again with the same result" if balance.repeated else ""
    if not balance.batches:
        click.echo(f"there are no reports of {name} in {topic}")
    elif balance.findings:
        click.echo(f"{balance.batches} batches{again}: {len(balance.findings)} findings")
    else:
        click.echo(f"{balance.batches} batches{again}: it balances")
