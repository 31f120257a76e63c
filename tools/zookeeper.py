"""ZooKeeper servers for tests and for trying a cluster out: one, or an ensemble, on this machine.

    python -m tools.zookeeper --servers 3 [--data DIR]

Installs Debian's package `zookeeper` when it is missing, starts the servers on free ports, prints what to give to
`ottla serve --metadata`, and stops them at Ctrl-C. Without --data what they keep is gone with them. Their ticks are
short, so that sessions end fast: for tests, not for production.
"""

import argparse
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tools.debian import require_packages
from tools.ports import free_ports

JAR = Path("/usr/share/java/zookeeper.jar")
CODEC = JAR.with_name("netty-codec.jar")
"""What TLS needs besides; the package names all but this one in its class path."""
TICK_MS = 200
READY_S = 300.0
ELECTION_MS_MAX = 1_000
"""How long a server that elects waits before it asks the others again; by default up to 60 s, doubled each time: who
missed a word of servers that started with it would wait for most of a minute."""
JAVA = (
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    f"-Dzookeeper.fastleader.maxNotificationInterval={ELECTION_MS_MAX}",
)

TLS = {
    "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
    "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
}


def install() -> None:
    """See that ZooKeeper is installed. Raises RuntimeError with what to do when it cannot be."""
    java = () if shutil.which("java") else ("default-jre-headless",)
    require_packages("ZooKeeper", lambda: JAR.exists() and shutil.which("java") is not None, "zookeeper", *java)


class ZooKeeperServers:
    """Servers that can be stopped, killed and started again one by one; each keeps its port and its data."""

    def __init__(
        self,
        directory: Path,
        count: int = 1,
        *,
        settings: dict[str, str] | None = None,
        host: str = "127.0.0.1",
        tls: dict[str, str] | None = None,
    ) -> None:
        """`host` is the address of this machine at which clients find them.

        `tls` are ZooKeeper's settings that begin with `ssl.`; with them `hosts` are the ports that speak TLS.
        """
        install()
        self._host = host
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * count
        ports = free_ports(4 * count)
        self.ports = ports[:count]
        """The ports of the clients, without TLS."""
        self._advertised = self.ports if tls is None else ports[3 * count :]
        common = {
            "tickTime": str(TICK_MS),
            "initLimit": "50",
            "syncLimit": "10",
            "minSessionTimeout": str(2 * TICK_MS),
            "maxSessionTimeout": "600000",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": "0",
            **({} if tls is None else TLS | tls),
            **(settings or {}),
        }
        if count > 1:
            for number in range(count):
                common[f"server.{number + 1}"] = f"127.0.0.1:{ports[count + number]}:{ports[2 * count + number]}"
        for number in range(count):
            home = self._home(number)
            home.mkdir(parents=True)
            (home / "myid").write_text(f"{number + 1}\n")
            own = {"dataDir": str(home), "clientPort": str(self.ports[number]), "clientPortAddress": host}
            if tls is not None:
                own |= {"secureClientPort": str(self._advertised[number]), "secureClientPortAddress": host}
            self._config(number).write_text("".join(f"{key}={value}\n" for key, value in {**common, **own}.items()))

    @property
    def hosts(self) -> str:
        """All servers, as a client wants them."""
        return ",".join(f"{self._host}:{port}" for port in self._advertised)

    def location(self, node: str = "ottla") -> str:
        """Where a broker keeps its metadata: what `--metadata` takes."""
        return f"zookeeper://{self.hosts}/{node}"

    def start(self) -> "ZooKeeperServers":
        """Start those that do not run, and wait until they serve."""
        for number, process in enumerate(self._processes):
            if process is None:
                self.start_one(number)
        self.wait_until_ready()
        return self

    def start_one(self, number: int) -> None:
        """Begin to start one."""
        command = ["java", *JAVA, "-cp", f"{JAR}:{CODEC}", "org.apache.zookeeper.server.quorum.QuorumPeerMain"]
        with (self._home(number) / "log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                [*command, str(self._config(number))], stdout=log, stderr=log, start_new_session=True
            )

    def wait_until_ready(self) -> None:
        """Wait until those that run serve clients."""
        end = time.monotonic() + READY_S
        for number, process in enumerate(self._processes):
            while process is not None and not self.mode(number):
                if process.poll() is not None or time.monotonic() > end:
                    log = (self._home(number) / "log").read_text()
                    raise RuntimeError(f"ZooKeeper server {number} does not serve: {log[-2000:]}")
                time.sleep(0.05)

    def mode(self, number: int) -> str:
        """`standalone`, `leader` or `follower`; empty when it serves nobody."""
        try:
            with socket.create_connection((self._host, self.ports[number]), timeout=2) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        except OSError:
            return ""
        return next((line.split()[1] for line in answer.splitlines() if line.startswith("Mode:")), "")

    def leader(self) -> int:
        """Which of them leads, once one does."""
        end = time.monotonic() + READY_S
        while True:
            for number in range(len(self.ports)):
                if self.mode(number) in ("leader", "standalone"):
                    return number
            if time.monotonic() > end:
                raise RuntimeError(f"none of the ZooKeeper servers has led for {READY_S:g} s")
            time.sleep(0.05)

    def kill(self, number: int) -> None:
        """End one at once."""
        self._end(number, signal.SIGKILL)

    def pause(self, number: int) -> None:
        """Stop one in its tracks."""
        self._running(number).send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let it go on."""
        self._running(number).send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End all of them."""
        for number, process in enumerate(self._processes):
            if process is not None:
                self._end(number, signal.SIGKILL)

    def _running(self, number: int) -> "subprocess.Popen[bytes]":
        process = self._processes[number]
        assert process is not None, f"server {number} does not run"
        return process

    def _end(self, number: int, signal_number: int) -> None:
        process = self._running(number)
        process.send_signal(signal_number)
        process.wait()
        self._processes[number] = None

    def _home(self, number: int) -> Path:
        return self._directory / f"server-{number + 1}"

    def _config(self, number: int) -> Path:
        return self._home(number) / "zoo.cfg"

    def __enter__(self) -> "ZooKeeperServers":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def main() -> None:
    """Run servers until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Run ZooKeeper servers for tests.")
    parser.add_argument("--servers", type=int, default=1, choices=(1, 3, 5))
    parser.add_argument("--data", type=Path, help="a new directory for what they keep")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-zookeeper-") as temporary:
        try:
            servers = ZooKeeperServers(options.data or Path(temporary), options.servers)
        except (RuntimeError, OSError) as error:
            sys.exit(f"tools.zookeeper: {error}")
        with servers:
            print(f"ready: ottla serve --metadata {servers.location()}", flush=True)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            with suppress(KeyboardInterrupt):
                signal.pause()


if __name__ == "__main__":
    main()
