"""Ports for servers that are told where to listen before they do."""

import os
import random
import socket
from pathlib import Path

_OF_CLIENTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LINUX_OF_CLIENTS = (32_768, 60_999)
_FIRST, _END = 12_000, 65_536
_ENOUGH = 2_000
"""Among so many, two who choose at the same time hardly choose the same."""
_WORKERS = 16
"""Processes of one test run that choose beside each other, each among ports of its own."""

_given: set[int] = set()
"""What this process was given is not given again: its server may be away for a while."""


def ports_of_clients() -> tuple[int, int]:
    """The first and the last port that the kernel gives to those who ask for any."""
    try:
        first, last = _OF_CLIENTS.read_text().split()
    except OSError:
        return _LINUX_OF_CLIENTS
    return int(first), int(last)


def ports_of_servers(first_of_clients: int, last_of_clients: int) -> range:
    """Ports outside that range where there are enough of them, below it rather than above; any other port if not."""
    for ports in (range(_FIRST, first_of_clients), range(max(_FIRST, last_of_clients + 1), _END)):
        if len(ports) >= _ENOUGH:
            return ports
    return range(_FIRST, _END)


def ports_of_worker(ports: range, worker: str) -> range:
    """The part of them in which a process of a test run chooses, `gw0` being the first; all of them outside of one."""
    number, size = worker.removeprefix("gw"), len(ports) // _WORKERS
    if not number.isdecimal():
        return ports
    first = int(number) % _WORKERS * size
    return ports[first : first + size]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now and that were not given before, none of those the kernel gives to clients.

    A client that tries such a port again and again before its server listens is at some time given that very port as
    its own, is then connected to itself, and the server cannot have the port any more.
    """
    _choice(count)  # nothing that is given here is forgotten before the last one
    return [port for _ in range(count) for port in adjacent_free_ports(1)]


def adjacent_free_ports(count: int) -> list[int]:
    """`free_ports` that follow one another, as the brokers have them that one `ottla serve` starts."""
    choice = _choice(count)
    chance = random.SystemRandom()  # two processes that were seeded alike must not choose alike
    while True:
        at = chance.randrange(len(choice) - count + 1)
        ports = list(choice[at : at + count])
        if _given.isdisjoint(ports) and all(map(_is_free, ports)):
            _given.update(ports)
            return ports


def _choice(count: int) -> range:
    """The ports of this process; what was given is forgotten where it leaves too few for so many more."""
    choice = ports_of_worker(ports_of_servers(*ports_of_clients()), os.environ.get("PYTEST_XDIST_WORKER", ""))
    if len(_given) + count > len(choice) // 2:
        _given.clear()
    return choice


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
