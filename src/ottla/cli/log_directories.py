"""`ottla log dirs` and `ottla log move`: what lies in the data directories of brokers, and moving it between them."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.changes import Changes
from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.partition_selection import parse_selection, partitions_of
from ottla.client.admin.admin import Admin
from ottla.client.admin.log_directories import LogDirectory, alter_replica_log_directories, describe_log_directories
from ottla.model.error_code import ErrorCode

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster


@click.command("dirs")
@bootstrap_option
@click.option("--broker", "brokers", multiple=True, type=int, help="Only this broker; repeatable.")
@click.option("-p", "--partitions", "with_partitions", is_flag=True, help="Show each log.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of directories, with their logs.")
def dirs(bootstrap: str, brokers: tuple[int, ...], with_partitions: bool, as_json: bool) -> None:
    """Show the data directories of the brokers: their disk usage, and the logs that are moving to them.

    A log with a lag is being copied to the directory; the lag is the number of missing records. The lines below the
    table give the reason why a directory is offline. A broker that does not answer is named, and the exit code is 1.

    \b
    Examples:
      ottla log dirs
      ottla log dirs --broker 1 --partitions
    """

    async def action(cluster: "Cluster") -> "list[LogDirectory]":
        if brokers:
            await Admin(cluster).describe_cluster()
        return await describe_log_directories(cluster, brokers)

    told = with_cluster(bootstrap, action)
    unanswered = [each for each in told if each.error is ErrorCode.BROKER_NOT_AVAILABLE]
    found = [each for each in told if each not in unanswered]
    if as_json:
        print_json([_as_row(each) for each in told])
    elif with_partitions:
        columns = ["BROKER", "DIRECTORY", "TOPIC", "PARTITION", "BYTES", "LAG"]
        rows = [
            (each.broker_id, each.path, *log.topic_partition, log.size, log.offset_lag if log.is_future else None)
            for each in found
            for log in each.logs
        ]
        print_table(columns, rows, right=["PARTITION", "BYTES", "LAG"])
    else:
        columns = ["BROKER", "DIRECTORY", "STATE", "LOGS", "COMING", "BYTES", "USABLE", "TOTAL"]
        print_table(columns, [_summary(each) for each in found if each.path], right=columns[3:])
    if not as_json:
        for each in found:
            if each.error:
                what = f"{each.path} is offline: " if each.path else ""
                click.echo(f"broker {each.broker_id}: {what}{each.reason or 'its log says why'}")
    for each in unanswered[1:]:
        click.echo(f"ottla: {_missing(each)}", err=True)
    if unanswered:
        raise CommandError(_missing(unanswered[0]))


def _missing(broker: "LogDirectory") -> str:
    return f"broker {broker.broker_id} did not answer, its directories are not shown: {broker.reason}"


def _summary(directory: "LogDirectory") -> tuple[object, ...]:
    coming = sum(log.is_future for log in directory.logs)
    state = "offline" if directory.error else "online"
    size = sum(log.size for log in directory.logs)
    counts = (None, None, None) if directory.error else (len(directory.logs) - coming, coming, size)
    return (directory.broker_id, directory.path, state, *counts, directory.usable_bytes, directory.total_bytes)


def _as_row(directory: "LogDirectory") -> dict[str, Any]:
    return {
        "broker": directory.broker_id,
        "directory": directory.path or None,
        "error": directory.error.name if directory.error else None,
        "reason": directory.reason,
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
        "logs": [
            {
                "topic": log.topic_partition.topic,
                "partition": log.topic_partition.partition,
                "bytes": log.size,
                "lag": log.offset_lag,
                "is_future": log.is_future,
            }
            for log in directory.logs
        ],
    }


@click.command("move")
@bootstrap_option
@click.option("--broker", type=int, help="The broker whose replicas move.  [the only one]")
@click.option("--to", "path", required=True, metavar="DIRECTORY", help="One of the broker's log.dirs.")
@click.argument("places", metavar="TOPIC[:PARTITION,...]...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of replicas.")
def move(bootstrap: str, broker: int | None, path: str, places: tuple[str, ...], as_json: bool) -> None:
    """Move replicas to another data directory of their broker. Reads and writes go on.

    The command returns when the moves have started; `ottla log dirs` shows their progress. To cancel a move, move the
    replica to its current directory. The broker's `replica.alter.log.dirs.io.max.bytes.per.second` limits the rate.

    \b
    Examples:
      ottla log move events --to /disk2/ottla
      ottla log move events:0,4-6 --broker 1 --to /disk2/ottla
    """
    selections = [parse_selection(text) for text in places]

    async def action(cluster: "Cluster") -> list[str]:
        brokers = sorted((await Admin(cluster).describe_cluster()).brokers)
        if broker is None and len(brokers) > 1:
            raise CommandError(f"there are brokers {', '.join(map(str, brokers))}: choose one with --broker")
        wanted = await partitions_of(cluster, selections)
        at = brokers[0] if broker is None else broker
        outcomes = await alter_replica_log_directories(cluster, at, dict.fromkeys(wanted, path))
        for name, error in outcomes.items():
            code = None if error is None else error.code.name
            replica = {"topic": name.topic, "partition": name.partition, "broker": at, "directory": path, "error": code}
            if error is None:
                changes.done(f"moving {name} to {path}", **replica)
            else:
                changes.row(**replica)
        return [str(error) for error in outcomes.values() if error is not None]

    with Changes(as_json=as_json) as changes:
        refused = with_cluster(bootstrap, action)
    for line in refused[1:]:
        click.echo(line, err=True)
    if refused:
        raise CommandError(refused[0])
