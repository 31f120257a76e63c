"""`ottla user`: who logs in by SCRAM, and their passwords."""

import os
from typing import TYPE_CHECKING, Final, TextIO

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.client.admin.scram_users import delete_scram_credentials, describe_scram_users, set_scram_credential
from ottla.model.sasl import SCRAM_SHA_256, SCRAM_SHA_512

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster

PASSWORD_VARIABLE: Final = "OTTLA_USER_PASSWORD"  # noqa: S105 (the name of a variable)
_MECHANISMS: Final = (SCRAM_SHA_512, SCRAM_SHA_256)
_ITERATIONS: Final = 4_096


@click.group()
def user() -> None:
    """Show and change users that log in by SCRAM."""


_mechanism = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(_MECHANISMS, case_sensitive=False),
    multiple=True,
    help="By which mechanism; repeatable.  [SCRAM-SHA-512]",
)
_password = click.option(
    "--password-file",
    metavar="FILE",
    type=click.File(),
    help=f"Read the password from the first line of a file, - for standard input; else {PASSWORD_VARIABLE} has it, or "
    "it is asked for.",
)
_iterations = click.option(
    "--iterations", type=click.IntRange(4_096, 16_384), default=_ITERATIONS, show_default=True, help="PBKDF2 rounds."
)


@user.command("list")
@bootstrap_option
@click.option("--json", "as_json", is_flag=True, help="A JSON array of users.")
def list_users(bootstrap: str, as_json: bool) -> None:
    """List the users.

    \b
    Example:
      ottla user list
    """

    async def action(cluster: "Cluster") -> dict[str, dict[str, int]]:
        return await describe_scram_users(cluster)

    found = sorted(with_cluster(bootstrap, action).items())
    if as_json:
        print_json([{"user": name, "mechanisms": mechanisms} for name, mechanisms in found])
        return
    rows = [(name, each, iterations) for name, of_user in found for each, iterations in sorted(of_user.items())]
    print_table(["USER", "MECHANISM", "ITERATIONS"], rows, right=["ITERATIONS"])


@user.command("add")
@bootstrap_option
@click.argument("name")
@_mechanism
@_password
@_iterations
@click.option("--json", "as_json", is_flag=True, help="A JSON object of the user.")
def add_user(
    bootstrap: str,
    name: str,
    mechanisms: tuple[str, ...],
    password_file: TextIO | None,
    iterations: int,
    as_json: bool,
) -> None:
    """Add a user, who may log in at once. What it may do is for ACLs to say.

    \b
    Examples:
      ottla user add anna
      ottla user add etl --password-file etl.password
    """
    _set(bootstrap, name, mechanisms, password_file, iterations, is_new=True, as_json=as_json)


@user.command("set")
@bootstrap_option
@click.argument("name")
@_mechanism
@_password
@_iterations
@click.option("--json", "as_json", is_flag=True, help="A JSON object of the user.")
def set_user(
    bootstrap: str,
    name: str,
    mechanisms: tuple[str, ...],
    password_file: TextIO | None,
    iterations: int,
    as_json: bool,
) -> None:
    """Give a user another password. Connections that are there stay.

    \b
    Example:
      ottla user set anna
    """
    _set(bootstrap, name, mechanisms, password_file, iterations, is_new=False, as_json=as_json)


@user.command("remove")
@bootstrap_option
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="A JSON object of the user.")
def remove_user(bootstrap: str, name: str, as_json: bool) -> None:
    """Remove a user, who can log in no more. Its ACLs stay.

    \b
    Example:
      ottla user remove anna
    """

    async def action(cluster: "Cluster") -> None:
        present = (await describe_scram_users(cluster)).get(name)
        if present is None:
            raise CommandError(f"there is no user {name!r}; `ottla user list` shows all", ExitCode.NOT_FOUND)
        await delete_scram_credentials(cluster, name, sorted(present))

    with_cluster(bootstrap, action)
    _tell(name, "removed", as_json=as_json)


def _set(
    bootstrap: str,
    name: str,
    mechanisms: tuple[str, ...],
    password_file: TextIO | None,
    iterations: int,
    *,
    is_new: bool,
    as_json: bool,
) -> None:
    password = _password_of(name, password_file)

    async def action(cluster: "Cluster") -> None:
        exists = name in await describe_scram_users(cluster)
        if exists and is_new:
            raise CommandError(f"there is a user {name!r} already; `ottla user set {name}` gives it another password")
        if not exists and not is_new:
            raise CommandError(f"there is no user {name!r}; `ottla user add {name}` adds it", ExitCode.NOT_FOUND)
        for mechanism in dict.fromkeys(map(str.upper, mechanisms or (SCRAM_SHA_512,))):
            await set_scram_credential(cluster, name, mechanism, password, iterations)

    with_cluster(bootstrap, action)
    _tell(name, "added" if is_new else "changed", as_json=as_json)


def _password_of(name: str, file: TextIO | None) -> str:
    """The password: never an argument, which everybody on the machine could read."""
    if file is not None:
        password = file.readline().rstrip("\r\n")
    else:
        password = os.environ.get(PASSWORD_VARIABLE) or click.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True
        )
    if not password:
        raise click.UsageError("the password is empty")
    return password


def _tell(name: str, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"user": name, what: True})
    else:
        click.echo(f"{what} {name}")
