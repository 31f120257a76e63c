"""`ottla serve`: run a broker."""

import logging
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ottla.cli.failure import CommandError, MistakesError, explain
from ottla.cli.settings import parse_settings
from ottla.cli.settings_file import STDIN, SettingsFile, read_settings_file, with_places
from ottla.runtime.log_lines import JsonLines, TextLines

_CERTIFICATES = frozenset({"ssl.keystore.certificate.chain", "ssl.truststore.certificates"})
"""Settings that no answer shows, as with Kafka, and that need not be kept secret."""


class ListenAddress(click.ParamType[tuple[str, int]]):
    """`HOST:PORT`, `[::1]:9092`, `:9092` for all addresses of the machine, or a port alone for this machine only.

    A host alone has the usual port.
    """

    name = "HOST:PORT"

    def __init__(self, usual_port: int) -> None:
        self._usual_port = usual_port

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Read the text, or fail as a usage error."""
        from ottla.client.address import parse_address
        from ottla.client.errors import InvalidOptionError

        if isinstance(value, tuple):
            return value
        text = str(value).strip()
        try:
            host, port = parse_address(text, default_port=self._usual_port)
        except InvalidOptionError as error:
            self.fail(str(error), param, ctx)
        return ("", port) if text.startswith(":") else (host, port)


@click.command("serve")
@click.option(
    "--data", "data_dir", type=click.Path(file_okay=False, path_type=Path), help="The data directory.  [./ottla-data]"
)
@click.option(
    "--kafka",
    type=ListenAddress(9092),
    help="The address for Kafka clients; :PORT listens on all interfaces, PORT on 127.0.0.1.",
)
@click.option(
    "--advertise", type=ListenAddress(9092), help="The address that clients are sent to, when it differs from --kafka."
)
@click.option("--nsq", type=ListenAddress(4150), help="The address for NSQ clients, usually port 4150.  [none]")
@click.option("--nsq-http", type=ListenAddress(4151), help="The address of nsqd's HTTP API, usually port 4151.  [none]")
@click.option("--redis", type=ListenAddress(6379), help="The address for Redis clients, usually port 6379.  [none]")
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="A file of key=value lines; - for stdin."
)
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="A broker setting; repeatable.")
@click.option(
    "--metadata",
    metavar="STORE",
    help="The cluster's metadata store: embedded:DIR, or zookeeper://HOST:PORT,.../NODE.  [the data directory]",
)
@click.option("--brokers", metavar="N", type=click.IntRange(1, 32), help="Run N brokers in this process, for tests.")
@click.option("--processes", metavar="N", type=click.IntRange(1, 32), help="Run N brokers, each in its own process.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of log lines on stderr: text, or one JSON object per line.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="The minimum level to log; debug adds tracebacks.  [warning; in a cluster also changes of leaders]",
)
@click.option("--log-broker", is_flag=True, hidden=True, help="Say in each line of the log which broker wrote it.")
@click.option("--check", "check_only", is_flag=True, help="Check the settings, print the worst-case memory, and exit.")
def serve_command(
    data_dir: Path | None,
    kafka: tuple[str, int] | None,
    advertise: tuple[str, int] | None,
    nsq: tuple[str, int] | None,
    nsq_http: tuple[str, int] | None,
    redis: tuple[str, int] | None,
    config_file: Path | None,
    settings: tuple[str, ...],
    metadata: str | None,
    brokers: int | None,
    processes: int | None,
    log_format: str,
    log_level: str | None,
    log_broker: bool,
    check_only: bool,
) -> None:
    """Run a broker until Ctrl-C, SIGTERM or SIGHUP. It needs no setup, and prints a line when it is ready.

    Settings have Kafka's names. --set overrides the file. Brokers with the same --metadata form a cluster. With
    --brokers or --processes the first broker uses the data directory itself, the others use brokers/2, brokers/3
    in it and the next ports.

    \b
    Examples:
      ottla serve --data /var/lib/ottla --kafka :9092 --set log.retention.hours=24
      ottla serve --processes 3
      ottla serve --metadata zookeeper://a:2181,b:2181,c:2181/ottla --kafka :9092 --advertise host1:9092
    """
    lines = _log_to_stderr(log_format, log_level)

    def name_broker(broker_id: int) -> None:
        lines.broker_id = broker_id

    with _as_records(log_format):
        _serve(
            data_dir=data_dir,
            kafka=kafka,
            advertise=advertise,
            nsq=nsq,
            nsq_http=nsq_http,
            redis=redis,
            config_file=config_file,
            settings=settings,
            metadata=metadata,
            brokers=brokers,
            processes=processes,
            log_flags=("--log-format", log_format, *(["--log-level", log_level] if log_level else [])),
            check_only=check_only,
            on_numbered=name_broker if log_broker else None,
        )


def _serve(
    *,
    data_dir: Path | None,
    kafka: tuple[str, int] | None,
    advertise: tuple[str, int] | None,
    nsq: tuple[str, int] | None,
    nsq_http: tuple[str, int] | None,
    redis: tuple[str, int] | None,
    config_file: Path | None,
    settings: tuple[str, ...],
    metadata: str | None,
    brokers: int | None,
    processes: int | None,
    log_flags: tuple[str, ...],
    check_only: bool,
    on_numbered: Callable[[int], None] | None,
) -> None:
    if brokers is not None and processes is not None:
        raise click.UsageError("give either --brokers (all in one process) or --processes, not both")
    if advertise is not None and not advertise[0]:
        raise click.BadParameter("clients need a host to connect to: write HOST:PORT", param_hint="--advertise")
    file = SettingsFile({}, []) if config_file is None else read_settings_file(config_file)
    if config_file is not None and config_file != STDIN:
        _warn_of_open_secrets(config_file, file)
    of_command = parse_settings(settings)
    given = {name: each.value for name, each in file.settings.items()} | of_command
    places = {name: each.place for name, each in file.settings.items()} | dict.fromkeys(of_command, "--set")
    for name, flag, value in (
        ("log.dirs", "--data", data_dir),
        ("listeners", "--kafka", kafka),
        ("advertised.listeners", "--advertise", advertise),
        ("nsq.listener", "--nsq", nsq),
        ("nsq.http.listener", "--nsq-http", nsq_http),
        ("redis.listener", "--redis", redis),
    ):
        if value is not None:
            places[name] = flag

    from ottla.metadata.store.interface import StoreError
    from ottla.server import ServeOptions, check, serve
    from ottla.settings.definition import InvalidSettingError

    options = ServeOptions(
        data_dir=data_dir,
        kafka=kafka,
        advertise=advertise,
        nsq=nsq,
        nsq_http=nsq_http,
        redis=redis,
        settings=given,
        metadata=metadata,
        brokers=brokers or 1,
        processes=processes or 1,
        log_flags=log_flags,
    )
    try:
        if check_only or file.mistakes:
            lines = check(options)
            _raise_any(file.mistakes)
            click.echo("\n".join(lines))
        else:
            serve(options, on_ready=click.echo, on_numbered=on_numbered)
    except InvalidSettingError as error:
        raise MistakesError([*file.mistakes, *with_places(error, places)]) from error
    except StoreError as error:
        raise CommandError(str(error)) from error


def _warn_of_open_secrets(path: Path, file: SettingsFile) -> None:
    """Say that everybody on the host can read a file with secrets."""
    if not path.stat().st_mode & stat.S_IROTH:
        return
    from ottla.settings.broker_table import BROKER_SETTINGS

    secrets = [name for name, each in BROKER_SETTINGS.items() if each.is_secret and name not in _CERTIFICATES]
    held = [name for name in file.settings if any(name == each or name.endswith(f".{each}") for each in secrets)]
    if held:
        logging.getLogger(__name__).warning(
            "%s has %s, and everybody on this host can read it: run chmod 600 %s", path, ", ".join(sorted(held)), path
        )


def _raise_any(mistakes: list[str]) -> None:
    if mistakes:
        raise MistakesError(mistakes)


@contextmanager
def _as_records(log_format: str) -> Iterator[None]:
    """Have an error that ends the command be a record of the log where programs read that, not a line for people."""
    try:
        yield
    except Exception as error:
        if log_format != "json":
            raise
        told, code = explain(error)
        for line in told:
            logging.getLogger(__name__).error("%s", line)
        raise SystemExit(int(code)) from error


def _log_to_stderr(log_format: str, log_level: str | None) -> TextLines | JsonLines:
    """Have the log written as asked. With a level nothing below it is shown, whoever wants to say it."""
    level = logging.getLogger().level if log_level is None else logging.getLevelNamesMapping()[log_level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.NOTSET if log_level is None else level)
    lines = JsonLines() if log_format == "json" else TextLines(tracebacks=level <= logging.DEBUG)
    handler.setFormatter(lines)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    return lines
