"""A network of their own for the brokers of a chaos cluster, some of whose ways can be cut.

    this machine, .254 ---- bridge ----+---- namespace 1, .1: broker 1
    clients, ZooKeeper                 +---- namespace 2, .2: broker 2
                                       +---- namespace 3, .3: broker 3

What is cut is dropped in the broker's namespace, as on a way that is broken: nobody is told. Needs root on Linux, with
`ip` (iproute2), `nsenter` (util-linux) and `nft` (nftables, installed where it is missing).
"""

import os
import shutil
import subprocess
from collections.abc import Iterable

TABLE = "chaos"


class BrokerNetworkError(Exception):
    """This machine cannot have such a network; the message says why."""


def why_not() -> str | None:
    """Why there can be no namespaces here; None when there can. Installs nftables when that is all that is missing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "nsenter"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    if shutil.which("nft") is None and not _install_nftables():
        return "there is no nft (Debian: apt-get install nftables)"
    try:
        _run("ip", "netns", "add", "ottla-probe")
        try:
            _run("ip", "netns", "exec", "ottla-probe", "nft", "add", "table", "ip", TABLE)
        finally:
            _run("ip", "netns", "del", "ottla-probe")
    except BrokerNetworkError as error:
        return str(error)
    return None


class BrokerNetwork:
    """Namespaces for brokers 1 to `count`, between `__enter__` and `__exit__`."""

    def __init__(self, count: int) -> None:
        self._number = os.getpid() % 60_000
        self._bridge = f"otc{self._number}"
        self._subnet = f"10.{200 + self._number % 50}.{self._number % 250}"
        self.brokers = tuple(range(1, count + 1))
        self.host = f"{self._subnet}.254"
        """Where this machine is found by the brokers."""

    def address(self, broker_id: int) -> str:
        """Where a broker is found."""
        return f"{self._subnet}.{broker_id}"

    def inside(self, broker_id: int) -> tuple[str, ...]:
        """The command that runs another one there where a broker belongs, in the same process."""
        return ("nsenter", f"--net=/run/netns/{self._namespace(broker_id)}")

    def __enter__(self) -> "BrokerNetwork":
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{self.host}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        for broker_id in self.brokers:
            namespace, outer = self._namespace(broker_id), self._outer(broker_id)
            _run("ip", "netns", "add", namespace)
            _run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            _run("ip", "link", "set", outer, "master", self._bridge, "up")
            for arguments in (
                ("addr", "add", f"{self.address(broker_id)}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                _run("ip", "-n", namespace, *arguments)
            self._nft(broker_id, "add", "table", "ip", TABLE)
            for hook in ("input", "output"):
                self._nft(broker_id, "add", "chain", "ip", TABLE, hook, f"{{ type filter hook {hook} priority 0 ; }}")
        return self

    def __exit__(self, *_: object) -> None:
        for broker_id in self.brokers:
            # A namespace ends some time after it is deleted, and its devices with it, whose names are needed again.
            _run("ip", "link", "del", self._outer(broker_id))
            _run("ip", "netns", "del", self._namespace(broker_id))
        _run("ip", "link", "del", self._bridge)

    def cut_out(self, broker_id: int, others: Iterable[int]) -> None:
        """Nothing that a broker sends to the others arrives."""
        self._nft(broker_id, "add", "rule", "ip", TABLE, "output", "ip", "daddr", self._set(others), "drop")

    def cut_in(self, broker_id: int, others: Iterable[int]) -> None:
        """Nothing that the others send to a broker arrives."""
        self._nft(broker_id, "add", "rule", "ip", TABLE, "input", "ip", "saddr", self._set(others), "drop")

    def cut_ports(self, broker_id: int, ports: Iterable[int]) -> None:
        """A broker and what listens at these ports of this machine hear nothing of each other."""
        listed = f"{{ {', '.join(map(str, ports))} }}"
        self._nft(
            broker_id, "add", "rule", "ip", TABLE, "output", "ip", "daddr", self.host, "tcp", "dport", listed, "drop"
        )
        self._nft(
            broker_id, "add", "rule", "ip", TABLE, "input", "ip", "saddr", self.host, "tcp", "sport", listed, "drop"
        )

    def heal(self) -> None:
        """Everything arrives again."""
        for broker_id in self.brokers:
            self._nft(broker_id, "flush", "table", "ip", TABLE)

    def _namespace(self, broker_id: int) -> str:
        return f"{self._bridge}n{broker_id}"

    def _outer(self, broker_id: int) -> str:
        return f"{self._bridge}v{broker_id}"

    def _set(self, broker_ids: Iterable[int]) -> str:
        return f"{{ {', '.join(map(self.address, broker_ids))} }}"

    def _nft(self, broker_id: int, *arguments: str) -> None:
        _run("ip", "netns", "exec", self._namespace(broker_id), "nft", *arguments)


def _install_nftables() -> bool:
    command = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "nftables")
    try:
        subprocess.run(("apt-get", "update", "-qq"), capture_output=True, check=False)
        subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return False
    return shutil.which("nft") is not None


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokerNetworkError(f"{' '.join(command)}: {done.stderr.strip()}")
