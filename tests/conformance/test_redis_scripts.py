"""Random scripts of stream commands, against a broker and Redis; `python -m tools.redis_server` runs many more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.redis_scripts import compare
from tests.system.redis_address import redis_address
from tools.redis_server import RedisServer, install

pytestmark = [pytest.mark.peer, pytest.mark.alone("it compares one broker with one Redis server")]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    try:
        install()
    except RuntimeError as reason:
        pytest.skip(str(reason))
    directory = tmp_path_factory.mktemp("redis")
    broker = BrokerProcess(directory / "data", {"redis.listener": "127.0.0.1:0"})
    with RedisServer(directory) as redis, broker:
        yield redis_address(broker), redis.address


@pytest.mark.parametrize("seed", range(8))
def test_replies_are_those_of_redis(servers: tuple[tuple[str, int], tuple[str, int]], seed: int) -> None:
    _, difference = compare(*servers, seed, 400)
    assert difference is None, difference
