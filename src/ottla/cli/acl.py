"""`ottla acl`: who may do what to which resources."""

from collections.abc import Callable
from functools import wraps
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.client.admin.acls import create_acls, delete_acls, describe_acls
from ottla.model.acl import ANY, MATCH, AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster

_OPERATIONS: Final = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
)
_RESOURCES: Final = {
    "topic": "topic",
    "group": "consumer group",
    "transactional_id": "transactional id",
    "delegation_token": "delegation token",
    "user": "user, for delegation tokens",
}


@click.group()
def acl() -> None:
    """Show and change ACLs: who may do what."""


class _Asked(NamedTuple):
    """Which ACLs the command line speaks of; None and () where it says nothing."""

    kind: str | None
    name: str | None
    principals: tuple[str, ...]
    operations: tuple[str, ...]
    host: str | None
    prefixed: bool

    def filters(self, *, match: bool = False) -> list[AclFilter]:
        """What matches all that is said; with `match` whatever applies to the resource."""
        literal = PatternType.LITERAL if self.kind else ANY
        return [
            AclFilter(
                ANY if self.kind is None else ResourceType[self.kind.upper()],
                self.name,
                MATCH if match else PatternType.PREFIXED if self.prefixed else literal,
                principal,
                self.host,
                ANY if operation is None else _operation(operation),
            )
            for principal in self.principals or (None,)
            for operation in self.operations or (None,)
        ]


def _operation(name: str) -> Operation:
    return Operation[name.upper().replace("-", "_")]


