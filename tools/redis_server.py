"""A Redis server of Debian to compare with, which keeps what it answers on disk.

python -m tools.redis_server --commands 200000        random scripts against it and a broker, reply by reply
python -m tools.redis_server --oracle valkey          the same with Valkey
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tools import valkey
from tools.debian import require_packages
from tools.ports import free_ports

SCRIPT_COMMANDS = 500
CLUSTER_SETTINGS = {"redis.listener": "127.0.0.1:0", "default.replication.factor": "3", "min.insync.replicas": "1"}
MOVING = frozenset({"RENAMENX"})
"""What is refused where another broker leads a key that was deleted just now."""


def install() -> None:
    """See that redis-server is installed. Raises RuntimeError with what to do when it cannot be."""
    require_packages("redis-server", lambda: shutil.which("redis-server") is not None, "redis-server")


class RedisServer:
    """One server in a directory, while the block lasts."""

    def __init__(self, directory: Path, *, fsync: str = "everysec", program: str = "redis-server") -> None:
        """`fsync` is Redis' `appendfsync`."""
        (port,) = free_ports(1)
        self.address = "127.0.0.1", port
        self._directory = directory
        self._fsync = fsync
        self._program = program
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = [self._program, "--port", str(self.address[1]), "--dir", str(self._directory), "--save", ""]
        command += ["--bind", self.address[0], "--appendonly", "yes", "--appendfsync", self._fsync]
        self._process = process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if "Ready to accept connections" in line:
                return self
        raise RuntimeError(f"{self._program} did not start")

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
    parser.add_argument("--oracle", choices=("redis", "valkey"), default="redis", help="what is compared with")
    given = parser.parse_args()
    program = "redis-server"
    if given.oracle == "valkey":
        program = str(valkey.install())
    else:
        install()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with (
            RedisServer(directory, program=program) as redis,
            Cluster(directory, given.brokers, CLUSTER_SETTINGS) as cluster,
        ):
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
