"""The settings of several brokers follow from those of one."""

from pathlib import Path

import pytest

from ottla.server.local_cluster import broker_settings, shared_location
from ottla.settings.definition import InvalidSettingError


def test_directories_and_addresses_follow_those_of_the_first():
    given = {
        "log.dirs": "/d",
        "listeners": "A://h:9092,B://:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
    }
    first, second, third = broker_settings({**given, "advertised.listeners": "A://out:19092", "num.partitions": "3"}, 3)
    assert first == {**given, "advertised.listeners": "A://out:19092", "num.partitions": "3"}
    assert [each["log.dirs"] for each in (second, third)] == ["/d/brokers/2", "/d/brokers/3"]
    assert [each["listeners"] for each in (second, third)] == ["A://h:9093,B://:0", "A://h:9094,B://:0"]
    assert third["advertised.listeners"] == "A://out:19094"
    assert second["num.partitions"] == "3"
    assert "node.id" not in second


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_numbers_follow_that_of_the_first_when_it_has_one(name: str):
    _, second = broker_settings({"log.dirs": "/d", name: "7"}, 2)
    assert second["node.id"] == "8"
    assert "broker.id" not in second


def test_there_are_no_ports_beyond_the_last():
    with pytest.raises(InvalidSettingError, match="no port 65536 for broker 2"):
        broker_settings({"log.dirs": "/d", "listeners": "PLAINTEXT://:65535"}, 2)


def test_the_store_lies_with_the_first_unless_it_is_said_where():
    given = {"log.dirs": "/d"}
    assert [shared_location(given, each) for each in (None, "embedded", "embedded:/x")] == [
        "embedded:/d",
        "embedded:/d",
        "embedded:/x",
    ]
    assert shared_location({"log.dirs": "here"}, None) == f"embedded:{Path.cwd() / 'here'}"
