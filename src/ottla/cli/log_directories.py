"""`ottla log dirs` and `ottla log move`: what lies in the data directories of brokers, and moving it between them."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.partition_selection import parse_selection, partitions_of

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.log_directories import LogDirectory


@click.command("dirs")
@bootstrap_option
@click.option("--broker", "brokers", multiple=True, type=int, help="Only this broker; may be given several times.")
@click.option("-p", "--partitions", "with_partitions", is_flag=True, help="Show each log in them.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of directories, with their logs.")
def dirs(bootstrap: str, brokers: tuple[int, ...], with_partitions: bool, as_json: bool) -> None:
    """Show the data directories of the brokers: how full they are, and what is on its way into them.

    A log with a lag is being copied into the directory; it lacks so many records.

    \b
    Examples:
      ottla log dirs
      ottla log dirs --broker 1 --partitions
    """

    async def action(cluster: "Cluster") -> "list[LogDirectory]":
        from ottla.client.admin import Admin
        from ottla.client.log_directories import describe_log_directories

        known = (await Admin(cluster).describe_cluster()).brokers
        return await describe_log_directories(cluster, brokers or sorted(known))

    found = with_cluster(bootstrap, action)
    if as_json:
        print_json([_as_row(each) for each in found])
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
        print_table(columns, [_summary(each) for each in found], right=columns[3:])


def _summary(directory: "LogDirectory") -> tuple[object, ...]:
    coming = sum(log.is_future for log in directory.logs)
    state = "offline" if directory.error else "online"
    size = sum(log.size for log in directory.logs)
    counts = (None, None, None) if directory.error else (len(directory.logs) - coming, coming, size)
    return (directory.broker_id, directory.path, state, *counts, directory.usable_bytes, directory.total_bytes)


def _as_row(directory: "LogDirectory") -> dict[str, Any]:
    return {
        "broker": directory.broker_id,
        "directory": directory.path,
        "error": directory.error.name if directory.error else None,
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
def move(bootstrap: str, broker: int | None, path: str, places: tuple[str, ...]) -> None:
    """Move replicas to another data directory of their broker, while they are written and read.

    The command returns when the moves have begun; `ottla log dirs` shows how far they are. To take a move back, move
    the replica to where it is. `replica.alter.log.dirs.io.max.bytes.per.second` of the broker says how fast they are.

    \b
    Examples:
      ottla log move events --to /disk2/ottla
      ottla log move events:0,4-6 --broker 1 --to /disk2/ottla
    """
    selections = [parse_selection(text) for text in places]

    async def action(cluster: "Cluster") -> list[str]:
        from ottla.client.admin import Admin
        from ottla.client.log_directories import alter_replica_log_directories

        brokers = sorted((await Admin(cluster).describe_cluster()).brokers)
        if broker is None and len(brokers) > 1:
            raise CommandError(f"there are brokers {', '.join(map(str, brokers))}: say whose replicas with --broker")
        wanted = await partitions_of(cluster, selections)
        at = brokers[0] if broker is None else broker
        outcomes = await alter_replica_log_directories(cluster, at, dict.fromkeys(wanted, path))
        for name, error in outcomes.items():
            if error is None:
                click.echo(f"{name} goes to {path}")
        return [str(error) for error in outcomes.values() if error is not None]

    refused = with_cluster(bootstrap, action)
    for line in refused[1:]:
        click.echo(line, err=True)
    if refused:
        raise CommandError(refused[0])
