"""`ottla serve`: run a broker."""

from pathlib import Path

import click

from ottla.cli.failure import CommandError
from ottla.cli.settings import parse_settings


class ListenAddress(click.ParamType[tuple[str, int]]):
    """`HOST:PORT`, `[::1]:9092`, `:9092` for all addresses of the machine, or a port alone for this machine only."""

    name = "HOST:PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Read the text, or fail as a usage error."""
        from ottla.client.address import parse_address
        from ottla.client.errors import InvalidOptionError

        if isinstance(value, tuple):
            return value
        text = str(value).strip()
        try:
            host, port = parse_address(text)
        except InvalidOptionError as error:
            self.fail(str(error), param, ctx)
        return ("", port) if text.startswith(":") else (host, port)


@click.command("serve")
@click.option(
    "--data", "data_dir", type=click.Path(file_okay=False, path_type=Path), help="Where the data lies.  [./ottla-data]"
)
@click.option(
    "--kafka", type=ListenAddress(), help="Where Kafka clients connect; :PORT is all addresses, PORT is local."
)
@click.option("--advertise", type=ListenAddress(), help="What clients are told to connect to, if not where they came.")
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="A file of settings, key=value lines; - for stdin."
)
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="A broker setting; repeatable.")
@click.option(
    "--metadata",
    metavar="STORE",
    help="Where the cluster's metadata is: embedded:DIR, or zookeeper://HOST:PORT,.../NODE.  [the data directory]",
)
@click.option("--brokers", metavar="N", type=click.IntRange(1, 32), help="Run N brokers in this process, for tests.")
@click.option("--processes", metavar="N", type=click.IntRange(1, 32), help="Run N brokers, each in its own process.")
@click.option(
    "--check", "check_only", is_flag=True, help="Check the settings, say how much memory they allow, and end."
)
def serve_command(
    data_dir: Path | None,
    kafka: tuple[str, int] | None,
    advertise: tuple[str, int] | None,
    config_file: Path | None,
    settings: tuple[str, ...],
    metadata: str | None,
    brokers: int | None,
    processes: int | None,
    check_only: bool,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM. It needs nothing set up, and says when it is ready.

    Settings have Kafka's names. Those of --set stand over those of the file. Brokers with the same --metadata are a
    cluster. With --brokers or --processes the first has the data directory, the others brokers/2, brokers/3 in it and
    the ports that follow.

    \b
    Examples:
      ottla serve --data /var/lib/ottla --kafka :9092 --set log.retention.hours=24
      ottla serve --processes 3
      ottla serve --metadata zookeeper://a:2181,b:2181,c:2181/ottla --kafka :9092 --advertise host1:9092
    """
    if brokers is not None and processes is not None:
        raise click.UsageError("give --brokers, which run in one process, or --processes, not both")
    given = _read(config_file) if config_file is not None else {}
    given |= parse_settings(settings)
    if advertise is not None and not advertise[0]:
        raise click.BadParameter("clients need a host to connect to: write HOST:PORT", param_hint="--advertise")

    from ottla.metadata.store.interface import StoreError
    from ottla.server import ServeOptions, check, serve

    options = ServeOptions(
        data_dir=data_dir,
        kafka=kafka,
        advertise=advertise,
        settings=given,
        metadata=metadata,
        brokers=brokers or 1,
        processes=processes or 1,
    )
    if check_only:
        click.echo("\n".join(check(options)))
        return
    try:
        serve(options, on_ready=click.echo)
    except StoreError as error:
        raise CommandError(str(error)) from error


def _read(path: Path) -> dict[str, str]:
    from ottla.model.errors import InvalidInputError
    from ottla.settings.properties import parse_properties

    try:
        if path == Path("-"):
            import sys

            return parse_properties(sys.stdin.buffer.read().decode())
        return parse_properties(path.read_text(encoding="utf-8"))
    except (InvalidInputError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from error
