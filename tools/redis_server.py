"""A Redis server of Debian to compare with, which keeps what it answers on disk.

python -m tools.redis_server --commands 200000        random scripts against it and a broker, reply by reply
python -m tools.redis_server --oracle valkey          the same with Valkey
python -m tools.redis_server --clients 2              of two clients that take turns
python -m tools.redis_server --together 1             without pipelines
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
MOVING = frozenset({"RENAMENX", "MOVE", "FLUSHDB"})
"""What is refused where another broker leads a key that was deleted just now, or within MULTI by several brokers."""


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
    """Compare; 1 when replies differ, or a server does not answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--brokers", type=int, default=1, help="of several, others than the leader are asked")
    parser.add_argument("--oracle", choices=("redis", "valkey"), default="redis", help="what is compared with")
    parser.add_argument("--clients", type=int, choices=(1, 2), default=1, help="two take turns, with transactions")
    parser.add_argument("--together", type=int, default=50, help="commands in a pipeline")
    given = parser.parse_args()
    program = "redis-server"
    if given.oracle == "valkey":
        program = str(valkey.install())
    else:
        install()
    with tempfile.TemporaryDirectory() as name:
        return _compare(Path(name), program, given)


def _compare(directory: Path, program: str, given: argparse.Namespace) -> int:
    from tests.cluster import Cluster
    from tests.conformance.redis_comparison import NoReplyError, compare, lead_all
    from tests.conformance.redis_pairs import drawn_pair
    from tests.conformance.redis_scripts import drawn_script
    from tests.system.redis_address import redis_address

    done, seed, different, silence = 0, given.seed, 0, ""
    with (
        RedisServer(directory, program=program) as redis,
        Cluster(directory, given.brokers, CLUSTER_SETTINGS) as cluster,
    ):
        cluster.wait_until_registered()
        leader, *others = (redis_address(broker) for broker in cluster.brokers.values())
        asked = [others[-1 - client] if others else leader for client in range(given.clients)]
        while done < given.commands and not silence:
            if others:
                lead_all(leader)
            if given.clients > 1:
                drawn = drawn_pair(seed, SCRIPT_COMMANDS, waits=not others)
            else:
                drawn = drawn_script(seed, SCRIPT_COMMANDS)
            script = [some for some in drawn if not others or all(_is_for_several(step.command) for step in some)]
            try:
                peers, nests = [redis.address] * given.clients, given.oracle == "redis"
                difference = compare(asked, peers, seed, script, together=given.together, nests=nests)
            except NoReplyError as error:
                difference = silence = str(error)
            done += sum(map(len, script))
            seed += 1
            if difference is not None:
                different += 1
                print(difference, flush=True)
    print(f"{done:,} commands in {seed - given.seed:,} scripts: {different} differ")
    if silence:
        print("ended early: a server did not answer")
    return int(different > 0)


def _is_for_several(words: tuple[str | bytes, ...]) -> bool:
    """Whether several brokers answer a command as one server."""
    if words[0] == "XREADGROUP":  # of several leaders, one may refuse what others have given out
        return len(words) - words.index("STREAMS") <= 3
    return words[0] not in MOVING


if __name__ == "__main__":
    sys.exit(main())
