"""`ottla cluster move`: from one broker's own metadata to a store that several share."""

import asyncio
from pathlib import Path

import click

from ottla.cli.failure import CommandError


@click.command("move")
@click.option(
    "--data",
    "data_dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("ottla-data"),
    show_default=True,
    help="The data directory of the broker, which is stopped.",
)
@click.argument("store")
def move(data_dir: Path, store: str) -> None:
    """Move the metadata of a stopped broker to a STORE that other brokers can join: ids and epochs stay.

    The broker is started with --metadata STORE from then on.

    \b
    Examples:
      ottla cluster move --data /var/lib/ottla zookeeper://a:2181,b:2181,c:2181/ottla
      ottla cluster move --data /var/lib/ottla embedded:/var/lib/ottla-cluster
    """
    from ottla.metadata.store.interface import StoreError
    from ottla.metadata.store.migration import move_metadata
    from ottla.model.errors import ApiError

    try:
        moved = asyncio.run(move_metadata(data_dir, store))
    except (StoreError, ApiError) as error:
        raise CommandError(str(error)) from error
    click.echo(f"cluster {moved.cluster_id} is in {store}; start its broker with --metadata {store}")
