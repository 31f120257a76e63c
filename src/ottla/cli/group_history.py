"""`ottla group history`: what became of one record in share groups."""

from typing import TYPE_CHECKING

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.output import print_json, print_table
from ottla.cli.time_text import time_text
from ottla.client.admin.group_admin import GroupAdmin
from ottla.client.admin.record_history import RecordEvent, record_history
from ottla.client.admin.share_group_admin import SHARE
from ottla.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster


@click.command("history")
@bootstrap_option
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
@click.option("--group", "only", default=None, help="Of this group only.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of events.")
def history(bootstrap: str, topic: str, partition: int, offset: int, only: str | None, as_json: bool) -> None:
    """Show to whom share groups delivered a record, when, and how that ended.

    Only of groups with ottla.history.ms. The last events of a broker that was killed may be missing.

    \b
    Example:
      ottla group history jobs 0 120
    """

    async def action(cluster: "Cluster") -> list[RecordEvent]:
        groups = [] if only is None else [only]
        if only is None:
            groups = [each.group_id for each in await GroupAdmin(cluster).list_groups() if each.group_type == SHARE]
        return await record_history(cluster, groups, TopicPartition(topic, partition), offset)

    events = with_cluster(bootstrap, action)
    if as_json:
        print_json([event._asdict() for event in events])
        return
    if not events:
        of = "share group" if only is None else f"share group {only!r}"
        click.echo(
            f"nothing is known of {topic}-{partition}@{offset}: no {of} that has ottla.history.ms was given it since"
            " then, or it is longer ago than that",
            err=True,
        )
        return
    rows = [
        (time_text(event.time_ms), event.group_id, event.what, event.deliveries, event.member_id or None)
        for event in events
    ]
    print_table(["TIME", "GROUP", "WHAT", "DELIVERIES", "MEMBER"], rows, right=["DELIVERIES"])
