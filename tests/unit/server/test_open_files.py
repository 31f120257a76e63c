"""How the limit on open files is shared, and what it means for connections."""

import logging

import pytest

from ottla.network.config import NetworkConfig
from ottla.server.open_files import CONNECTIONS_MAX, OpenFileShares
from ottla.settings.broker_settings import BrokerSettings


@pytest.mark.parametrize("limit", [8, 64, 256, 1024, 4096, 20_000, 1_048_576])
def test_sockets_never_take_what_data_needs(limit: int):
    shares = OpenFileShares.of(limit)
    assert shares.connections + shares.written + shares.read < limit
    assert shares.kept <= shares.read
    assert min(shares.connections, shares.written, shares.kept, shares.read) >= 1


def test_a_large_limit_goes_to_the_connections():
    assert OpenFileShares.of(20_000).connections == 14_624


@pytest.mark.parametrize("limit", [-1, 10_000_000])
def test_without_a_limit_on_files_there_is_one_on_connections(limit: int):
    assert OpenFileShares.of(limit).connections == CONNECTIONS_MAX


def test_connections_that_were_not_set_follow_the_limit(caplog: pytest.LogCaptureFixture):
    assert NetworkConfig.from_settings(BrokerSettings(), 512).max_connections == 512
    assert not caplog.records


def test_fewer_connections_may_be_set():
    assert NetworkConfig.from_settings(BrokerSettings({"max.connections": "100"}), 512).max_connections == 100


def test_more_connections_than_there_is_room_for_are_not_accepted(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        config = NetworkConfig.from_settings(BrokerSettings({"max.connections": "5000"}), 512)
    assert config.max_connections == 512
    assert "max.connections is 5000" in caplog.text
    assert "ulimit -n" in caplog.text
