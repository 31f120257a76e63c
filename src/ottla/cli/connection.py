"""What all commands that talk to a broker share: where it is, and how a command runs against it."""

import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.options import ClientOptions

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
CLIENT_ID = "ottla-cli"


def bootstrap_option(command: F) -> F:
    """The option that says where the broker is, under the names of Kafka's tools and kcat as well."""
    return click.option(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        "--brokers",
        "bootstrap",
        metavar="HOST:PORT[,...]",
        envvar=BOOTSTRAP_VARIABLE,
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        show_envvar=True,
        help="Brokers to begin with.",
    )(command)


def client_options(bootstrap: str, **settings: int | str) -> "ClientOptions":
    """Options of a client of this command line."""
    from ottla.client.options import ClientOptions

    return ClientOptions.of(bootstrap, client_id=CLIENT_ID, **settings)


def with_cluster(bootstrap: str, action: "Callable[[Cluster], Awaitable[T]]") -> T:
    """Connect, run `action`, and end the connections."""
    from ottla.client.asyncio_io import AsyncioIo
    from ottla.client.cluster import Cluster

    async def connected() -> T:
        cluster = Cluster(client_options(bootstrap), AsyncioIo())
        try:
            await cluster.connect()
            return await action(cluster)
        finally:
            cluster.close()

    return run_until_done(connected())


def run_until_done(main: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine. Ctrl-C and SIGTERM cancel it, so that it ends what it has begun."""
    import asyncio

    from ottla.runtime.tasks import run_main

    terminated = False

    async def guarded() -> T:
        task = asyncio.current_task()
        assert task is not None

        def terminate() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        return await main

    try:
        return run_main(guarded())
    except asyncio.CancelledError:
        if terminated:
            raise CommandError("ended by SIGTERM", ExitCode.TERMINATED) from None
        raise KeyboardInterrupt from None
