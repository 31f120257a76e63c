"""What all commands that talk to a broker share: where it is, and how a command runs against it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.client_properties import Kind, bootstrap_of, options_of, remember_file, remember_settings
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.waiting import saying_what_is_waited_for
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.runtime.tasks import run_main

if TYPE_CHECKING:
    from ottla.client.consuming.consumer import Consumer
    from ottla.client.producing.producer import Producer

T = TypeVar("T")
C = TypeVar("C", "Consumer", "Producer")
F = TypeVar("F", bound=Callable[..., Any])

BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
CLIENT_ID = "ottla-cli"
_MADE = "ottla.client_options"
"""Where a command keeps its options: properties are read once, and it may have several clients."""


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
        help="Bootstrap brokers.",
    )
    return bootstrap(setting(file(command)))


def client_options(bootstrap: str, **settings: int | str) -> "ClientOptions":
    """Options of a client of this command line: what its properties say, over `settings`. Raises InvalidOptionError."""
    ctx = click.get_current_context(silent=True)
    made: dict[object, ClientOptions] = {} if ctx is None else ctx.meta.setdefault(_MADE, {})
    key = (bootstrap, *sorted(settings.items()))
    if key not in made:
        where = bootstrap_of(ctx, bootstrap)
        made[key] = ClientOptions.of(where, **{"client_id": CLIENT_ID, **settings, **options_of(Kind.ANY)}).within()
    return made[key]


@asynccontextmanager
async def connected(bootstrap: str, make: "Callable[[ClientOptions], C]") -> "AsyncIterator[C]":
    """A consumer or a producer, closed at the end. What it waits for is told; a wait ends after `api_timeout_ms`."""
    options = client_options(bootstrap)
    client = make(options)
    async with saying_what_is_waited_for(client.troubles, client.io, options.api_timeout_ms), client:
        yield client


def with_cluster(bootstrap: str, action: "Callable[[Cluster], Awaitable[T]]", **settings: int) -> T:
    """Connect, run `action`, and end the connections. `settings` are client options where the user gives none."""

    async def connected() -> T:
        io = AsyncioIo()
        options = client_options(bootstrap, **settings)
        cluster = Cluster(options, io)
        try:
            async with saying_what_is_waited_for(cluster.troubles, cluster.io):
                await cluster.connect()
                return await action(cluster)
        finally:
            cluster.close()

    return run_until_done(connected())


def run_until_done(main: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine. Ctrl-C and SIGTERM cancel it, so that it ends what it has begun; a second Ctrl-C
    ends it at once.
    """
    ended_by: int | None = None
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    async def guarded() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def end(signal_number: int) -> None:
            nonlocal ended_by
            ended_by = ended_by or signal_number
            loop.remove_signal_handler(signal.SIGINT)
            task.cancel()

        loop.add_signal_handler(signal.SIGTERM, end, signal.SIGTERM)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as that of a shell's background job is
            # asyncio would cancel it in the middle of whatever runs, as of a callback that is to tell it something.
            loop.add_signal_handler(signal.SIGINT, end, signal.SIGINT)
        return await main

    try:
        return run_main(guarded())
    except asyncio.CancelledError:
        if ended_by == signal.SIGTERM:
            raise CommandError("ended by SIGTERM", ExitCode.TERMINATED) from None
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():  # a loop that is closed would go on to take signals, and do nothing
            if handler is not None:
                signal.signal(number, handler)
