"""`ottla quota`: how much users, clients and addresses may move, and changing it."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.settings import parse_settings
from ottla.client.admin.admin import Admin
from ottla.client.admin.quotas import Match, QuotaFilter
from ottla.model.quota_entity import QuotaEntity, entity_text, quota_entity

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster

_ANY = "default"
"""How the flags end that stand for all that have no quota of their own."""


@click.group()
def quota() -> None:
    """Show and change quotas of users, clients and IPs."""


class _Whom(NamedTuple):
    """Whose quotas, as the command line says it. None: not said; "" stands for all that have none of their own."""

    user: str | None
    client_id: str | None
    ip: str | None

    @property
    def entity(self) -> "QuotaEntity":
        """The entity that this is."""
        said = [(kind.replace("_", "-"), name) for kind, name in self._asdict().items() if name is not None]
        if not said:
            raise click.UsageError("give --user, --client-id, both, or --ip, each with a name or as *-default")
        return quota_entity((kind, name or None) for kind, name in said)


def _of_option(command: Callable[..., None]) -> Callable[..., None]:
    """Whose quotas: the command gets it as `whom`."""

    @wraps(command)
    def gathered(**options: Any) -> None:
        names = {}
        for kind in _Whom._fields:
            name, is_default = options.pop(kind), options.pop(f"{kind}_{_ANY}")
            if name == "" or (name is not None and is_default):
                raise click.UsageError(f"--{kind.replace('_', '-')} takes a name, or give --*-default alone")
            names[kind] = "" if is_default else name
        command(whom=_Whom(**names), **options)

    for kind, noun in reversed((("user", "user"), ("client-id", "client"), ("ip", "address"))):
        for option in (
            click.option(f"--{kind}-{_ANY}", is_flag=True, help=f"Every {noun} without a quota of its own."),
            click.option(f"--{kind}", metavar="NAME", help=f"This {noun}."),
        ):
            gathered = option(gathered)
    return gathered


@quota.command("list")
@bootstrap_option
@_of_option
@click.option("--json", "as_json", is_flag=True, help="A JSON array of entities.")
def list_quotas(bootstrap: str, whom: _Whom, as_json: bool) -> None:
    """List quotas: all, or those of matching entities.

    \b
    Examples:
      ottla quota list
      ottla quota list --user anna
    """

    async def action(cluster: "Cluster") -> "dict[QuotaEntity, dict[str, float]]":
        filters = [
            QuotaFilter(kind.replace("_", "-"), Match.EXACT if name else Match.DEFAULT, name or None)
            for kind, name in whom._asdict().items()
            if name is not None
        ]
        return await Admin(cluster).describe_quotas(filters)

    found = with_cluster(bootstrap, action)
    entities = sorted(found, key=lambda entity: [(kind, name or "") for kind, name in entity])
    if as_json:
        print_json([{"entity": dict(entity), "quotas": found[entity]} for entity in entities])
        return
    rows = [
        (*_names(entity), key, f"{value:g}" if value != int(value) else int(value))
        for entity in entities
        for key, value in sorted(found[entity].items())
    ]
    print_table(["USER", "CLIENT", "ADDRESS", "QUOTA", "VALUE"], rows, right=["VALUE"])


@quota.command("set")
@bootstrap_option
@_of_option
@click.argument("quotas", metavar="KEY=VALUE...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON object of the entity, with the quotas that were set.")
def set_quotas(bootstrap: str, whom: _Whom, quotas: tuple[str, ...], as_json: bool) -> None:
    """Set quotas, all of them or none. They apply at once.

    producer_byte_rate and consumer_byte_rate are in bytes per second, request_percentage in percent of one
    thread's time, controller_mutation_rate in partitions created and deleted per second. IPs have
    connection_creation_rate.

    \b
    Examples:
      ottla quota set --client-id etl producer_byte_rate=1048576
      ottla quota set --user-default --client-id-default consumer_byte_rate=10485760
    """
    values: dict[str, float | None] = {}
    for key, text in parse_settings(quotas).items():
        try:
            values[key] = float(text)
        except ValueError:
            raise click.BadParameter(f"{key}={text} is not a number") from None
    _alter(bootstrap, whom, values, as_json=as_json)


@quota.command("delete")
@bootstrap_option
@_of_option
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option(
    "--json", "as_json", is_flag=True, help="A JSON object of the entity, with null for each quota that was deleted."
)
def delete_quotas(bootstrap: str, whom: _Whom, keys: tuple[str, ...], as_json: bool) -> None:
    """Delete quotas, so that a more general one applies, or none.

    \b
    Example:
      ottla quota delete --client-id etl producer_byte_rate
    """
    _alter(bootstrap, whom, dict.fromkeys(keys), as_json=as_json)


def _alter(bootstrap: str, whom: _Whom, changes: dict[str, float | None], *, as_json: bool) -> None:
    entity = whom.entity

    async def action(cluster: "Cluster") -> None:
        admin = Admin(cluster)
        gone = [key for key, value in changes.items() if value is None]
        if gone:
            present = (await admin.describe_quotas()).get(entity, {})
            missing = [key for key in gone if key not in present]
            if missing:
                raise CommandError(
                    f"{entity_text(entity)} has no quota {missing[0]!r}; `ottla quota list` shows all quotas",
                    ExitCode.NOT_FOUND,
                )
        await admin.alter_quotas(entity, changes)

    with_cluster(bootstrap, action)
    if as_json:
        print_json({"entity": dict(entity), "quotas": changes})
    else:
        click.echo(f"changed {len(changes)} quota{'s' * (len(changes) != 1)} of {entity_text(entity)}")


def _names(entity: "QuotaEntity") -> list[str | None]:
    parts = dict(entity)
    return [(parts[kind] or "any") if kind in parts else None for kind in ("user", "client-id", "ip")]
