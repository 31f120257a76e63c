"""`ottla group`: which consumer groups there are, who is in them, how far behind they are, and what moves them."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.group_change import delete_groups, delete_offsets, reset
from ottla.cli.group_seek import seek
from ottla.cli.output import print_json, print_table

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.group_admin import GroupDescription, GroupListing, PartitionLag


@click.group()
def group() -> None:
    """List consumer groups, show how far behind they are, move and delete them."""


@group.command("list")
@bootstrap_option
@click.option("-q", "--quiet", is_flag=True, help="Names only, one a line.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of groups.")
def list_groups(bootstrap: str, quiet: bool, as_json: bool) -> None:
    """List consumer groups.

    \b
    Example:
      ottla group list
    """

    async def action(cluster: "Cluster") -> "list[GroupListing]":
        from ottla.client.group_admin import GroupAdmin

        return await GroupAdmin(cluster).list_groups()

    groups = with_cluster(bootstrap, action)
    if as_json:
        names = ("group", "protocol_type", "state", "type")
        print_json([dict(zip(names, each, strict=True)) for each in groups])
    elif quiet:
        for each in groups:
            click.echo(each.group_id)
    else:
        rows = [(each.group_id, each.state, each.group_type or None, each.protocol_type or None) for each in groups]
        print_table(["GROUP", "STATE", "TYPE", "PROTOCOL"], rows)


@group.command("describe")
@bootstrap_option
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of groups.")
def describe(bootstrap: str, names: tuple[str, ...], as_json: bool) -> None:
    """Show members, committed offsets and lag of consumer groups.

    The lag of a partition is its end minus the committed offset: what has not been read, and what was read since the
    last commit.

    \b
    Example:
      ottla group describe billing
    """

    async def action(cluster: "Cluster") -> "list[GroupDescription]":
        from ottla.client.group_admin import GroupAdmin

        return [await GroupAdmin(cluster).describe_group(name) for name in names]

    described = with_cluster(bootstrap, action)
    if as_json:
        print_json([_document(each) for each in described])
        return
    for index, each in enumerate(described):
        if index:
            click.echo()
        _show(each)


group.add_command(reset)
group.add_command(seek)
group.add_command(delete_groups)
group.add_command(delete_offsets)


def _show(described: "GroupDescription") -> None:
    members = f"{len(described.members)} member{'s' * (len(described.members) != 1)}"
    assignor = f"  assignor {described.assignor}" if described.assignor else ""
    click.echo(
        f"group {described.group_id}  {described.group_type}  {described.state}  {members}{assignor}"
        f"  coordinator {described.coordinator}  lag {described.total_lag}"
    )
    columns = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT", "HOST"]
    rows = [
        (
            each.topic_partition.topic,
            each.topic_partition.partition,
            each.committed,
            each.log_end_offset,
            each.lag,
            each.member.member_id if each.member is not None else None,
            each.member.client_id if each.member is not None else None,
            each.member.host if each.member is not None else None,
        )
        for each in described.partitions
    ]
    print_table(columns, rows, right=["PARTITION", "COMMITTED", "END", "LAG"])


def _document(described: "GroupDescription") -> dict[str, Any]:
    return {
        "group": described.group_id,
        "state": described.state,
        "type": described.group_type,
        "protocol_type": described.protocol_type,
        "assignor": described.assignor,
        "coordinator": described.coordinator,
        "lag": described.total_lag,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "protocol": member.protocol,
                "epoch": member.epoch if member.epoch >= 0 else None,
                "partitions": [list(each) for each in member.assignment],
            }
            for member in described.members
        ],
        "partitions": [_partition(each) for each in described.partitions],
    }


def _partition(each: "PartitionLag") -> dict[str, Any]:
    return {
        "topic": each.topic_partition.topic,
        "partition": each.topic_partition.partition,
        "committed_offset": each.committed,
        "log_end_offset": each.log_end_offset,
        "lag": each.lag,
        "metadata": each.metadata,
        "member_id": each.member.member_id if each.member is not None else None,
    }
