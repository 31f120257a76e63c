"""`ottla serve`: from a command line to a running broker, and to its end."""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ottla.network.config import NetworkConfig
from ottla.runtime import garbage
from ottla.runtime.clock import SystemClock
from ottla.runtime.tasks import Tasks, run_main
from ottla.server.local_broker import LocalBroker, cluster_line
from ottla.server.open_files import OpenFileShares, raise_open_files_limit
from ottla.server.options import ServeOptions
from ottla.server.server import FETCH_WATCHES_MAX
from ottla.server.stop_signals import stop_signals
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.endpoint import PLAINTEXT, Endpoint

logger = logging.getLogger(__name__)

DEFAULT_DATA_DIR = Path("ottla-data")


def serve(
    options: ServeOptions,
    *,
    on_ready: Callable[[str], None] = print,
    on_numbered: Callable[[int], None] | None = None,
) -> None:
    """Run a broker, or several, until SIGTERM, SIGINT or SIGHUP, then stop cleanly.

    `on_ready` gets the one line that says where it listens and where its data lies; where there are several, one for
    each and one for all. `on_numbered` gets the id of a broker before it starts. Raises
    InvalidSettingError, ListenError, StoreError and OSError when it cannot start; the message of each is one line that
    says what to do.
    """
    given, metadata = _settings_of(options), options.metadata
    _require_distinct(options, given)
    if options.processes > 1:
        from ottla.server.processes import run_processes

        run_main(run_processes(given, metadata, options.processes, on_ready, options.log_flags))
        return
    shares = OpenFileShares.of(raise_open_files_limit() // options.brokers)
    of_each: Sequence[Mapping[str, str]] = [given]
    if options.brokers > 1:
        from ottla.server.local_cluster import broker_settings, shared_location

        of_each, metadata = broker_settings(given, options.brokers), shared_location(given, metadata)
    run_main(_run(of_each, metadata, shares, on_ready, on_numbered))


def check(options: ServeOptions) -> list[str]:
    """What a broker with these options may take, in lines for people; nothing is started or written.

    Raises InvalidSettingError as `serve` does.
    """
    from ottla.server.listener_tls import require_usable
    from ottla.server.memory_figure import lines, memory_figure
    from ottla.server.other_gateways import require_usable_gateways

    given = _settings_of(options)
    settings = BrokerSettings(given)
    require_usable(settings)
    require_usable_gateways(settings)
    _require_distinct(options, given)
    shares = OpenFileShares.of(raise_open_files_limit())
    config = NetworkConfig.from_settings(settings, shares.connections)
    return [
        *settings.warnings,
        "the settings are valid; worst-case memory:",
        *lines(memory_figure(settings, config, FETCH_WATCHES_MAX)),
        f"open files: {config.max_connections} connections, {shares.read} segments read, {shares.written} written",
    ]


def _require_distinct(options: ServeOptions, given: Mapping[str, str]) -> None:
    """Refuse listeners at one address, of one broker or of several. Raises InvalidSettingError."""
    from ottla.server.listener_addresses import require_distinct

    of_each: Sequence[Mapping[str, str]] = [given]
    if (count := max(options.brokers, options.processes)) > 1:
        from ottla.server.local_cluster import broker_settings

        of_each = broker_settings(given, count)
    require_distinct([BrokerSettings(each) for each in of_each])


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
    if options.nsq is not None:
        given["nsq.listener"] = str(Endpoint(*options.nsq)).partition("://")[2]
    if options.nsq_http is not None:
        given["nsq.http.listener"] = str(Endpoint(*options.nsq_http)).partition("://")[2]
    if options.redis is not None:
        given["redis.listener"] = str(Endpoint(*options.redis)).partition("://")[2]
    if options.advertise is not None:
        name, is_named, _ = given.get("listeners", "").partition("://")
        given["advertised.listeners"] = str(Endpoint(*options.advertise, name.strip() if is_named else PLAINTEXT))
    return given


async def _run(
    given: Sequence[Mapping[str, str]],
    metadata: str | None,
    shares: OpenFileShares,
    on_ready: Callable[[str], None],
    on_numbered: Callable[[int], None] | None,
) -> None:
    """Run a broker for each of the settings, from the first to the last, until a signal says stop."""
    clock = SystemClock()
    begun_ms = clock.monotonic_ms()
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signal_number in stop_signals():
        loop.add_signal_handler(signal_number, stop.set)
    brokers: list[LocalBroker] = []
    try:
        for settings in given:
            started = LocalBroker.start(settings, shares, clock, metadata=metadata, stop=stop, on_numbered=on_numbered)
            brokers.append(await started)
            if stop.is_set():
                return
            if len(given) == 1:
                garbage.settle()
            on_ready(brokers[-1].ready_line)
        if len(given) > 1:
            garbage.settle()
            on_ready(cluster_line([broker.server.address for broker in brokers], clock.monotonic_ms() - begun_ms))
        sys.stdout.flush()
        brokers[0].server.module_preloader()
        if metadata is None and await _first_of(stop, brokers[0].others_came):
            logger.warning("another broker has joined; restarting as a member of the cluster")
            brokers[0] = await brokers[0].join()
            brokers[0].server.module_preloader()
        await stop.wait()
        logger.info("stopping")
    finally:
        results = await asyncio.gather(*(broker.stop() for broker in brokers), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result


async def _first_of(stop: asyncio.Event, others_came: asyncio.Event) -> bool:
    """Wait for one of them; whether others have come, and this broker is not to stop."""
    waiting = Tasks("ottla-wait")
    both = [waiting.spawn(event.wait(), "an event") for event in (stop, others_came)]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    await waiting.close()
    return not stop.is_set()
