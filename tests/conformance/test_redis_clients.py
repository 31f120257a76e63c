"""What other clients of Redis get of a broker is what they get of a Redis server: ioredis, go-redis, redis-cli."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.clients.peer_programs import go_redis_program, ioredis_program
from tests.conformance.needed_peers import needed_peer
from tests.system.redis_address import redis_address
from tools.redis_server import RedisServer, install

Address = tuple[str, int]

pytestmark = [pytest.mark.peer, pytest.mark.alone("it compares one broker with one Redis server")]

WITHIN_S = 120


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, Address]]:
    try:
        install()
    except RuntimeError as reason:
        pytest.skip(str(reason))
    directory = tmp_path_factory.mktemp("redis")
    broker = BrokerProcess(directory / "data", {"redis.listener": "127.0.0.1:0"})
    with RedisServer(directory) as redis, broker:
        yield redis_address(broker), redis.address


def said(command: Sequence[str], text: str | None = None) -> str:
    """What a program prints, which ends well."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(command: Sequence[str]) -> list[Any]:
    """The lines of JSON that a program prints."""
    return [json.loads(line) for line in said(command).splitlines()]


def test_ioredis_gets_what_redis_answers(servers: tuple[Address, Address]) -> None:
    with needed_peer():
        program = ioredis_program()
    ours, theirs = (lines(["node", str(program), host, str(port)]) for host, port in servers)
    assert ours == theirs
    assert ours[-2:] == [["waited", [["later", [["5-5", ["n", "käse"]]]]]], ["nothing", None]]


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_go_redis_gets_what_redis_answers(servers: tuple[Address, Address], protocol: str) -> None:
    with needed_peer():
        program = go_redis_program()
    ours, theirs = (lines([str(program), f"{host}:{port}", protocol]) for host, port in servers)
    assert ours == theirs
    assert ours[-1][0] == "waited"


CLI_COMMANDS = """
DEL jobs
XADD jobs 1-1 name tea count 2
XADD jobs 1-1 name tea
XADD jobs 2-* "a b" "c\\nd"
XGROUP CREATE jobs workers 0
XREADGROUP GROUP workers alice COUNT 1 STREAMS jobs >
XPENDING jobs workers
XACK jobs workers 1-1
XRANGE jobs - +
XREAD COUNT 1 STREAMS jobs 0
XLEN jobs
TYPE jobs
MULTI
XADD jobs 3-0 n 1
XLEN jobs
EXEC
XINFO GROUPS jobs
XTRIM jobs MAXLEN 0
OBJECT ENCODING jobs
"""


@pytest.mark.parametrize("options", [[], ["-3"], ["--csv"], ["--json"]], ids=str)
def test_redis_cli_shows_what_redis_answers(servers: tuple[Address, Address], options: list[str]) -> None:
    def shown(address: Address) -> str:
        return said(["redis-cli", "-h", address[0], "-p", str(address[1]), *options], CLI_COMMANDS)

    assert shown(servers[0]) == shown(servers[1])


def test_redis_cli_scans_keys(servers: tuple[Address, Address]) -> None:
    def shown(address: Address) -> list[str]:
        cli = ["redis-cli", "-h", address[0], "-p", str(address[1])]
        said([*cli, "FLUSHALL"])
        said(cli, "".join(f"XADD key{number} 1-1 n v\n" for number in range(25)))
        return sorted(said([*cli, "--scan"]).split())

    assert shown(servers[0]) == shown(servers[1])
