"""A Redis server of Debian to compare with, which keeps what it answers on disk.

python -m tools.redis_server --commands 200000        random scripts against it and a broker, reply by reply
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.ports import free_ports

PATIENTLY = ("-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300")
SCRIPT_COMMANDS = 500
CLUSTER_SETTINGS = {"redis.listener": "127.0.0.1:0", "default.replication.factor": "3", "min.insync.replicas": "1"}
MOVING = frozenset({"RENAME", "RENAMENX"})
"""What is refused where several brokers lead the keys, as happens when topics are replaced."""


def install() -> None:
    """See that redis-server is installed. Raises RuntimeError with what to do when it cannot be."""
    with (Path(tempfile.gettempdir()) / f"ottla-redis-{os.geteuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if shutil.which("redis-server"):
            return
        before = ["sudo", "-n"] if os.geteuid() != 0 else []
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        print("installing redis-server", file=sys.stderr, flush=True)
        update = ["apt-get", *PATIENTLY, "update", "-qq"]
        command = ["apt-get", *PATIENTLY, "install", "-y", "-qq", "--no-install-recommends", "redis-server"]
        advice = "install redis-server (Debian: apt-get install redis-server)"
        try:
            subprocess.run([*before, *update], env=environment, capture_output=True, check=False)
            done = subprocess.run([*before, *command], env=environment, capture_output=True, text=True, check=False)
        except OSError as error:
            raise RuntimeError(f"{advice}: {error}") from error
        if done.returncode:
            raise RuntimeError(f"{advice}: {done.stderr.strip()}")


class RedisServer:
    """One server in a directory, while the block lasts."""

    def __init__(self, directory: Path, *, fsync: str = "everysec") -> None:
        """`fsync` is Redis' `appendfsync`."""
        (port,) = free_ports(1)
        self.address = "127.0.0.1", port
        self._directory = directory
        self._fsync = fsync
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = ["redis-server", "--port", str(self.address[1]), "--dir", str(self._directory), "--save", ""]
        command += ["--bind", self.address[0], "--appendonly", "yes", "--appendfsync", self._fsync]
        self._process = process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if "Ready to accept connections" in line:
                return self
        raise RuntimeError("redis-server did not start")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()


def main() -> int:
    """Compare; 1 when replies differ."""
    from tests.cluster import Cluster
    from tests.conformance.redis_scripts import compare, lead_all
    from tests.system.redis_address import redis_address

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--brokers", type=int, default=1, help="of several, one is asked for keys that another leads")
    given = parser.parse_args()
    install()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with RedisServer(directory) as redis, Cluster(directory, given.brokers, CLUSTER_SETTINGS) as cluster:
            cluster.wait_until_registered()
            leader, *others = (redis_address(broker) for broker in cluster.brokers.values())
            asked = others[-1] if others else leader
            done, seed, different = 0, given.seed, 0
            while done < given.commands:
                if others:
                    lead_all(leader)
                without = MOVING if others else frozenset[str]()
                count, difference = compare(asked, redis.address, seed, SCRIPT_COMMANDS, without=without)
                done += count
                seed += 1
                if difference is not None:
                    different += 1
                    print(difference, flush=True)
    print(f"{done:,} commands in {seed - given.seed:,} scripts: {different} differ")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
