"""`ottla group`: which groups there are, who is in them, how far behind they are, and what moves them."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.group_change import delete_groups, delete_offsets, reset
from ottla.cli.group_history import history
from ottla.cli.group_seek import seek
from ottla.cli.group_show import consumer_group_document, share_group_document, show_consumer_group, show_share_group
from ottla.cli.output import print_json, print_table
from ottla.client.admin.group_admin import GroupAdmin, GroupDescription, GroupListing
from ottla.client.admin.share_group_admin import SHARE, ShareGroupAdmin, ShareGroupDescription
from ottla.client.errors import GroupNotFoundError
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster


@click.group()
def group() -> None:
    """List groups, show their lag, move and delete them."""


@group.command("list")
@bootstrap_option
@click.option("-q", "--quiet", is_flag=True, help="Names only, one a line.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of groups.")
def list_groups(bootstrap: str, quiet: bool, as_json: bool) -> None:
    """List groups of all kinds.

    \b
    Example:
      ottla group list
    """

    async def action(cluster: "Cluster") -> "list[GroupListing]":
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
    """Show members, positions and lag of groups, consumer groups and share groups.

    The lag of a partition is its end minus the committed offset. It includes records read since the last commit.
    BEHIND is the age of the first record that the group has not read.

    For a share group, the lag counts the records that are not done. IN-FLIGHT records are held by members, RETURNED
    ones can be delivered again, WAITING ones later. OLDEST is the first record that is not done, DELIVERIES how often
    it was delivered, HELD-BY the member that has it.

    \b
    Example:
      ottla group describe billing
    """
    described = with_cluster(bootstrap, partial(_describe, names))
    if as_json:
        print_json([_document(each) for each in described])
        return
    for index, each in enumerate(described):
        if index:
            click.echo()
        _show(each)


async def _describe(names: tuple[str, ...], cluster: "Cluster") -> "list[GroupDescription | ShareGroupDescription]":
    described: list[GroupDescription | ShareGroupDescription] = []
    for name in names:
        now_ms = SystemClock().now_ms()
        try:
            described.append(await GroupAdmin(cluster).describe_group(name, now_ms))
        except GroupNotFoundError as error:
            if error.group_type != SHARE:
                raise
            described.append(await ShareGroupAdmin(cluster).describe_group(name, now_ms))
    return described


def _show(each: "GroupDescription | ShareGroupDescription") -> None:
    if isinstance(each, ShareGroupDescription):
        show_share_group(each)
    else:
        show_consumer_group(each)


def _document(each: "GroupDescription | ShareGroupDescription") -> dict[str, Any]:
    return share_group_document(each) if isinstance(each, ShareGroupDescription) else consumer_group_document(each)


group.add_command(history)
group.add_command(reset)
group.add_command(seek)
group.add_command(delete_groups)
group.add_command(delete_offsets)
