"""`ottla delay`: what waits in a delay topic, and taking it back."""

from heapq import nsmallest
from typing import TYPE_CHECKING

import click

from ottla.cli.connection import bootstrap_option, connected, with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.time_text import time_text
from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import ConfigResource
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions, OffsetReset
from ottla.client.consuming.group_offsets import committed_offsets
from ottla.client.consuming.offsets import IsolationLevel, OffsetAt
from ottla.client.producing.producer import Producer
from ottla.model.delivery_group import delivery_group
from ottla.queues.delay import CANCEL, Progress, progress_of
from ottla.queues.waiting import Waiting, WaitingReader
from ottla.settings.topic_settings import DELIVER_DELAY_MS, DELIVER_TO

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster


@click.group()
def delay() -> None:
    """Show what waits in a delay topic (a topic with ottla.deliver.to), and cancel it."""


@delay.command("list")
@bootstrap_option
@click.argument("topic")
@click.option("-k", "--key", metavar="KEY", help="Only records with this key.")
@click.option(
    "-n", "--count", type=click.IntRange(1), default=100, show_default=True, help="The maximum number of records."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of records.")
def list_waiting(bootstrap: str, topic: str, key: str | None, count: int, as_json: bool) -> None:
    """Show records that wait, the next ones first. It reads the topic from the first record that waits.

    \b
    Example:
      ottla delay list orders.later
    """

    async def action(cluster: "Cluster") -> "list[Waiting]":
        return await _waiting(bootstrap, cluster, topic, None if key is None else key.encode())

    found = with_cluster(bootstrap, action)
    shown = nsmallest(count, found, key=lambda each: (each.due_ms or 0, each.partition, each.offset))
    if as_json:
        print_json(
            [
                {
                    "due": _time(each.due_ms),
                    "partition": each.partition,
                    "offset": each.offset,
                    "key": _text(each.key),
                    "value_bytes": each.value_bytes,
                }
                for each in shown
            ]
        )
        return
    columns = ["DUE", "PARTITION", "OFFSET", "KEY", "BYTES"]
    rows = [(_time(each.due_ms), each.partition, each.offset, _text(each.key), each.value_bytes) for each in shown]
    print_table(columns, rows, right=["PARTITION", "OFFSET", "BYTES"])
    if len(shown) < len(found):
        click.echo(f"{len(found) - len(shown)} more records wait: --count shows more", err=True)


@delay.command("cancel")
@bootstrap_option
@click.argument("topic")
@click.argument("key")
@click.option("--json", "as_json", is_flag=True, help="A JSON object with the number of records.")
def cancel(bootstrap: str, topic: str, key: str, as_json: bool) -> None:
    """Cancel all records with a key that wait now. Records that are due in this moment may still be delivered.

    It appends a record with the header ottla-cancel to each partition where such records wait.

    \b
    Example:
      ottla delay cancel orders.later customer-17
    """

    async def action(cluster: "Cluster") -> int:
        found = await _waiting(bootstrap, cluster, topic, key.encode())
        async with connected(bootstrap, Producer) as producer:
            for partition in sorted({each.partition for each in found}):
                headers = [(CANCEL, b"")]
                await producer.send_and_wait(topic, None, key=key.encode(), partition=partition, headers=headers)
        return len(found)

    count = with_cluster(bootstrap, action)
    if not count:
        raise CommandError(f"no record with key {key!r} waits in topic {topic}", ExitCode.NOT_FOUND)
    if as_json:
        print_json({"topic": topic, "key": key, "cancelled": count})
        return
    click.echo(f"cancelled {count} records with key {key}" if count > 1 else f"cancelled 1 record with key {key}")


async def _waiting(bootstrap: str, cluster: "Cluster", topic: str, key: bytes | None) -> "list[Waiting]":
    """What waits, of one key if it is given."""
    described = await Admin(cluster).describe_configs(ConfigResource.topic(topic), [DELIVER_TO, DELIVER_DELAY_MS])
    settings = {each.name: each.value for each in described}
    if not settings.get(DELIVER_TO):
        raise CommandError(f"topic {topic} is no delay topic: its {DELIVER_TO} is not set")
    options = ConsumerOptions(isolation=IsolationLevel.READ_COMMITTED, auto_offset_reset=OffsetReset.EARLIEST)
    found: list[Waiting] = []
    async with connected(bootstrap, lambda client: Consumer(client, options)) as consumer:
        places = await consumer.partitions_of(topic)
        committed = await committed_offsets(cluster, delivery_group(topic), places, cluster.deadline())
        starts = await consumer.list_offsets(dict.fromkeys(places, OffsetAt.EARLIEST))
        ends = await consumer.list_offsets(dict.fromkeys(places, OffsetAt.LATEST))
        for place in places:
            at = committed.get(place)
            progress = Progress() if at is None else progress_of(at.offset, at.metadata)
            reader = WaitingReader(place.partition, progress, int(settings[DELIVER_DELAY_MS] or 0), key=key)
            consumer.assign([place])
            consumer.seek(place, max(progress.low, starts[place].offset))
            while (consumer.position(place) or 0) < ends[place].offset:
                for record in await consumer.poll(max_records=5_000):
                    reader.take(record.offset, record.timestamp_ms, record.key, record.value, record.headers)
            found += reader.waiting()
    return found


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "replace")


def _time(due_ms: int | None) -> str | None:
    return "at once" if due_ms is None else time_text(due_ms)
