"""Random scripts of stream commands, against a broker and Redis; `python -m tools.redis_server` runs many more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.conformance.redis_comparison import Address, compare
from tests.conformance.redis_pairs import drawn_pair
from tests.conformance.redis_scripts import drawn_script
from tests.conformance.redis_steps import Step
from tests.redis_client import RawRedis
from tests.system.redis_address import redis_address
from tools.redis_server import RedisServer, install

pytestmark = [pytest.mark.peer, pytest.mark.alone("it compares one broker with one Redis server")]


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


@pytest.mark.parametrize("seed", range(8))
def test_replies_are_those_of_redis(servers: tuple[Address, Address], seed: int) -> None:
    ours, theirs = servers
    difference = compare([ours], [theirs], seed, drawn_script(seed, 400), together=50 if seed % 4 else 1)
    assert difference is None, difference


@pytest.mark.parametrize("seed", range(6))
def test_two_clients_that_take_turns_get_the_replies_of_redis(servers: tuple[Address, Address], seed: int) -> None:
    ours, theirs = servers
    difference = compare([ours] * 2, [theirs] * 2, seed, drawn_pair(seed, 400, waits=True))
    assert difference is None, difference


@pytest.mark.parametrize("protocol", [2, 3])
def test_copies_are_those_of_redis(servers: tuple[Address, Address], protocol: int) -> None:
    script = """
        XADD s 1-1 a 1 b 2
        XADD s 2-1 a 1 b 2
        XADD s 3-1 c 3
        XGROUP CREATE s g 0
        XGROUP CREATE s h 2-1 ENTRIESREAD 2
        XREADGROUP GROUP g alice COUNT 1 STREAMS s >
        XREADGROUP GROUP g bob STREAMS s >
        XGROUP CREATECONSUMER s h carol
        XDEL s 1-1
        EXPIRE s 100000
        COPY s t
        COPY s t
        COPY s t REPLACE
        copy s t replace replace db 3 DB 0
        COPY none t REPLACE
        COPY s s
        COPY s s REPLACE
        COPY s s DB 1
        COPY s t DB 16
        COPY s t DB -1
        COPY s t DB x
        COPY s t DB 99999999999
        COPY s t DB
        COPY s t NOSUCH
        COPY s s NOSUCH
        COPY s
        COPY
        XRANGE t - +
        XINFO STREAM t FULL
        XINFO STREAM t
        XINFO GROUPS t
        XINFO CONSUMERS t g
        XPENDING t g
        XPENDING t g - + 10
        TTL t
        XADD t 3-1 n v
        XADD t 3-2 n v
        XLEN s
        XREADGROUP GROUP g bob STREAMS t >
        XACK t g 2-1
        XPENDING s g
        DEL t
        EXISTS s t
        SELECT 1
        XRANGE s - +
        XINFO STREAM s FULL
        MULTI
        COPY s u
        XLEN u
        COPY s s
        COPY s u
        COPY s s DB 0
        EXEC
        SELECT 3
        COPY s t DB 0
        COMMAND GETKEYS COPY s t REPLACE
    """
    steps = [Step(0, tuple(line.split())) for line in script.strip().splitlines()]
    difference = compare([servers[0]], [servers[1]], protocol, [steps])
    assert difference is None, difference


def test_setting_a_group_back_wakes_nobody(servers: tuple[Address, Address]) -> None:
    replies = []
    for server in servers:
        with RawRedis(server) as client, RawRedis(server) as waiting:
            client.call("FLUSHALL")
            client.call("XADD", "s", "1-0", "n", "1")
            client.call("XGROUP", "CREATE", "s", "g", "$")
            waiting.send("XREADGROUP", "GROUP", "g", "alice", "BLOCK", "0", "STREAMS", "s", ">")
            wait_until(lambda client=client: _waiting(client) == 1, "it waits")  # type: ignore[misc]
            said = client.pipeline([("XGROUP", "SETID", "s", "g", "0"), ("XPENDING", "s", "g"), ("XLEN", "s")])
            replies.append([*said, _waiting(client), client.call("XADD", "s", "2-0", "n", "2"), waiting.reply()])
    assert replies[0] == replies[1]
    assert replies[0][3] == 1


def _waiting(client: RawRedis) -> int:
    (line,) = (each for each in client.call("INFO", "clients").split(b"\r\n") if each.startswith(b"blocked_clients"))
    return int(line.partition(b":")[2])
