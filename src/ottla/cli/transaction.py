"""`ottla transaction`: which transactions there are, what they are doing, and ending one that hangs."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.partition_selection import parse_selection, partitions_of
from ottla.cli.time_text import time_text
from ottla.client.admin.admin import Admin
from ottla.client.admin.transaction_admin import (
    OpenTransaction,
    TransactionAdmin,
    TransactionDescription,
    TransactionListing,
)
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster

_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
_MINUTES = 15
"""No transaction may go on for longer than `transaction.max.timeout.ms`, which is this long unless it was set."""


@click.group()
def transaction() -> None:
    """List and describe transactions, find hanging ones, and abort them."""


@transaction.command("list")
@bootstrap_option
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES, case_sensitive=False),
    help="Only transactions in this state.",
)
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=click.IntRange(min=0), help="Only of this producer id."
)
@click.option("--longer-than", "duration_ms", metavar="MS", type=click.IntRange(min=0), help="Only those older.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of transactional ids.")
def list_transactions(
    bootstrap: str, states: tuple[str, ...], producer_ids: tuple[int, ...], duration_ms: int | None, as_json: bool
) -> None:
    """List transactional ids, with the broker that coordinates each and the state of its transaction.

    \b
    Examples:
      ottla transaction list
      ottla transaction list --state Ongoing --longer-than 60000
    """

    async def action(cluster: "Cluster") -> "list[TransactionListing]":
        return await TransactionAdmin(cluster).list_transactions(
            states=states, producer_ids=producer_ids, duration_ms=-1 if duration_ms is None else duration_ms
        )

    found = with_cluster(bootstrap, action)
    if as_json:
        print_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "coordinator": each.coordinator,
                    "producer_id": each.producer_id,
                    "state": each.state,
                }
                for each in found
            ]
        )
        return
    rows = [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in found]
    print_table(["TRANSACTIONAL ID", "COORDINATOR", "PRODUCER", "STATE"], rows, right=["COORDINATOR", "PRODUCER"])


@transaction.command("describe")
@bootstrap_option
@click.argument("transactional_ids", metavar="TRANSACTIONAL_ID...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of transactional ids.")
def describe(bootstrap: str, transactional_ids: tuple[str, ...], as_json: bool) -> None:
    """Show the producer, state and partitions of transactional ids.

    \b
    Example:
      ottla transaction describe payments
    """

    async def action(cluster: "Cluster") -> "list[TransactionDescription]":
        return [await TransactionAdmin(cluster).describe(each) for each in dict.fromkeys(transactional_ids)]

    found = with_cluster(bootstrap, action)
    if as_json:
        print_json([_document(each) for each in found])
        return
    rows = [
        (
            each.transactional_id,
            each.coordinator,
            each.producer_id,
            each.producer_epoch,
            each.state,
            each.timeout_ms,
            _time(each.start_ms),
            [str(partition) for partition in each.partitions] or None,
        )
        for each in found
    ]
    columns = ["TRANSACTIONAL ID", "COORDINATOR", "PRODUCER", "EPOCH", "STATE", "TIMEOUT MS", "BEGUN", "PARTITIONS"]
    print_table(columns, rows, right=["COORDINATOR", "PRODUCER", "EPOCH", "TIMEOUT MS"])


@transaction.command("find-hanging")
@bootstrap_option
@click.argument("places", metavar="[TOPIC[:PARTITION,...]...]", nargs=-1)
@click.option(
    "--older-than",
    "minutes",
    metavar="MINUTES",
    type=click.IntRange(min=0),
    default=_MINUTES,
    show_default=True,
    help="The longest that a transaction may take (transaction.max.timeout.ms).",
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of open transactions.")
def find_hanging(bootstrap: str, places: tuple[str, ...], minutes: int, as_json: bool) -> None:
    """Find transactions that are open in a partition but unknown to any coordinator: nothing will ever end them.

    Consumers with read_committed stop at the first record of such a transaction. All topics are searched, unless
    some are named; `ottla transaction abort` ends what is found.

    \b
    Examples:
      ottla transaction find-hanging
      ottla transaction find-hanging orders:0-3
    """
    selections = [parse_selection(text) for text in places]

    async def action(cluster: "Cluster") -> "list[OpenTransaction]":
        if selections:
            partitions = await partitions_of(cluster, selections)
        else:
            topics = await Admin(cluster).list_topics()
            partitions = [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]
        return await TransactionAdmin(cluster).find_hanging(
            partitions, older_than_ms=minutes * 60_000, now_ms=SystemClock().now_ms()
        )

    found = with_cluster(bootstrap, action)
    if as_json:
        print_json([_open_document(each) for each in found])
        return
    rows = [
        (
            each.topic_partition.topic,
            each.topic_partition.partition,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.start_offset,
            _time(each.last_timestamp_ms),
        )
        for each in found
    ]
    columns = ["TOPIC", "PARTITION", "PRODUCER", "EPOCH", "COORDINATOR EPOCH", "START OFFSET", "LAST RECORD"]
    print_table(columns, rows, right=columns[1:6])


@transaction.command("abort")
@bootstrap_option
@click.argument("what", metavar="TRANSACTIONAL_ID|TOPIC:PARTITION")
@click.option("--producer-id", type=click.IntRange(min=0), help="The producer id of the hanging transaction.")
@click.option("--start-offset", type=click.IntRange(min=0), help="Or its first offset.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object.")
def abort(bootstrap: str, what: str, producer_id: int | None, start_offset: int | None, as_json: bool) -> None:
    """Abort a transaction, without confirmation.

    With a transactional id, the coordinator aborts the open transaction and fences the producer. With a partition
    and --producer-id or --start-offset, the missing abort marker is written to this partition only. Use that only
    for what `find-hanging` reports: aborting part of a transaction that commits elsewhere breaks its atomicity.

    \b
    Examples:
      ottla transaction abort payments
      ottla transaction abort orders:3 --start-offset 1041
    """
    if producer_id is None and start_offset is None:
        _abort_by_id(bootstrap, what, as_json=as_json)
    else:
        _abort_in_partition(bootstrap, what, producer_id, start_offset, as_json=as_json)


def _abort_by_id(bootstrap: str, transactional_id: str, *, as_json: bool) -> None:
    async def action(cluster: "Cluster") -> None:
        await TransactionAdmin(cluster).fence(transactional_id)

    with_cluster(bootstrap, action)
    if as_json:
        print_json({"transactional_id": transactional_id, "aborted": True})
    else:
        click.echo(f"aborted the transaction of {transactional_id} and fenced its producer")


def _abort_in_partition(
    bootstrap: str, place: str, producer_id: int | None, start_offset: int | None, *, as_json: bool
) -> None:
    selection = parse_selection(place)
    if selection.partitions is None or len(selection.partitions) != 1:
        raise click.BadParameter(f"{place!r} is not one partition, such as orders:3")

    async def action(cluster: "Cluster") -> "OpenTransaction":
        admin = TransactionAdmin(cluster)
        partitions = await partitions_of(cluster, [selection])
        for each in await admin.open_in(partitions):
            if each.producer_id == producer_id or each.start_offset == start_offset:
                await admin.abort(each)
                return each
        whose = f"of producer {producer_id}" if producer_id is not None else f"that begins at {start_offset}"
        raise CommandError(f"there is no open transaction {whose} in {partitions[0]}", ExitCode.NOT_FOUND)

    aborted = with_cluster(bootstrap, action)
    if as_json:
        print_json({**_open_document(aborted), "aborted": True})
        return
    click.echo(
        f"aborted the transaction of producer {aborted.producer_id} in {aborted.topic_partition},"
        f" which began at {aborted.start_offset}"
    )


def _document(each: "TransactionDescription") -> dict[str, Any]:
    return {
        "transactional_id": each.transactional_id,
        "coordinator": each.coordinator,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "state": each.state,
        "timeout_ms": each.timeout_ms,
        "start_ms": each.start_ms,
        "partitions": [list(partition) for partition in each.partitions],
    }


def _open_document(each: "OpenTransaction") -> dict[str, Any]:
    return {
        "topic": each.topic_partition.topic,
        "partition": each.topic_partition.partition,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "coordinator_epoch": each.coordinator_epoch,
        "start_offset": each.start_offset,
        "last_timestamp_ms": each.last_timestamp_ms,
    }


def _time(timestamp_ms: int | None) -> str | None:
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    return time_text(timestamp_ms)
