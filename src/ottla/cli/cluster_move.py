"""`ottla cluster move`: from one broker's own metadata to a store that several share."""

import asyncio
from pathlib import Path

import click

from ottla.cli.failure import CommandError
from ottla.cli.output import print_json
from ottla.metadata.store.interface import StoreError
from ottla.model.errors import ApiError


@click.command("move")
@click.option(
    "--data",
    "data_dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("ottla-data"),
    show_default=True,
    help="The data directory of the stopped broker.",
)
@click.argument("store")
@click.option("--json", "as_json", is_flag=True, help="A JSON object.")
def move(data_dir: Path, store: str, as_json: bool) -> None:
    """Move the metadata of a stopped broker to a STORE that other brokers can join. Ids and epochs are kept.

    Start the broker with --metadata STORE afterwards.

    \b
    Examples:
      ottla cluster move --data /var/lib/ottla zookeeper://a:2181,b:2181,c:2181/ottla
      ottla cluster move --data /var/lib/ottla embedded:/var/lib/ottla-cluster
    """
    from ottla.metadata.store.migration import move_metadata

    try:
        moved = asyncio.run(move_metadata(data_dir, store))
    except (StoreError, ApiError) as error:
        raise CommandError(str(error)) from error
    if as_json:
        print_json({"cluster_id": moved.cluster_id, "metadata": store})
    else:
        click.echo(
            f"moved the metadata of cluster {moved.cluster_id} to {store}; start the broker with --metadata {store}"
        )
