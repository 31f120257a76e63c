"""What all commands that talk to a broker share: where it is, and how a command runs against it."""

import signal
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.client_properties import Kind, bootstrap_of, options_of, remember_file, remember_settings
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
    """The options that say where the broker is and how the client is set up, named as by Kafka's tools and kcat."""
    taken = {name for each in getattr(command, "__click_params__", ()) for name in each.opts}
    file_names = ["--command-config"] if "--config" in taken else ["--command-config", "--config"]
    file = click.option(
        *file_names,
        metavar="FILE",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=remember_file,
        help="Client properties, as Kafka's tools read them.",
    )
    setting = click.option(
        "-X",
        "client_settings",
        metavar="KEY=VALUE",
        multiple=True,
        expose_value=False,
        callback=remember_settings,
        help="A client property, such as request.timeout.ms=5000; repeatable.",
    )
    bootstrap = click.option(
        *(each for each in ("-b", "--bootstrap", "--bootstrap-server", "--brokers") if each not in taken),
        "bootstrap",
        metavar="HOST:PORT[,...]",
        envvar=BOOTSTRAP_VARIABLE,
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        show_envvar=True,
        help="Brokers to begin with.",
    )
    return bootstrap(setting(file(command)))


def client_options(bootstrap: str, **settings: int | str) -> "ClientOptions":
    """Options of a client of this command line: what its properties say, over `settings`. Raises InvalidOptionError."""
    from ottla.client.options import ClientOptions

    where = bootstrap_of(click.get_current_context(silent=True), bootstrap)
    return ClientOptions.of(where, **{"client_id": CLIENT_ID, **settings, **options_of(Kind.ANY)})


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
