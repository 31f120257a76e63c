"""`ottla cluster`: which cluster this is, and its brokers."""

from typing import TYPE_CHECKING

import click

from ottla.cli.cluster_change import decommission, elect, unregister
from ottla.cli.cluster_move import move
from ottla.cli.cluster_status import status
from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.output import print_json, print_table
from ottla.client.admin.admin import Admin

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster
    from ottla.client.io.cluster_metadata import ClusterMetadata


@click.group("cluster", invoke_without_command=True)
@bootstrap_option
@click.option("--json", "as_json", is_flag=True, help="A JSON object.")
@click.pass_context
def cluster_command(ctx: click.Context, bootstrap: str, as_json: bool) -> None:
    """Show the cluster's id, its controller, and its brokers with their addresses and racks.

    Addresses are advertised addresses, to which clients connect.

    \b
    Examples:
      ottla cluster
      ottla cluster status
    """
    if ctx.invoked_subcommand is not None:
        if ctx.get_parameter_source("bootstrap") is click.core.ParameterSource.COMMANDLINE or as_json:
            raise click.UsageError(f"write the options after the command: ottla cluster {ctx.invoked_subcommand} ...")
        return

    async def action(cluster: "Cluster") -> "ClusterMetadata":
        return await Admin(cluster).describe_cluster()

    found = with_cluster(bootstrap, action)
    controller = found.controller_id if found.controller_id >= 0 else None
    brokers = sorted(found.brokers.values(), key=lambda each: each.node_id)
    if as_json:
        print_json(
            {
                "cluster_id": found.cluster_id,
                "controller": controller,
                "brokers": [
                    {"broker": each.node_id, "host": each.address.host, "port": each.address.port, "rack": each.rack}
                    for each in brokers
                ],
            }
        )
        return
    count = f"{len(brokers)} broker{'s' * (len(brokers) != 1)}"
    click.echo(f"cluster {found.cluster_id or '-'}  controller {'-' if controller is None else controller}  {count}")
    rows = [(each.node_id, str(each.address), each.rack, each.node_id == controller) for each in brokers]
    print_table(["BROKER", "ADDRESS", "RACK", "CONTROLLER"], rows, right=["BROKER"])


cluster_command.add_command(status)
cluster_command.add_command(elect)
cluster_command.add_command(decommission)
cluster_command.add_command(unregister)
cluster_command.add_command(move)
