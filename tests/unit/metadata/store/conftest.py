"""Stores of every engine, and parties to them in processes of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.metadata.store.party import Party
from tools.zookeeper import ZooKeeperServers

NewParty = Callable[..., Party]


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServers]:
    """One ZooKeeper server for all tests that do not stop it; each uses a node of its own."""
    with ZooKeeperServers(tmp_path_factory.mktemp("zookeeper") / "servers") as servers:
        yield servers


@pytest.fixture(params=["embedded", "zookeeper"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store is, of each engine."""
    if request.param == "embedded":
        return f"embedded:{tmp_path / 'store'}"
    servers: ZooKeeperServers = request.getfixturevalue("zookeeper")
    return servers.location(f"tests/{tmp_path.name}")


@pytest.fixture
def new_party(location: str) -> Iterator[NewParty]:
    """Starts parties to one store; all are killed at the end."""
    parties: list[Party] = []

    def new(**options: int) -> Party:
        parties.append(Party(location, **options))
        return parties[-1]

    yield new
    for party in parties:
        party.kill()
