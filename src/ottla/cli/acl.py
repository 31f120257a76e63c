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


class _Resource(NamedTuple):
    """A resource as the command line names it, None where it names none."""

    kind: str | None
    name: str | None


def _resource_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that name a resource: the command gets it as `resource`."""

    @wraps(command)
    def gathered(**options: Any) -> None:
        named = [(kind, name) for kind in _RESOURCES if (name := options.pop(kind)) is not None]
        if options.pop("of_cluster"):
            named.append(("cluster", "kafka-cluster"))
        if len(named) > 1:
            raise click.UsageError("give one resource: --topic, --group, --transactional-id, --cluster, ...")
        command(resource=_Resource(*named[0]) if named else _Resource(None, None), **options)

    gathered = click.option("--cluster", "of_cluster", is_flag=True, help="The cluster itself.")(gathered)
    for kind, noun in reversed(_RESOURCES.items()):
        option = click.option(f"--{kind.replace('_', '-')}", kind, metavar="NAME", help=f"This {noun}; '*' for all.")
        gathered = option(gathered)
    return gathered


def _other_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--host", metavar="ADDRESS", help="From this address; '*' for everywhere."),
        click.option(
            "--operation",
            "operations",
            metavar="NAME",
            multiple=True,
            type=click.Choice(_OPERATIONS, case_sensitive=False),
            help=f"What is done: {', '.join(_OPERATIONS)}; repeatable.",
        ),
        click.option("--principal", "principals", metavar="TYPE:NAME", multiple=True, help="Who, as User:anna."),
    ):
        command = option(command)
    return command


def _require_address(host: str | None) -> None:
    """Refuse what no client comes from: a name or a network would allow nobody, and forbid nobody."""
    if host not in (None, "", "*"):
        try:
            ip_address(host)
        except ValueError:
            raise click.UsageError(f"--host {host}: give an address such as 10.0.0.7 or ::1, or '*'") from None


@acl.command("list")
@bootstrap_option
@_resource_options
@_other_options
@click.option("--prefixed", is_flag=True, help="Only ACLs of names that begin with the given one.")
@click.option("--match", is_flag=True, help="All ACLs that apply to the resource, prefixes and '*' among them.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of ACLs.")
def list_acls(
    bootstrap: str,
    resource: _Resource,
    principals: tuple[str, ...],
    operations: tuple[str, ...],
    host: str | None,
    prefixed: bool,
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
    filters = _filters(resource, principals, operations, host, prefixed=prefixed, match=match)

    async def action(cluster: "Cluster") -> "list[AclBinding]":
        found: dict[AclBinding, None] = {}
        for each in filters:
            found.update(dict.fromkeys(await describe_acls(cluster, each)))
        return list(found)

    _show(with_cluster(bootstrap, action), as_json=as_json)


@acl.command("add")
@bootstrap_option
@_resource_options
@_other_options
@click.option("--prefixed", is_flag=True, help="The name stands for all that begin with it.")
@click.option("--deny", is_flag=True, help="Forbid it, whatever is allowed elsewhere.")
@click.option("--producer", is_flag=True, help="What a producer to --topic needs.")
@click.option("--consumer", is_flag=True, help="What a consumer of --topic needs, but for its group.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the ACLs that were added.")
def add_acls(
    bootstrap: str,
    resource: _Resource,
    principals: tuple[str, ...],
    operations: tuple[str, ...],
    host: str | None,
    prefixed: bool,
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
    wanted = list(operations)
    wanted += ["write", "describe", "create"] * producer + ["read", "describe"] * consumer
    if resource.kind is None or resource.name is None or not principals or not wanted:
        raise click.UsageError(
            "give --principal, a resource such as --topic, and --operation (or --producer, --consumer)"
        )
    _require_address(host)
    acls = [
        AclBinding(
            ResourceType[resource.kind.upper()],
            resource.name,
            PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            principal,
            host or "*",
            Operation[operation.upper().replace("-", "_")],
            Permission.DENY if deny else Permission.ALLOW,
        )
        for principal in principals
        for operation in dict.fromkeys(wanted)
    ]

    async def action(cluster: "Cluster") -> None:
        await create_acls(cluster, acls)

    with_cluster(bootstrap, action)
    _show(acls, as_json=as_json)


@acl.command("remove")
@bootstrap_option
@_resource_options
@_other_options
@click.option("--prefixed", is_flag=True, help="Only ACLs of names that begin with the given one.")
@click.option("--all", "is_all", is_flag=True, help="All ACLs, where nothing says which.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the ACLs that were removed.")
def remove_acls(
    bootstrap: str,
    resource: _Resource,
    principals: tuple[str, ...],
    operations: tuple[str, ...],
    host: str | None,
    prefixed: bool,
    is_all: bool,
    as_json: bool,
) -> None:
    """Remove ACLs that match all that is given. It applies at once.

    \b
    Examples:
      ottla acl remove --principal User:anna --topic orders --operation read
      ottla acl remove --principal User:guest
    """
    if not (resource.kind or principals or operations or host or is_all):
        raise click.UsageError("say which ACLs, or --all")
    filters = _filters(resource, principals, operations, host, prefixed=prefixed, match=False)

    async def action(cluster: "Cluster") -> "list[AclBinding]":
        return [acl for each in filters for acl in await delete_acls(cluster, each)]

    removed = with_cluster(bootstrap, action)
    if not removed:
        raise CommandError("no ACL matches; `ottla acl list` shows all", ExitCode.NOT_FOUND)
    _show(removed, as_json=as_json)


def _filters(
    resource: _Resource,
    principals: tuple[str, ...],
    operations: tuple[str, ...],
    host: str | None,
    *,
    prefixed: bool,
    match: bool,
) -> "list[AclFilter]":
    literal = PatternType.LITERAL if resource.kind else ANY
    return [
        AclFilter(
            ANY if resource.kind is None else ResourceType[resource.kind.upper()],
            resource.name,
            MATCH if match else PatternType.PREFIXED if prefixed else literal,
            principal,
            host,
            ANY if operation is None else Operation[operation.upper().replace("-", "_")],
        )
        for principal in principals or (None,)
        for operation in operations or (None,)
    ]


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
