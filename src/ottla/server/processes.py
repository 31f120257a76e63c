"""Several broker processes of one host, started together and stopped together.

parent --- starts, passes SIGTERM, SIGINT and SIGHUP on ---> ottla serve (DIR)
                                                     ottla serve (DIR/brokers/2) ...

Each is what `ottla serve` runs, and outlives a parent that is killed. One that dies is said and left: whoever wants it
again starts it as it was started, by its own command line, or stops them all and starts all. The parent ends when all
have ended.
"""

import asyncio
import logging
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ottla.metadata.store.embedded import FILE_NAME
from ottla.model.errors import InvalidInputError
from ottla.network.address import Address
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import PRIVATE, OsDisk
from ottla.runtime.tasks import Tasks
from ottla.server.local_broker import cluster_line
from ottla.server.local_cluster import broker_settings, shared_location
from ottla.server.node_id import kept_node_id
from ottla.server.stop_signals import stop_signals
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_directory import unusable

logger = logging.getLogger(__name__)

_SPECIAL = re.compile(r"[^\w.\-/\U00000080-\U0010ffff]")
_READY = re.compile(r"is ready: kafka (\S+):(\d+)")


class ProcessesEndedError(InvalidInputError):
    """Not all broker processes ended as they should."""


async def run_processes(
    given: Mapping[str, str],
    metadata: str | None,
    count: int,
    on_ready: Callable[[str], None],
    log_flags: Sequence[str] = (),
) -> None:
    """Start `count` broker processes side by side, and wait for the end of all.

    Raises InvalidSettingError before anything is started, ProcessesEndedError at the end when one failed.
    """
    clock = SystemClock()
    begun_ms = clock.monotonic_ms()
    location = shared_location(given, metadata)
    of_each = _numbered(broker_settings(given, count), metadata)
    data_directory = BrokerSettings(given).data_directory
    try:
        OsDisk().make_dir(data_directory, mode=PRIVATE)
    except OSError as error:
        raise unusable(data_directory, error) from error
    tasks = Tasks("ottla-processes")
    processes = _Processes(on_ready, log_flags)
    loop = asyncio.get_running_loop()
    for signal_number in stop_signals():
        loop.add_signal_handler(signal_number, processes.stop)
    try:
        ends: list[asyncio.Task[None]] = []

        async def begin(numbers: range) -> list[Address | None]:
            starting = (processes.start(number, of_each[number - 1], location) for number in numbers)
            found = await asyncio.gather(*starting)
            ends.extend(tasks.spawn(processes.wait(number), f"broker process {number}") for number in numbers)
            if None in found:
                processes.stop()
            return found

        addresses = await begin(range(1, 2)) if _must_be_first(of_each) else []
        if not processes.is_stopping:
            addresses += await begin(range(len(addresses) + 1, count + 1))
        listening = [address for address in addresses if address is not None]
        if len(listening) == count:
            on_ready(cluster_line(listening, clock.monotonic_ms() - begun_ms))
            sys.stdout.flush()
        await asyncio.gather(*ends)
    finally:
        processes.stop()
        await tasks.close()
    if processes.failed:
        raise ProcessesEndedError(f"{len(processes.failed)} of {count} brokers failed: {', '.join(processes.failed)}")


def _numbered(of_each: list[dict[str, str]], metadata: str | None) -> list[dict[str, str]]:
    """Brokers of a cluster that is new, and theirs alone, are numbered as they are listed."""
    is_new = metadata is None and not OsDisk().exists(f"{BrokerSettings(of_each[0]).data_directory}/{FILE_NAME}")
    if not is_new:
        return of_each
    first = BrokerSettings(of_each[0]).node_id
    return [{**settings, "node.id": str(first + index)} for index, settings in enumerate(of_each)]


def _must_be_first(of_each: Sequence[Mapping[str, str]]) -> bool:
    """Whether the first broker is to be there before the others choose their numbers, so that it has the lowest."""
    settings = [BrokerSettings(each) for each in of_each]
    return not all(
        each.is_set("node.id") or kept_node_id(Path(each.data_directory), OsDisk()) is not None for each in settings
    )


class _Processes:
    """Belongs to the event loop."""

    def __init__(self, on_ready: Callable[[str], None], log_flags: Sequence[str]) -> None:
        self._on_ready = on_ready
        self._log_flags = log_flags
        self._running: dict[int, Process] = {}
        self.is_stopping = False
        """Whether all are to end."""
        self.failed: list[str] = []
        """What became of those that did not end cleanly."""

    async def start(self, number: int, settings: Mapping[str, str], location: str) -> Address | None:
        """Start a broker, and wait until it is ready; None when it ends first, or all are to stop."""
        if self.is_stopping:
            return None
        command = [sys.executable, "-m", "ottla.cli", "serve", "--metadata", location, "--config", "-", "--log-broker"]
        command += self._log_flags
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        self._running[number] = process
        self._pass_on(process)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(_properties(settings))
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            logger.debug("broker %d ended before it read its settings", number)
        process.stdin.close()
        line = (await process.stdout.readline()).decode(errors="replace").rstrip("\n")
        ready = _READY.search(line)
        if line:
            self._on_ready(line)
        return None if ready is None else Address(ready[1], int(ready[2]))

    async def wait(self, number: int) -> None:
        """Wait until a broker has ended, and say so unless it was to end."""
        process = self._running[number]
        assert process.stdout is not None
        while await process.stdout.read(1 << 16):
            pass
        code = await process.wait()
        del self._running[number]
        if code == 0 and self.is_stopping:
            return
        ended = f"broker {number} (process {process.pid}) ended by {_reason(code)}"
        if code != 0:
            self.failed.append(ended)
        logger.warning("%s; %d still running", ended, len(self._running))

    def stop(self) -> None:
        """Have all stop that still run."""
        self.is_stopping = True
        for process in tuple(self._running.values()):
            self._pass_on(process)

    def _pass_on(self, process: Process) -> None:
        if self.is_stopping and process.returncode is None:
            process.send_signal(signal.SIGTERM)


def _reason(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"itself with exit code {code}"


def _properties(settings: Mapping[str, str]) -> bytes:
    """Settings as a file of `ottla.settings.properties`: whatever has a meaning there is escaped."""
    return "".join(f"{_escaped(name)}={_escaped(text)}\n" for name, text in settings.items()).encode()


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
