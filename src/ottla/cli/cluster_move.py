"""`ottla cluster move`: from one broker's own metadata to a store that several share."""

import asyncio
from pathlib import Path

import click

from ottla.cli.failure import CommandError, MistakesError
from ottla.cli.output import print_json
from ottla.cli.settings_file import SettingsFile, read_settings_file, with_places
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
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="The broker's settings file: who it is to ZooKeeper, and TLS.",
)
@click.argument("store")
@click.option("--json", "as_json", is_flag=True, help="A JSON object.")
def move(data_dir: Path, config_file: Path | None, store: str, as_json: bool) -> None:
    """Move the metadata of a stopped broker to a STORE that other brokers can join. Ids and epochs are kept.

    Start the broker with --metadata STORE afterwards.

    \b
    Examples:
      ottla cluster move --data /var/lib/ottla zookeeper://a:2181,b:2181,c:2181/ottla
      ottla cluster move --data /var/lib/ottla embedded:/var/lib/ottla-cluster
    """
    from ottla.metadata.store.migration import move_metadata
    from ottla.metadata.store.zookeeper_security import ZooKeeperSecurity
    from ottla.settings.broker_settings import BrokerSettings
    from ottla.settings.definition import InvalidSettingError

    file = SettingsFile({}, []) if config_file is None else read_settings_file(config_file)
    try:
        settings = BrokerSettings({name: each.value for name, each in file.settings.items()})
        security = ZooKeeperSecurity.from_settings(settings.__getitem__)
    except InvalidSettingError as error:
        places = {name: each.place for name, each in file.settings.items()}
        raise MistakesError([*file.mistakes, *with_places(error, places)]) from error
    if file.mistakes:
        raise MistakesError(file.mistakes)
    try:
        moved = asyncio.run(move_metadata(data_dir, store, zookeeper=security))
    except (StoreError, ApiError) as error:
        raise CommandError(str(error)) from error
    if as_json:
        print_json({"cluster_id": moved.cluster_id, "metadata": store})
    else:
        click.echo(
            f"moved the metadata of cluster {moved.cluster_id} to {store}; start the broker with --metadata {store}"
        )
