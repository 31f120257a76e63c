"""Fixtures every suite may use."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.broker_process import BrokerProcess
from tests.cluster import Cluster
from tests.shared_broker import shared_broker

# How long an example takes, or is looked for, says what else the machine does. Examples are the same in each run, so
# that a test which fails says something about the change; `make explore` looks for new ones.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ottla", UNTIMED, derandomize=True)
settings.register_profile("explore", UNTIMED, max_examples=1_000)
settings.load_profile("ottla")

# A shell has what it runs in the background ignore it, and the programs that the tests start and interrupt would too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let one process run the tests that share a fixture of their module; the others are run by whichever is free."""
    for item in items:
        fixtures = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
        is_shared = any(each.scope == "module" for definitions in fixtures.values() for each in definitions)
        if is_shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
        group = item.get_closest_marker("xdist_group")
        if group is not None and config.getoption("loadgroup", False):
            # pytest-xdist 3.8 writes the group to where pytest 9.2 does not read it: it would have no effect.
            item._id = item.id.parse(f"{item.nodeid}@{group.args[0]}")
            assert item.nodeid.endswith(f"@{group.args[0]}")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One running broker for all tests that do not stop it; each test makes topics and groups of its own."""
    with shared_broker(tmp_path_factory.mktemp("broker")) as process:
        yield process


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Makes brokers that a test may stop, kill and restart; what still runs at the end is killed."""
    made: list[BrokerProcess] = []

    def make(name: str = "data", **settings: str) -> BrokerProcess:
        process = BrokerProcess(tmp_path / name, {key.replace("_", "."): value for key, value in settings.items()})
        made.append(process)
        return process

    yield make
    for process in made:
        process.kill()


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Makes clusters of broker processes that a test may kill, pause and restart; all are killed at the end."""
    made: list[Cluster] = []

    def make(count: int = 3, metadata: str | None = None, **settings: str) -> Cluster:
        directory = tmp_path / f"cluster-{len(made)}"
        directory.mkdir()
        cluster = Cluster(directory, count, {key.replace("_", "."): value for key, value in settings.items()}, metadata)
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.kill()
