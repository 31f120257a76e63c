"""`ottla token`: delegation tokens, by which others log in as their owner for a while."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.offset_reset import parse_duration_ms
from ottla.cli.output import print_json, print_table
from ottla.cli.time_text import time_text
from ottla.client.admin.delegation_tokens import (
    AS_THE_BROKER_SAYS,
    DelegationToken,
    create_token,
    describe_tokens,
    expire_token,
    renew_token,
)

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster


class PrincipalText(click.ParamType[str]):
    """`User:anna`."""

    name = "principal"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, if it is one."""
        if not all(value.partition(":")):
            self.fail(f"{value!r} is not TYPE:NAME, as User:anna", param, ctx)
        return value


class DurationText(click.ParamType[int]):
    """`90s`, `12h`, `7d`: milliseconds."""

    name = "duration"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Milliseconds."""
        try:
            return value if isinstance(value, int) else parse_duration_ms(value)
        except click.BadParameter as error:
            self.fail(error.message, param, ctx)


@click.group()
def token() -> None:
    """Create, show, renew and end delegation tokens."""


@token.command("create")
@bootstrap_option
@click.option("--owner", type=PrincipalText(), metavar="TYPE:NAME", help="As whom it logs in.  [who asks]")
@click.option(
    "--renewer", "renewers", type=PrincipalText(), metavar="TYPE:NAME", multiple=True, help="Who may renew it, too."
)
@click.option(
    "--lifetime",
    type=DurationText(),
    metavar="DURATION",
    help="How long it can be renewed, as 12h or 7d.  [delegation.token.max.lifetime.ms]",
)
@click.option("--json", "as_json", is_flag=True, help="A JSON object of the token, its secret in it.")
def create(bootstrap: str, owner: str | None, renewers: tuple[str, ...], lifetime: int | None, as_json: bool) -> None:
    """Create a token, and print its id and its secret: a name and a password for SCRAM.

    Clients that log in by it say tokenauth=true in their JAAS line.

    \b
    Examples:
      ottla token create --lifetime 7d
      ottla token create --owner User:etl --renewer User:scheduler --json
    """

    async def action(cluster: "Cluster") -> DelegationToken:
        wanted_ms = AS_THE_BROKER_SAYS if lifetime is None else lifetime
        return await create_token(cluster, owner, renewers, wanted_ms)

    made = with_cluster(bootstrap, action)
    if as_json:
        print_json({**_said(made), "secret": made.secret})
        return
    print_table(
        ["TOKEN", "SECRET", "OWNER", "EXPIRES", "AT THE LATEST"],
        [(made.token_id, made.secret, made.owner, time_text(made.expires_ms), time_text(made.max_ms))],
    )


@token.command("list")
@bootstrap_option
@click.option(
    "--owner", "owners", type=PrincipalText(), metavar="TYPE:NAME", multiple=True, help="Those of an owner alone."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of tokens, without their secrets.")
def list_tokens(bootstrap: str, owners: tuple[str, ...], as_json: bool) -> None:
    """List the tokens that you may see, without their secrets.

    \b
    Example:
      ottla token list --owner User:etl
    """

    async def action(cluster: "Cluster") -> list[DelegationToken]:
        return await describe_tokens(cluster, owners or None)

    found = with_cluster(bootstrap, action)
    if as_json:
        print_json([_said(each) for each in found])
        return
    rows = [
        (each.token_id, each.owner, each.renewers or None, time_text(each.expires_ms), time_text(each.max_ms))
        for each in found
    ]
    print_table(["TOKEN", "OWNER", "RENEWERS", "EXPIRES", "AT THE LATEST"], rows)


@token.command("renew")
@bootstrap_option
@click.argument("token_id", metavar="TOKEN")
@click.option(
    "--for",
    "period",
    type=DurationText(),
    metavar="DURATION",
    help="For how long from now, as 12h.  [delegation.token.expiry.time.ms]",
)
@click.option("--json", "as_json", is_flag=True, help="A JSON object of the token and when it ends.")
def renew(bootstrap: str, token_id: str, period: int | None, as_json: bool) -> None:
    """Have a token last longer, up to its latest time. Its owner may, and its renewers.

    \b
    Example:
      ottla token renew tPqzIbvsS3Wzq4_4LY8YLg --for 12h
    """

    async def action(cluster: "Cluster") -> int:
        found = await _found(cluster, token_id)
        return await renew_token(cluster, found.hmac, AS_THE_BROKER_SAYS if period is None else period)

    _tell(token_id, with_cluster(bootstrap, action), as_json=as_json)


@token.command("expire")
@bootstrap_option
@click.argument("token_id", metavar="TOKEN")
@click.option("--after", type=DurationText(), metavar="DURATION", help="Not at once, but after a time, as 5m.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object of the token and when it ends.")
def expire(bootstrap: str, token_id: str, after: int | None, as_json: bool) -> None:
    """End a token. Nobody logs in by it any more, and sessions that began with it end when they said they would.

    \b
    Example:
      ottla token expire tPqzIbvsS3Wzq4_4LY8YLg
    """

    async def action(cluster: "Cluster") -> int:
        return await expire_token(cluster, (await _found(cluster, token_id)).hmac, after)

    _tell(token_id, with_cluster(bootstrap, action), as_json=as_json)


async def _found(cluster: "Cluster", token_id: str) -> DelegationToken:
    """The token of an id: its secret, which the broker asks for, is nothing for a command line."""
    for each in await describe_tokens(cluster):
        if each.token_id == token_id:
            return each
    raise CommandError(
        f"there is no token {token_id!r} that you may see; `ottla token list` shows all", ExitCode.NOT_FOUND
    )


def _said(each: DelegationToken) -> dict[str, Any]:
    return {
        "token": each.token_id,
        "owner": each.owner,
        "renewers": list(each.renewers),
        "issued_ms": each.issued_ms,
        "expires_ms": each.expires_ms,
        "max_ms": each.max_ms,
    }


def _tell(token_id: str, expires_ms: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"token": token_id, "expires_ms": expires_ms})
    else:
        click.echo(f"{token_id} ends at {time_text(expires_ms)}")
