"""`ottla feature`: which levels of features the cluster has agreed on, and changing that."""

from typing import TYPE_CHECKING

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.output import print_json, print_table
from ottla.cli.settings import parse_settings
from ottla.client.admin.admin import Admin

if TYPE_CHECKING:
    from ottla.client.admin.features import FeatureListing
    from ottla.client.io.cluster import Cluster


@click.group()
def feature() -> None:
    """Show and change the feature levels of the cluster."""


@feature.command("list")
@bootstrap_option
@click.option("--json", "as_json", is_flag=True, help="A JSON array of features.")
def list_features(bootstrap: str, as_json: bool) -> None:
    """List features with the supported levels and the current one; 0 means disabled.

    \b
    Example:
      ottla feature list
    """

    async def action(cluster: "Cluster") -> "list[FeatureListing]":
        return await Admin(cluster).list_features()

    found = with_cluster(bootstrap, action)
    if as_json:
        print_json([each._asdict() for each in found])
    else:
        columns = ["FEATURE", "LOWEST", "HIGHEST", "LEVEL"]
        print_table(columns, found, right=columns[1:])


@feature.command("set")
@bootstrap_option
@click.argument("levels", metavar="FEATURE=LEVEL...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Check only.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of features.")
def set_features(bootstrap: str, levels: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Set feature levels, all of them or none; 0 disables a feature.

    \b
    Example:
      ottla feature set transaction.version=2
    """
    wanted = {}
    for name, text in parse_settings(levels).items():
        if not (text.isascii() and text.isdecimal() and len(text) <= 5):
            raise click.BadParameter(f"{name}={text} is not a level")
        wanted[name] = int(text)

    async def action(cluster: "Cluster") -> None:
        await Admin(cluster).update_features(wanted, validate_only=dry_run)

    with_cluster(bootstrap, action)
    if as_json:
        print_json([{"feature": name, "level": level, "set": not dry_run} for name, level in wanted.items()])
    else:
        done = "would set" if dry_run else "set"
        click.echo(f"{done} {', '.join(f'{name} to {level}' for name, level in wanted.items())}")