def _asked_options(prefixed: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that say which ACLs: the command gets them as `asked`. `prefixed` is the help of --prefixed."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def gathered(**options: Any) -> None:
            named = [(kind, name) for kind in _RESOURCES if (name := options.pop(kind)) is not None]
            if options.pop("of_cluster"):
                named.append(("cluster", "kafka-cluster"))
            if len(named) > 1:
                every = ", ".join(f"--{each.replace('_', '-')}" for each in _RESOURCES)
                raise click.UsageError(f"give one resource: {every} or --cluster")
            kind, name = named[0] if named else (None, None)
            command(asked=_Asked(kind, name, *(options.pop(field) for field in _Asked._fields[2:])), **options)

        for option in reversed(
            (
                *(
                    click.option(f"--{kind.replace('_', '-')}", kind, metavar="NAME", help=f"This {noun}; '*' for all.")
                    for kind, noun in _RESOURCES.items()
                ),
                click.option("--cluster", "of_cluster", is_flag=True, help="The cluster itself."),
                click.option(
                    "--principal", "principals", metavar="TYPE:NAME", multiple=True, help="Who, as User:anna."
                ),
                click.option(
                    "--operation",
                    "operations",
                    metavar="NAME",
                    multiple=True,
                    type=click.Choice(_OPERATIONS, case_sensitive=False),
                    help=f"What is done: {', '.join(_OPERATIONS)}; repeatable.",
                ),
                click.option("--host", metavar="ADDRESS", help="From this address; '*' for everywhere."),
                click.option("--prefixed", is_flag=True, help=prefixed),
            )
        ):
            gathered = option(gathered)
        return gathered

    return decorated


def _require_address(host: str | None) -> None:
    """Refuse what no client comes from: a name or a network would allow nobody, and forbid nobody."""
    if host not in (None, "", "*"):
        try:
            ip_address(host)
        except ValueError:
            raise click.UsageError(f"--host {host}: give an address such as 10.0.0.7 or ::1, or '*'") from None


@acl.command("list")
@bootstrap_option
@_asked_options(prefixed="Only ACLs of names that begin with the given one.")
@click.option("--match", is_flag=True, help="All ACLs that apply to the resource, prefixes and '*' among them.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of ACLs.")
def list_acls(
    bootstrap: str,
    asked: _Asked,
    match: bool,
    as_json: bool,
) -> None:
    """List ACLs: all, or matching ones.

    \b
    Examples:
      ottla acl list
      ottla acl list --topic orders --match
      ottla acl list --principal User:anna
    """

    async def action(cluster: "Cluster") -> "list[AclBinding]":
        found: dict[AclBinding, None] = {}
        for each in asked.filters(match=match):
            found.update(dict.fromkeys(await describe_acls(cluster, each)))
        return list(found)

    _show(with_cluster(bootstrap, action), as_json=as_json)


@acl.command("add")
@bootstrap_option
@_asked_options(prefixed="The name stands for all that begin with it.")
@click.option("--deny", is_flag=True, help="Forbid it, whatever is allowed elsewhere.")
@click.option("--producer", is_flag=True, help="What a producer to --topic needs.")
@click.option("--consumer", is_flag=True, help="What a consumer of --topic needs, but for its group.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the ACLs that were added.")
def add_acls(
    bootstrap: str,
    asked: _Asked,
    deny: bool,
    producer: bool,
    consumer: bool,
    as_json: bool,
) -> None:
    """Let principals do operations on a resource, or forbid it. It applies at once.

    \b
    Examples:
      ottla acl add --principal User:anna --topic orders --operation read
      ottla acl add --principal User:etl --topic etl- --prefixed --producer
      ottla acl add --principal User:anna --group shop --operation read
      ottla acl add --principal User:guest --topic '*' --operation write --deny
    """
    wanted = list(asked.operations)
    wanted += ["write", "describe", "create"] * producer + ["read", "describe"] * consumer
    if asked.kind is None or asked.name is None or not asked.principals or not wanted:
        raise click.UsageError(
            "give --principal, a resource such as --topic, and --operation (or --producer, --consumer)"
        )
    _require_address(asked.host)
    kind = ResourceType[asked.kind.upper()]
    _require_meant(kind, wanted)
    acls = [
        AclBinding(
            kind,
            asked.name,
            PatternType.PREFIXED if asked.prefixed else PatternType.LITERAL,
            principal,
            asked.host or "*",
            _operation(operation),
            Permission.DENY if deny else Permission.ALLOW,
        )
        for principal in asked.principals
        for operation in dict.fromkeys(wanted)
    ]

    async def action(cluster: "Cluster") -> None:
        await create_acls(cluster, acls)

    with_cluster(bootstrap, action)
    _show(acls, as_json=as_json)


@acl.command("remove")
@bootstrap_option
@_asked_options(prefixed="Only ACLs of names that begin with the given one.")
@click.option("--all", "is_all", is_flag=True, help="All ACLs, where nothing says which.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the ACLs that were removed.")
def remove_acls(
    bootstrap: str,
    asked: _Asked,
    is_all: bool,
    as_json: bool,
) -> None:
    """Remove ACLs that match all that is given. It applies at once.

    \b
    Examples:
      ottla acl remove --principal User:anna --topic orders --operation read
      ottla acl remove --principal User:guest
    """
    if not (asked.kind or asked.principals or asked.operations or asked.host or is_all):
        raise click.UsageError("say which ACLs, or --all")

    async def action(cluster: "Cluster") -> "list[AclBinding]":
        return [acl for each in asked.filters() for acl in await delete_acls(cluster, each)]

    removed = with_cluster(bootstrap, action)
    if not removed:
        raise CommandError("no ACL matches; `ottla acl list` shows all", ExitCode.NOT_FOUND)
    _show(removed, as_json=as_json)


def _require_meant(kind: ResourceType, operations: list[str]) -> None:
    """Refuse an ACL that no request would ever be asked for, as Kafka's tool does."""
    from ottla.broker.access import OPERATIONS

    there_are = [each.name.lower().replace("_", "-") for each in OPERATIONS[kind]]
    for operation in operations:
        if operation not in ("all", *there_are):
            raise click.UsageError(
                f"nothing asks for {operation} on a {kind.name.lower().replace('_', ' ')}: there are "
                f"{', '.join(there_are)}, and all"
            )


def _show(acls: "list[AclBinding]", *, as_json: bool) -> None:
    rows = [
        (
            each.principal,
            each.host,
            Permission(each.permission).name.lower(),
            Operation(each.operation).name.lower().replace("_", "-"),
            ResourceType(each.resource_type).name.lower().replace("_", "-"),
            each.resource_name,
            PatternType(each.pattern_type).name.lower(),
        )
        for each in acls
    ]
    rows.sort()
    columns = ["PRINCIPAL", "HOST", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN"]
    if as_json:
        print_json([dict(zip(map(str.lower, columns), row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)
