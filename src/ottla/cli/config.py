"""`ottla config`: settings of topics, brokers, groups and client metrics, where they come from, and changing them."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.no_effect import warn_of_no_effect, warn_of_streams
from ottla.cli.output import print_json, print_table
from ottla.cli.settings import parse_settings
from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import ConfigEntry, ConfigResource, ConfigSource

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster


@click.group()
def config() -> None:
    """Show and change settings of topics, brokers, groups and client metrics."""


class _Whose(NamedTuple):
    """Whose settings, as the command line says it: one of the four."""

    topic: str | None
    broker: str | None
    group: str | None
    client_metrics: str | None

    @property
    def flags(self) -> str:
        """As it was said."""
        [said] = [f"--{name.replace('_', '-')} {value}" for name, value in self._asdict().items() if value is not None]
        return said


def _of_option(command: Callable[..., None]) -> Callable[..., None]:
    """Whose settings: the command gets it as `whose`."""

    @wraps(command)
    def gathered(
        topic: str | None, broker: str | None, group: str | None, client_metrics: str | None, **others: Any
    ) -> None:
        command(whose=_Whose(topic, broker, group, client_metrics), **others)

    for option in (
        click.option("--client-metrics", metavar="NAME", help="The settings of this client metrics subscription."),
        click.option("-g", "--group", metavar="GROUP", help="The settings of this group; it does not have to exist."),
        click.option(
            "--broker", metavar="ID|all", help="The settings of this broker, or the dynamic defaults of all brokers."
        ),
        click.option("-t", "--topic", metavar="NAME", help="The settings of this topic."),
    ):
        gathered = option(gathered)
    return gathered


@config.command("list")
@bootstrap_option
@_of_option
@click.option("--changed", is_flag=True, help="Leave out settings with their default value.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of settings.")
def list_configs(bootstrap: str, whose: _Whose, changed: bool, as_json: bool) -> None:
    """List settings with their values, and where each value comes from.

    Sources by precedence: topic, group or client_metrics (its own setting), dynamic_broker (dynamic per broker),
    dynamic_default_broker (dynamic default), static_broker (file or command line), default. `--broker all` lists
    dynamic defaults only.

    \b
    Examples:
      ottla config list --topic events --changed
      ottla config list --broker 1
      ottla config list --group billing
    """
    _show(_describe(bootstrap, whose, None, changed=changed), as_json=as_json)


@config.command("get")
@bootstrap_option
@_of_option
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of settings.")
@click.option("-q", "--quiet", is_flag=True, help="Values only, one a line, in the order of the keys.")
def get(bootstrap: str, whose: _Whose, keys: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Show these settings.

    \b
    Example:
      ottla config get --topic events retention.ms cleanup.policy
    """
    found = {each.name: each for each in _describe(bootstrap, whose, keys)}
    missing = [key for key in keys if key not in found]
    if missing:
        is_unset = whose.broker == "all"
        said = f"{missing[0]!r} is not set for all brokers" if is_unset else f"there is no setting {missing[0]!r}"
        raise CommandError(f"{said}; `ottla config list {whose.flags}` shows all settings", ExitCode.NOT_FOUND)
    if quiet:
        for key in keys:
            click.echo(found[key].value or "")
    else:
        _show([found[key] for key in dict.fromkeys(keys)], as_json=as_json)


@config.command("set")
@bootstrap_option
@_of_option
@click.argument("settings", metavar="KEY=VALUE...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the settings as they are now.")
def set_configs(bootstrap: str, whose: _Whose, settings: tuple[str, ...], as_json: bool) -> None:
    """Set settings, all of them or none.

    Broker settings survive restarts; a setting of one broker overrides the dynamic default of all.

    \b
    Examples:
      ottla config set --topic events retention.ms=86400000
      ottla config set --broker all log.retention.ms=86400000
      ottla config set --group billing consumer.session.timeout.ms=50000
    """
    _alter(bootstrap, whose, dict(parse_settings(settings)), as_json=as_json)


@config.command("delete")
@bootstrap_option
@_of_option
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the settings as they are now.")
def delete(bootstrap: str, whose: _Whose, keys: tuple[str, ...], as_json: bool) -> None:
    """Delete settings, so that the next source applies: for a topic the broker's, at last the default.

    \b
    Example:
      ottla config delete --topic events retention.ms
    """
    _alter(bootstrap, whose, dict.fromkeys(keys), as_json=as_json)


def _resource(whose: _Whose) -> "ConfigResource":
    if sum(each is not None for each in whose) != 1:
        raise click.UsageError("give one of --topic, --broker, --group and --client-metrics")
    if "" in whose:
        raise click.BadParameter("the name is empty")
    topic, broker, group, client_metrics = whose
    if topic is not None:
        return ConfigResource.topic(topic)
    if group is not None:
        return ConfigResource.group(group)
    if client_metrics is not None:
        return ConfigResource.client_metrics(client_metrics)
    if broker == "all":
        return ConfigResource.all_brokers()
    if broker is None or not (broker.isascii() and broker.isdecimal() and len(broker) <= 10):
        raise click.BadParameter(f"{broker!r} is neither the number of a broker nor all")
    return ConfigResource.broker(int(broker))


def _check_broker(cluster: "Cluster", broker: str | None) -> None:
    if broker is not None and broker != "all" and int(broker) not in cluster.metadata.brokers:
        raise CommandError(
            f"broker {int(broker)} is not up, or there is none; `ottla cluster status` shows all", ExitCode.NOT_FOUND
        )


def _describe(
    bootstrap: str, whose: _Whose, keys: tuple[str, ...] | None, *, changed: bool = False
) -> "list[ConfigEntry]":
    resource = _resource(whose)

    async def action(cluster: "Cluster") -> "list[ConfigEntry]":
        _check_broker(cluster, whose.broker)
        entries = await Admin(cluster).describe_configs(resource, keys)
        return sorted(each for each in entries if not changed or each.source != ConfigSource.DEFAULT)

    return with_cluster(bootstrap, action)


def _alter(bootstrap: str, whose: _Whose, changes: dict[str, str | None], *, as_json: bool) -> None:
    resource = _resource(whose)

    async def action(cluster: "Cluster") -> "list[ConfigEntry]":
        _check_broker(cluster, whose.broker)
        admin = Admin(cluster)
        await admin.alter_configs(resource, changes)
        if not as_json:
            click.echo(f"changed {len(changes)} setting{'s' * (len(changes) != 1)} of {resource}")
        await warn_of_no_effect(admin, resource, [key for key, value in changes.items() if value is not None])
        if whose.group is not None:
            await warn_of_streams(cluster, whose.group, changes)
        return sorted(await admin.describe_configs(resource, changes)) if as_json else []

    entries = with_cluster(bootstrap, action)
    if as_json:
        _show(entries, as_json=True)


def _show(entries: "list[ConfigEntry]", *, as_json: bool) -> None:
    rows = [
        {
            "name": each.name,
            "value": each.value,
            "source": each.source.name.lower(),
            "default": each.source == ConfigSource.DEFAULT,
            "read_only": each.read_only,
            "sensitive": each.sensitive,
        }
        for each in entries
    ]
    if as_json:
        print_json(rows)
    else:
        columns = ["NAME", "VALUE", "SOURCE", "DEFAULT"]
        print_table(columns, [tuple(each.values())[:4] for each in rows])
