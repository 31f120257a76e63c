"""`ottla lookupd`: a lookup service of NSQ, and its end."""

import asyncio
import sys
from collections.abc import Callable

import ottla
from ottla.gateways.nsq.lookup.service import LookupService
from ottla.network.config import NetworkConfig
from ottla.network.listener import Listener
from ottla.runtime.clock import SystemClock
from ottla.runtime.environment import Environment
from ottla.runtime.rng import SystemRng
from ottla.runtime.tasks import Tasks, run_main
from ottla.runtime.timer import Timer
from ottla.server.open_files import OpenFileShares, raise_open_files_limit
from ottla.server.options import Address
from ottla.server.stop_signals import stop_signals
from ottla.settings.broker_settings import BrokerSettings


def lookupd(tcp: Address, http: Address, broadcast_address: str, on_ready: Callable[[str], None]) -> None:
    """Run a lookup service until SIGTERM, SIGINT or SIGHUP. Raises ListenError.

    `tcp` is where servers register, `http` where clients ask.
    """
    run_main(_run(tcp, http, broadcast_address, on_ready))


async def _run(tcp: Address, http: Address, broadcast_address: str, on_ready: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for signal_number in stop_signals():
        loop.add_signal_handler(signal_number, stop.set)
    clock, tasks = SystemClock(), Tasks("ottla-lookupd")
    environment = Environment(clock, SystemRng(), Timer(clock, loop.call_later), tasks, loop.call_soon)
    service = LookupService(environment, broadcast_address)
    connections = OpenFileShares.of(raise_open_files_limit()).connections
    config = NetworkConfig.from_settings(BrokerSettings({}), connections)
    listeners = [
        Listener(*where, protocol, config=config, clock=clock, timer=environment.timer, name=name)
        for name, where, protocol in (("TCP", tcp, service.tcp_protocol()), ("HTTP", http, service.http_protocol()))
    ]
    try:
        for listener in listeners:
            await listener.bind()
        service.tcp_port, service.http_port = (listener.address.port for listener in listeners)
        for listener in listeners:
            await listener.start()
        where = ", ".join(f"{listener.name.lower()} {listener.address}" for listener in listeners)
        on_ready(f"ottla {ottla.__version__} lookupd is ready: {where}")
        sys.stdout.flush()
        await stop.wait()
    finally:
        for listener in listeners:
            await listener.close(0)
        await tasks.close()
