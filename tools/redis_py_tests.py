"""The stream tests of redis-py itself, with both protocols, against a broker, or against one of a cluster.

python -m tools.redis_py_tests [--brokers 3]

They come with redis-py's sources, of the version that is installed, and are kept in `.peers/`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.cluster import Cluster
from tests.system.redis_address import redis_address
from tools.peers import PEERS, PeerUnavailableError, fetch

FILES = ("tests/test_commands.py", "tests/test_asyncio/test_commands.py")
CHOSEN = "test_x or stream"
PROTOCOLS = ("2", "3")
SETTINGS = {"redis.listener": "127.0.0.1:0", "default.replication.factor": "3", "min.insync.replicas": "2"}


def sources() -> Path:
    """The folder with redis-py's tests. Raises PeerUnavailableError."""
    name = f"redis-{version('redis')}"
    folder = PEERS / name
    if not folder.exists():
        PEERS.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PEERS) as temporary:
            wanted = name.replace("redis-", "redis==")
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "redis", wanted]
            said = fetch(pip, Path(temporary))
            if said is not None:
                raise PeerUnavailableError(f"redis-py: its sources cannot be had: {said[-300:]}")
            with tarfile.open(Path(temporary) / f"{name}.tar.gz") as archive:
                archive.extractall(temporary, filter="data")
            (Path(temporary) / name / "redis").rename(Path(temporary) / "not-the-installed-one")
            (Path(temporary) / name).rename(folder)
    return folder


def run(folder: Path, address: tuple[str, int]) -> int:
    """Run the tests against a server; the exit code of the first run that failed."""
    for protocol in PROTOCOLS:
        url = f"redis://{address[0]}:{address[1]}/0"
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore", "-k", CHOSEN]
        command = [sys.executable, "-m", "pytest", *options, *FILES, "--redis-url", url, "--protocol", protocol]
        print(f"redis-py {version('redis')}, protocol {protocol}", flush=True)
        code = subprocess.run(command, cwd=folder, check=False).returncode
        if code:
            return code
    return 0


def main(arguments: list[str]) -> int:
    """Run them; 1 when the tests cannot be had."""
    parser = argparse.ArgumentParser(description="Run redis-py's stream tests")
    parser.add_argument("--brokers", type=int, default=1, help="how many brokers there are; the last one is asked")
    count = parser.parse_args(arguments).brokers
    try:
        folder = sources()
    except PeerUnavailableError as reason:
        print(reason, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory:
        if count == 1:
            with BrokerProcess(Path(directory) / "data", {"redis.listener": SETTINGS["redis.listener"]}) as broker:
                return run(folder, redis_address(broker))
        with Cluster(Path(directory), count, SETTINGS) as cluster:
            cluster.wait_until_registered()
            return run(folder, redis_address(cluster.brokers[count]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
