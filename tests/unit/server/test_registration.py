"""A broker tells the others where they find it, and how it stopped."""

from pathlib import Path

import pytest

from ottla.metadata.registration import BrokerRegistration
from ottla.network.address import Address
from ottla.runtime.rng import SeededRng
from ottla.server.registration import name_of_host, registration_of
from ottla.settings.broker_settings import BrokerSettings
from tests.unit.storage.data_directory import opened


async def registration(
    path: Path, addresses: dict[str, Address], host_name: str | None, **settings: str
) -> BrokerRegistration:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    async with opened(path) as directory:
        await directory.manager.identify("c", 1)

        said = registration_of(BrokerSettings(given), addresses, directory.manager, SeededRng(0), host_name)
        directory.manager.used_by(7)
        return said


@pytest.mark.parametrize(
    ("bound", "host_name", "endpoint", "told"),
    [
        ("10.0.0.5", None, "10.0.0.5", None),
        ("10.0.0.5", "b1", "10.0.0.5", "10.0.0.5"),
        ("0.0.0.0", None, "127.0.0.1", None),
        ("::", None, "::1", None),
        ("0.0.0.0", "b1", "b1", "b1"),
    ],
)
async def test_a_broker_is_found_where_it_listens(
    tmp_path: Path, bound: str, host_name: str | None, endpoint: str, told: str | None
):
    said = await registration(tmp_path, {"PLAINTEXT": Address(bound, 9092)}, host_name)
    assert (dict(said.endpoints), said.host, said.port) == ({"PLAINTEXT": (endpoint, 9092)}, told, 9092)


async def test_what_is_advertised_stands_over_it(tmp_path: Path):
    said = await registration(
        tmp_path,
        {"OUT": Address("0.0.0.0", 9092), "IN": Address("10.0.0.5", 9093)},
        None,
        listeners="OUT://:9092,IN://10.0.0.5:9093",
        listener_security_protocol_map="OUT:PLAINTEXT,IN:PLAINTEXT",
        advertised_listeners="OUT://kafka.example:19092",
        broker_rack="r1",
        log_flush_before_ack="false",
    )
    assert dict(said.endpoints) == {"OUT": ("kafka.example", 19092), "IN": ("10.0.0.5", 9093)}
    assert (said.host, said.port, said.rack, said.flush) == ("kafka.example", 19092, "r1", False)


async def test_how_it_stopped_and_which_directory_it_has_is_read_from_there(tmp_path: Path):
    first = await registration(tmp_path, {"PLAINTEXT": Address("::1", 1)}, None)
    second = await registration(tmp_path, {"PLAINTEXT": Address("::1", 1)}, None)
    third = await registration(tmp_path, {"PLAINTEXT": Address("::1", 1)}, None)
    assert [(each.clean_since, each.previous_epoch) for each in (first, second, third)] == [(-1, -1), (7, 7), (7, 7)]
    assert first.directories == second.directories
    assert len(first.directories) == 1


def test_only_a_store_that_other_hosts_reach_has_brokers_of_other_hosts():
    assert [name_of_host(each) for each in ("embedded", "embedded:/x")] == [None, None]
    assert name_of_host("zookeeper://a:2181/ottla")
