"""`ottla serve`: from a command line to a running broker, and to its end."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ottla
from ottla.metadata.store.embedded import EmbeddedStore
from ottla.native import LogIo
from ottla.network.address import Address
from ottla.network.config import NetworkConfig
from ottla.runtime import garbage
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.rng import SystemRng
from ottla.runtime.tasks import Tasks, run_main
from ottla.runtime.timer import Timer
from ottla.server.doors import Doors
from ottla.server.listeners import SocketListeners
from ottla.server.memory_figure import lines, memory_figure
from ottla.server.open_files import OpenFileShares, raise_open_files_limit
from ottla.server.options import ServeOptions
from ottla.server.server import FETCH_WATCHES_MAX, Server
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.endpoint import PLAINTEXT, Endpoint
from ottla.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

DEFAULT_DATA_DIR = Path("ottla-data")


def serve(options: ServeOptions, *, on_ready: Callable[[str], None] = print) -> None:
    """Run a broker until SIGTERM or SIGINT, then stop it cleanly.

    `on_ready` gets the one line that says where it listens and where its data lies. Raises InvalidSettingError,
    ListenError, StoreError and OSError when it cannot start; the message of each is one line that says what to do.
    """
    settings = BrokerSettings(_settings_of(options))
    shares = OpenFileShares.of(raise_open_files_limit())
    run_main(_run(settings, shares, [Path(path).absolute() for path in settings.data_directories], on_ready))


def check(options: ServeOptions) -> list[str]:
    """What a broker with these options may take, in lines for people; nothing is started or written.

    Raises InvalidSettingError as `serve` does.
    """
    settings = BrokerSettings(_settings_of(options))
    shares = OpenFileShares.of(raise_open_files_limit())
    config = NetworkConfig.from_settings(settings, shares.connections)
    return [
        *settings.warnings,
        "the settings are good; memory, if everybody means harm:",
        *lines(memory_figure(settings, config, FETCH_WATCHES_MAX)),
        f"open files: {config.max_connections} connections, {shares.read} segments read, {shares.written} written",
    ]


def _settings_of(options: ServeOptions) -> dict[str, str]:
    """The settings, with what the command line says in words of its own over them."""
    given = dict(options.settings)
    if options.data_dir is not None:
        given.pop("log.dir", None)
        given["log.dirs"] = str(options.data_dir)
    elif "log.dirs" not in given and "log.dir" not in given:
        given["log.dirs"] = str(DEFAULT_DATA_DIR)
    if options.kafka is not None:
        given["listeners"] = str(Endpoint(*options.kafka))
    if options.advertise is not None:
        name, is_named, _ = given.get("listeners", "").partition("://")
        given["advertised.listeners"] = str(Endpoint(*options.advertise, name.strip() if is_named else PLAINTEXT))
    return given


async def _run(
    settings: BrokerSettings, shares: OpenFileShares, data_dirs: Sequence[Path], on_ready: Callable[[str], None]
) -> None:
    data_dir = data_dirs[0]
    clock = SystemClock()
    begun_ms = clock.monotonic_ms()
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    for warning in settings.warnings:
        logger.warning("%s", warning)
    tasks = Tasks("ottla")
    doors = Doors(clock, SystemRng(), Timer(clock, loop.call_later), tasks, loop)
    logs = LogManager(
        data_dirs,
        disk=OsDisk(),
        clock=clock,
        timer=doors.timer,
        tasks=tasks,
        log_io=lambda: LogIo(open_files_max=max(1, shares.written // len(data_dirs))),
        open_files_max=shares.kept,
        read_files_max=shares.read,
    )
    try:
        report = await tasks.in_thread(logs.load)
        for line in report.lines():
            logger.warning("%s", line)
        listeners = SocketListeners(settings, doors, logs.cork, shares.connections)
        server = Server(settings, logs, doors, EmbeddedStore(data_dir), listeners)
    except BaseException:
        await tasks.close()
        raise
    try:
        await server.start()
        garbage.settle()
        took_ms = clock.monotonic_ms() - begun_ms
        on_ready(_ready_line(server.addresses, data_dir, took_ms))
        sys.stdout.flush()
        server.read_apis_later()
        await stop.wait()
        logger.info("stopping")
    finally:
        await server.stop()


def _ready_line(addresses: Mapping[str, Address], data_dir: Path, took_ms: int) -> str:
    if len(addresses) == 1:
        listening = " ".join(map(str, addresses.values()))
    else:
        listening = " and ".join(f"{address} ({name})" for name, address in addresses.items())
    return f"ottla {ottla.__version__} is ready: kafka {listening}, data {data_dir}, in {took_ms} ms"
